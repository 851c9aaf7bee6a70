"""The end of a file, changed where it lies: an interrupted change is undone, and nobody else's file is touched."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import bloomparquet as bp
from bloomparquet.writing.retrofit import tail
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.storage.test_atomic import names, needs_root, parquet  # noqa: F401 (parquet is a fixture)
from tests.support.core import graft_filters
from tests.support.stored import assert_filters_hold_all


@pytest.fixture
def shrinkable(parquet: Path) -> Path:  # noqa: F811 (the fixture)
    graft_filters(str(parquet), 1 << 15)
    return parquet


def tear(path: Path) -> tuple[bytes, bytes]:
    """Leave the file, and the saved ends beside it, as a process that is killed in the midst of the change does; the
    file before and torn."""
    old = path.read_bytes()
    real = os.write
    written, torn = iter(range(100)), iter(range(100))

    def write(descriptor: int, data: Any) -> int:
        if next(written) < 3:  # the header, the old end and the new one, saved
            return real(descriptor, data)
        if next(torn) == 0:
            real(descriptor, memoryview(data)[: len(data) // 2])
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(KeyboardInterrupt):
            shrink_filters(path, in_place_footer=True)
    return old, path.read_bytes()


def test_an_end_that_could_not_be_put_back_is_put_back_by_the_next_run(shrinkable: Path) -> None:
    old, torn = tear(shrinkable)
    saved = Path(tail.saved_name(str(shrinkable)))
    assert torn != old
    assert names(shrinkable) == [saved.name, "a.parquet"]
    assert tail.recover(str(shrinkable))
    assert shrinkable.read_bytes() == old
    assert names(shrinkable) == ["a.parquet"]
    assert not tail.recover(str(shrinkable))


def test_every_command_puts_the_old_end_back_first(shrinkable: Path) -> None:
    old, _ = tear(shrinkable)
    (outcome,) = add_filters(shrinkable, bloom="b")
    assert outcome.action == "added"
    assert shrinkable.read_bytes()[: len(old) - 2_000] == old[: len(old) - 2_000]
    assert_filters_hold_all(str(shrinkable), {0, 1})
    assert names(shrinkable) == ["a.parquet"]


@pytest.mark.parametrize("what", ["another table", "shorter", "longer", "the same data without filters"])
def test_a_file_that_somebody_has_written_meanwhile_is_not_touched(shrinkable: Path, what: str) -> None:
    """The saved end is that of another file then."""
    tear(shrinkable)
    table = pa.table({"a": np.arange(2_000), "b": [f"text {i}" for i in range(2_000)]})
    if what == "the same data without filters":
        pq.write_table(table, shrinkable, row_group_size=1_000)
    elif what == "another table":
        pq.write_table(pa.table({"other": [f"{i:0200}" for i in range(2_000)]}), shrinkable, use_dictionary=False)
    else:
        pq.write_table(table.slice(0, 100) if what == "shorter" else pa.concat_tables([table] * 20), shrinkable)
    content = shrinkable.read_bytes()
    assert not tail.recover(str(shrinkable))
    assert shrinkable.read_bytes() == content
    assert names(shrinkable) == ["a.parquet"]


def test_a_saved_end_that_is_not_whole_is_thrown_away(shrinkable: Path) -> None:
    """It was not followed by a change."""
    old, _ = tear(shrinkable)
    saved = Path(tail.saved_name(str(shrinkable)))
    ends = saved.read_bytes()
    for size in (0, 1, 39, 40, len(ends) // 2, len(ends) - 1):
        shrinkable.write_bytes(old)
        saved.write_bytes(ends[:size])
        assert not tail.recover(str(shrinkable))
        assert shrinkable.read_bytes() == old
        assert names(shrinkable) == ["a.parquet"]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_an_error_while_the_end_is_changed_puts_the_old_one_back(
    shrinkable: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    old = shrinkable.read_bytes()
    real = getattr(os, call)
    for at in range(1, 7):
        calls = iter(range(1, 100))

        def fail_once(*args: Any, at: int = at, calls: Iterator[int] = calls) -> Any:
            if next(calls) == at:
                raise OSError(errno.EIO, "Input/output error")
            return real(*args)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail_once)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                (outcome,) = shrink_filters(shrinkable, in_place_footer=True, on_error="report")
            if told:
                assert outcome.action == "shrunk"
                assert "may not outlive a power failure" in str(told[0].message)
            if outcome.action == "failed":
                assert "Input/output error" in str(outcome.error)
                assert shrinkable.read_bytes() == old, at
        if tail.recover(str(shrinkable)):
            assert shrinkable.read_bytes() == old
        assert names(shrinkable) == ["a.parquet"]
        shrinkable.write_bytes(old)


def test_an_end_that_is_read_in_parts_is_saved_whole(shrinkable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system reads at most 2 GiB at a time."""
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: read(descriptor, min(size, 1_000), offset))
    old, torn = tear(shrinkable)
    assert torn != old
    assert tail.recover(str(shrinkable))
    assert shrinkable.read_bytes() == old


def test_only_local_files_and_only_where_they_lie(shrinkable: Path) -> None:
    with pytest.raises(bp.OptionError, match="in_place_footer"):
        shrink_filters(shrinkable, shrinkable.parent / "b", in_place_footer=True)
    memory = fsspec.filesystem("memory")
    memory.pipe("/place/a.parquet", shrinkable.read_bytes())
    with pytest.raises(bp.OptionError, match="in_place_footer"):
        shrink_filters("memory://place/a.parquet", in_place_footer=True)


@needs_root
@pytest.mark.parametrize("change", ["owner", "mode"])
def test_an_end_that_somebody_else_has_saved_is_not_put_back(shrinkable: Path, change: str) -> None:
    data = shrinkable.read_bytes()
    planted = Path(tail.saved_name(str(shrinkable)))
    old, new = b"X" + data[1:], data
    check = xxhash.xxh64_intdigest(old + new)
    planted.write_bytes(tail._HEADER.pack(tail._MAGIC, 0, len(old), len(new), check) + old + new)
    planted.chmod(0o600)
    if change == "owner":
        os.chown(planted, 4711, 4711)
    else:
        planted.chmod(0o666)
    with pytest.raises(bp.BloomParquetError, match="has put this file here, so it is not used; remove it"):
        add_filters(shrinkable, bloom="a")
    assert shrinkable.read_bytes() == data
