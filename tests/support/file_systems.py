"""Local files and their directory; file systems with limits; processes with few rights."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bloomparquet.storage.files import FileInfo, LocalStorage

LOCAL = LocalStorage()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others, and mount")


def file_info(path: Path) -> FileInfo:
    (file,) = LOCAL.list_files(str(path), recursive=False)
    return file


def names(path: Path) -> list[str]:
    """The files in the directory of `path`."""
    return sorted(os.listdir(path.parent))


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def run_as_nobody(function: Any) -> int:
    """Run the function as a user who is not root. Returns 0 if it succeeds, 13 if it is not permitted."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgid(65_534)
            os.setuid(65_534)
            function()
            code = 0
        except PermissionError:
            code = 13
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
