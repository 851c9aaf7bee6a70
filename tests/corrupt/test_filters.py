"""Unusable filters: their row groups are kept, their errors are counted, and a warning names the column chunk."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import bloomparquet as bp
from tests.parquet.test_bloom_header import header
from tests.support.core import set_filter_location
from tests.support.files import filter_offset, patch, write

EVEN = list(range(0, 200, 2))


def write_file(folder: Path) -> str:
    return write(folder / "x.parquet", {"x": EVEN, "y": EVEN}, ["x", "y"])


def with_header(path: str, data: bytes) -> str:
    return patch(path, filter_offset(path)[0], data)


def without_length(path: str) -> str:
    return set_filter_location(path, length=-1)


DAMAGE: dict[str, tuple[Callable[[str], str], type[bp.BloomParquetError], str]] = {
    "offset behind the end": (
        lambda path: set_filter_location(path, offset=10**12),
        bp.FormatError,
        "offset 1000000000000.*outside the file.s data .bytes 4 to",
    ),
    "offset in the footer": (
        lambda path: set_filter_location(path, offset=Path(path).stat().st_size - 20),
        bp.FormatError,
        "offset",
    ),
    "offset of the magic": (lambda path: set_filter_location(path, offset=0), bp.FormatError, "offset 0"),
    "offset near int64": (lambda path: set_filter_location(path, offset=2**63 - 1), bp.FormatError, "offset"),
    "length too long": (lambda path: set_filter_location(path, length=2**31 - 1), bp.FormatError, "length 2147483647"),
    "length too short": (lambda path: set_filter_location(path, length=50), bp.FormatError, "50"),
    "length of nothing": (lambda path: set_filter_location(path, length=0), bp.FormatError, "0"),
    "length of a byte": (lambda path: set_filter_location(path, length=1), bp.FormatError, "1"),
    "noise": (lambda path: with_header(path, b"\xff" * 16), bp.FormatError, "byte"),
    "zeros": (lambda path: with_header(path, bytes(16)), bp.FormatError, "num_bytes. of BloomFilterHeader is missing"),
    "two gibibytes": (lambda path: with_header(without_length(path), header(2**31 - 32)), bp.LimitError, "2147483616"),
    "more than the file": (lambda path: with_header(without_length(path), header(2**20)), bp.FormatError, "1048576"),
    "no number of blocks": (
        lambda path: with_header(path, header(33)),
        bp.FormatError,
        "33 bytes; expected a positive multiple of 32",
    ),
    "negative size": (lambda path: with_header(path, header(-32)), bp.FormatError, "-32"),
    "unknown algorithm": (
        lambda path: with_header(path, header(256, algorithm=2)),
        bp.UnsupportedError,
        "member 2 of BloomFilter.*BLOCK",
    ),
    "unknown hash": (
        lambda path: with_header(path, header(256, hashing=3)),
        bp.UnsupportedError,
        "member 3 of BloomFilter.*XXHASH",
    ),
    "unknown compression": (
        lambda path: with_header(path, header(256, compression=2)),
        bp.UnsupportedError,
        "member 2 of BloomFilter.*UNCOMPRESSED",
    ),
    "another length than the footer's": (
        lambda path: with_header(path, header(64)),
        bp.FormatError,
        "but the footer says",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_unusable_filter_keeps_its_row_group(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damage, error, message = DAMAGE[name]
    path = damage(write_file(tmp_path))
    with caplog.at_level(logging.WARNING, "bloomparquet"):
        plan = bp.plan(path, "x = 31")
    assert (plan.kept, len(plan.errors)) == (1, 1)
    assert isinstance(plan.errors[0], error)
    where = r"x\.parquet: row group 0, column x: its Bloom filter cannot be used: "
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    with pytest.raises(error, match=f"{where}.*{message}"):
        raise plan.errors[0]
    with pytest.raises(error, match=f"{where}.*{message}"):
        bp.plan(path, "x = 31", on_filter_error="fail")
    with pytest.raises(error, match=where):
        bp.inspect(path)
    assert bp.plan(path, "y = 31").kept == 0, "the other column's filter still works"
    assert bp.plan(path, "x = 30").kept == 1
    assert bp.plan(path, "x = 500").skipped == {"statistics": 1}
    assert bp.read_table(path, "x = 30").num_rows == 1


@pytest.mark.parametrize(
    "name", ["length of a byte", "length too short", "noise", "two gibibytes", "offset behind the end"]
)
def test_a_damaged_filter_does_not_spoil_the_others(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(5):
        path = write(tmp_path / f"{i}.parquet", {"x": EVEN}, ["x"])
        if i == 2:
            DAMAGE[name][0](path)
    plan = bp.plan(tmp_path, "x = 31")
    assert plan.skipped == {"bloom": 4}
    assert [Path(group.path).name for group in plan.kept_row_groups()] == ["2.parquet"]
    assert len(plan.errors) == 1
    assert len(caplog.records) == 1


def test_a_header_that_claims_two_gibibytes_allocates_nothing(tmp_path: Path) -> None:
    path = DAMAGE["two gibibytes"][0](write_file(tmp_path))
    bp.plan(write_file(tmp_path / "warm"), "x = 31")
    tracemalloc.start()
    assert bp.plan(path, "x = 31").kept == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_filter_in_murmur3_layout_keeps_its_row_group(tmp_path: Path, parquet_testing_dir: Path) -> None:
    old = (parquet_testing_dir / "bloom_filter.bin").read_bytes()
    path = without_length(write_file(tmp_path))
    data = Path(path).read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") :]
    Path(path).write_bytes(data[: -len(footer)] + old + footer)
    set_filter_location(path, offset=len(data) - len(footer))
    plan = bp.plan(path, "x = 31")
    assert plan.kept == 1
    with pytest.raises(bp.UnsupportedError, match="Murmur3"):
        raise plan.errors[0]
