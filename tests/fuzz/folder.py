"""The directory for a process's files, and what the planner's cache may keep of them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from unittest.mock import patch

from bloomparquet.planning.cache import plan_cache as cache_of_plans

CACHED = 32
"""How many files the process's cache may know: each plan of a new file looks at them all."""


@cache
def folder() -> Path:
    """A directory for the files of this process, in memory if that is possible."""
    made = Path(tempfile.mkdtemp(prefix=f"bloomparquet-fuzz-{os.getpid()}-", dir=_parent_folder()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _parent_folder() -> Path:
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


def no_wait() -> AbstractContextManager[object]:
    """Plan without the wait for the clock after a file was written. No input changes a file, so no change is missed."""
    return patch.object(cache_of_plans, "wait_for_clock", lambda *_: None)


def remove_folder_of(process: int) -> None:
    """Remove the directory of a process that has ended. libFuzzer ends a process without a chance to clean up."""
    for left in _parent_folder().glob(f"bloomparquet-fuzz-{process}-*"):
        shutil.rmtree(left, ignore_errors=True)
