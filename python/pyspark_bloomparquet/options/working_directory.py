"""Relative paths of a load, made absolute as Spark makes them: below the working directory of the driver's JVM.

A Python worker need not run in that directory: under Spark Connect each session has one of its own, below the
directory of shipped files. The worker's ancestors lead to the JVM.

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
_MOST_ANCESTORS = 8


def absolute(option: str, path: str) -> str:
    """`path` as Spark reads it: a URL and an absolute path as they are, a relative path below the JVM's working
    directory. OptionError, which names `option`, where that directory is not known."""
    if os.path.isabs(path) or _URL.match(path):
        return path
    if path.startswith("file:"):
        raise OptionError(f"option {option} is {quoted(path)}; expected an absolute path in a URL: file:/…/{path[5:]}")
    directory = _jvm_directory()
    if directory is None:
        raise OptionError(
            f"option {option} is {quoted(path)}, a relative path, and the working directory of Spark's JVM, which it "
            f"is relative to, cannot be seen from this Python worker (in {os.getcwd()}); expected an absolute path, "
            f"such as /…/{path}"
        )
    return os.path.join(directory, path)


def _jvm_directory() -> str | None:
    if not any(name.startswith(_WORKER) for name in os.environ):  # no worker of Spark's
        return os.getcwd()
    directory = _java_ancestor_directory()
    if directory is None and os.environ.get(_SESSION, _NO_SESSION) == _NO_SESSION:
        return os.getcwd()  # the JVM starts other workers in its own directory
    return directory


def _java_ancestor_directory() -> str | None:
    """The working directory of the nearest ancestor that is a JVM; None where ``/proc`` does not say."""
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
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
