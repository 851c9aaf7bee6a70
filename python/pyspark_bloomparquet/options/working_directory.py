"""Makes the relative paths of a load absolute, as Spark does: below the working directory of the driver's JVM.

A Python worker may run in another directory: under Spark Connect each session has its own, below the directory of
shipped files. The worker finds the JVM among its ancestor processes.

Source: Spark's ``PythonWorkerFactory`` (``SPARK_JOB_ARTIFACT_UUID``), Hadoop's ``RawLocalFileSystem``.
"""

from __future__ import annotations

import os
import re

from bloomparquet.errors import OptionError, quoted

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:/")
_WORKER = "PYTHON_WORKER_FACTORY_"
_SESSION = "SPARK_JOB_ARTIFACT_UUID"
_NO_SESSION = "default"
_MAX_ANCESTORS = 8


def absolute_path(option: str, path: str) -> str:
    """`path` as Spark reads it: relative paths are below the JVM's working directory; URLs and absolute paths stay.

    Raises OptionError, which names `option`, if that directory cannot be determined.
    """
    if os.path.isabs(path) or _URL.match(path):
        return path
    if path.startswith("file:"):
        raise OptionError(f"option {option} is {quoted(path)}; expected an absolute path in a URL: file:/…/{path[5:]}")
    directory = _jvm_directory()
    if directory is None:
        raise OptionError(
            f"option {option} is {quoted(path)}, a relative path; it is relative to the working directory of Spark's "
            f"JVM, which this Python worker (in {os.getcwd()}) cannot determine; expected an absolute path, such as "
            f"/…/{path}"
        )
    return os.path.join(directory, path)


def _jvm_directory() -> str | None:
    if not any(name.startswith(_WORKER) for name in os.environ):  # not a worker of Spark
        return os.getcwd()
    directory = _java_ancestor_directory()
    if directory is None and os.environ.get(_SESSION, _NO_SESSION) == _NO_SESSION:
        return os.getcwd()  # outside of Spark Connect, the JVM starts workers in its own directory
    return directory


def _java_ancestor_directory() -> str | None:
    """The working directory of the nearest ancestor process that is a JVM. None without ``/proc``, or without a JVM."""
    process = os.getppid()
    for _ in range(_MAX_ANCESTORS):
        try:
            with open(f"/proc/{process}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            if name == "java":
                return os.readlink(f"/proc/{process}/cwd")
        except OSError:
            return None
        process = int(rest.split()[1])
        if process <= 1:
            break
    return None
