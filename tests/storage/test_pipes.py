"""A pipe with the name of a lock or a temporary file, put there by another user, hangs nobody."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.index.cache import process_cache
from bloomparquet.planning.index.lookup import forget_indexes

original_open = os.open
TABLE = pa.table({"x": range(1000)})
WORKS: dict[str, Callable[[Path], object]] = {
    "add": lambda path: bp.add_filters(path, bloom=["x"]),
    "shrink": bp.shrink_filters,
    "write": lambda path: bp.write_table(TABLE, path, bloom=["x"]),
    "build": lambda path: bp.build_index(path.parent),
    "refresh": lambda path: bp.refresh_index(path.parent),
    "drop": lambda path: bp.drop_index(path.parent),
    "plan": lambda path: bp.plan(path.parent, "x = 5"),
}


def prepare(name: str, directory: Path) -> Path:
    directory.mkdir()
    path = directory / "x.parquet"
    bp.write_table(TABLE, path, bloom=None if name == "add" else {"x": bp.Bloom(ndv=10**5)})
    if name in ("refresh", "drop", "plan"):
        bp.build_index(directory)
    if name == "refresh":
        bp.write_table(TABLE, directory / "y.parquet", bloom=["x"])
    process_cache.clear()
    forget_indexes()
    return path


def hang(*_: object) -> None:
    raise TimeoutError("it hangs")


def refuse_writing(path: str, flags: int, *arguments: int, **options: int) -> int:
    """Open a file, but not for writing if it is there: it belongs to another user. A pipe could be opened for both."""
    if flags & os.O_RDWR and not flags & os.O_CREAT:
        raise PermissionError(errno.EACCES, "it belongs to another user", path)
    return original_open(path, flags, *arguments, **options)


@pytest.mark.parametrize("name", WORKS)
def test_a_pipe_hangs_nobody(name: str, tmp_path: Path) -> None:
    opened = dict[str, None]()

    def record(path: str, *arguments: int, **options: int) -> int:
        opened[os.fspath(path)] = None
        return original_open(path, *arguments, **options)

    path = prepare(name, tmp_path / "first")
    with patch.object(os, "open", record):
        WORKS[name](path)
    names = [os.path.relpath(each, path.parent) for each in opened if not each.endswith(".parquet")]
    names = [each for each in names if not each.startswith("..") and not os.path.isdir(path.parent / each)]
    assert names, "no lock and no temporary file"
    former = signal.signal(signal.SIGALRM, hang)
    try:
        for i, each in enumerate(names):
            path = prepare(name, tmp_path / str(i))
            pipe = path.parent / each
            pipe.parent.mkdir(exist_ok=True)
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
            signal.alarm(30)
            errors = (bp.BloomParquetError, FileNotFoundError, PermissionError)
            with patch.object(os, "open", refuse_writing), suppress(*errors):
                WORKS[name](path)
            signal.alarm(0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
