"""Faulty local files: the calls of ``os`` on the files below a directory, and reads of their data by pyarrow."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from bloomparquet.storage import open as opening
from tests.faults.injector import Injector

LATE_SECONDS = 0.001

_PATH_CALLS = {
    "open": ("fail", "late"),
    **dict.fromkeys(("stat", "lstat"), ("fail", "size")),
    **dict.fromkeys(("scandir", "listdir", "rename", "replace", "unlink", "mkdir", "rmdir"), ("fail",)),
}
_DESCRIPTOR_CALLS = {
    **dict.fromkeys(("preadv", "pread"), ("fail", "short", "empty", "late")),
    **dict.fromkeys(("fstat", "fchmod"), ("fail",)),
    "write": ("fail", "short", "late"),
    "copy_file_range": ("fail", "short", "empty", "refused"),
    "fsync": ("fail", "late"),
}
_LIES = ("size", "empty")
"""Faults of a storage that says that a file is shorter than it is. Nobody can tell that from a truncated file."""


@contextmanager
def faulty(root: Path, injector: Injector, *, lies: bool = True) -> Iterator[None]:
    """Calls on files below `root` have the faults that `injector` chooses, in this block. `lies`: also those about
    where a file ends."""
    below = str(root)

    def kinds_of(kinds: Sequence[str]) -> Sequence[str]:
        return [kind for kind in kinds if lies or kind not in _LIES]

    def of_path(name: str, original: Callable[..., Any], kinds: Sequence[str]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if not isinstance(path, str | os.PathLike) or not os.fspath(path).startswith(below):
                return original(path, *arguments, **options)
            fault = injector.choose(name, kinds)
            if fault == "fail":
                raise injector.error(os.fspath(path))
            if fault == "late":
                time.sleep(LATE_SECONDS)
            done = original(path, *arguments, **options)
            if fault == "size":
                values = list(done)
                values[6] = injector.lie(done.st_size)
                named = {key: getattr(done, key) for key in dir(done) if key.startswith("st_") and key[-3:] == "_ns"}
                done = os.stat_result(values, {**named, "st_blksize": 4096, "st_blocks": 8, "st_rdev": 0})
            return done

        return call

    def of_descriptor(name: str, original: Callable[..., Any], kinds: Sequence[str]) -> Callable[..., Any]:
        def call(descriptor: int, *arguments: Any) -> Any:
            if not _name_of(descriptor).startswith(below):
                return original(descriptor, *arguments)
            fault = injector.choose(name, kinds)
            if fault == "fail":
                raise injector.error()
            if fault == "refused":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            if fault == "late":
                time.sleep(LATE_SECONDS)
            if fault == "empty":
                return b"" if name == "pread" else 0
            return original(descriptor, *(_less(injector, name, arguments) if fault == "short" else arguments))

        return call

    with ExitStack() as patches:
        for name, kinds in _PATH_CALLS.items():
            patches.enter_context(patch.object(os, name, of_path(name, getattr(os, name), kinds_of(kinds))))
        for name, kinds in _DESCRIPTOR_CALLS.items():
            patches.enter_context(patch.object(os, name, of_descriptor(name, getattr(os, name), kinds_of(kinds))))
        filesystem = _Files(opening._LOCAL.filesystem, injector, kinds_of(("fail", "short", "empty", "late")))
        patches.enter_context(patch.object(opening._LOCAL, "filesystem", filesystem))
        yield


def open_files(root: Path) -> list[str]:
    """The files below `root` that this process has open."""
    names = map(_name_of, map(int, os.listdir("/proc/self/fd")))
    return [name for name in names if name.startswith(str(root))]


def _name_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def _less(injector: Injector, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments for a part of what was asked."""
    if name == "preadv":
        (view,) = arguments[0]
        return (view[: injector.part(len(view))],), *arguments[1:]
    if name == "pread":
        return injector.part(arguments[0]), *arguments[1:]
    if name == "write":
        return (memoryview(arguments[0])[: injector.part(len(arguments[0]))],)
    return arguments[0], injector.part(arguments[1]), *arguments[2:]


class _Files:
    """pyarrow's local file system, whose open files have faults when data is read."""

    def __init__(self, filesystem: Any, injector: Injector, kinds: Sequence[str]) -> None:
        self._filesystem, self._injector, self._kinds = filesystem, injector, kinds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(FaultyReader(open(path, "rb"), path, self._injector, self._kinds), "r")


class FaultyReader:
    """An open file that has faults when it is read."""

    def __init__(self, file: Any, path: str, injector: Injector, kinds: Sequence[str]) -> None:
        self._file, self._path, self._injector, self._kinds = file, path, injector, kinds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __del__(self) -> None:
        self._file.close()  # as Arrow's own files do

    def read(self, size: int = -1) -> bytes:
        fault = self._injector.choose("read", self._kinds)
        if fault == "fail":
            raise self._injector.error(self._path)
        if fault == "late":
            time.sleep(LATE_SECONDS)
        data: bytes = self._file.read(size)
        if fault == "short" and data:
            return data[: self._injector.part(len(data))]
        return b"" if fault == "empty" else data
