"""Damaged ORC files raise only errors of this package, and take little memory and time."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from bloomparquet.errors import BloomParquetError, FileChangedError, FormatError
from bloomparquet.orc.file_tail import Tail, read_tails
from bloomparquet.orc.stripe_indexes import StripeId, StripeIndexes, read_filters, read_statistics, read_stripe_footers
from bloomparquet.storage.files import ReadCount
from tests.support.orc import list_files

CHANGES = 250  # for each codec
MOST_MEMORY = 16 * 1024 * 1024
TABLE = pa.table({"a": pa.array(range(300)), "b": [f"text {i}" for i in range(300)]})


def written(path: Path, codec: str) -> bytes:
    orc.write_table(
        TABLE, path, compression=codec, bloom_filter_columns=[1, 2], bloom_filter_fpp=0.1, row_index_stride=100
    )
    return path.read_bytes()


def outcomes(path: Path) -> list[object]:
    """Everything that can be read from the file, including errors."""
    storage, files = list_files(path)
    (tail,) = read_tails(storage, files, ReadCount())
    if not isinstance(tail, Tail):
        return [tail]
    columns = range(1, min(len(tail.types), 3))
    results: list[object] = []
    try:
        for stripe in range(min(len(tail.stripes), 4)):
            results += [tail.stripe_statistics(stripe, column) for column in columns]
    except BloomParquetError as error:
        results.append(error)
    ids = [StripeId(0, stripe) for stripe in range(min(len(tail.stripes), 4))]
    stripes = read_stripe_footers(storage, [tail], ids, ReadCount())
    wanted = [(stripe, column) for stripe in stripes if isinstance(stripe, StripeIndexes) for column in columns]
    return [
        *results,
        *stripes,
        *read_statistics(storage, wanted, ReadCount()),
        *read_filters(storage, wanted, ReadCount()),
    ]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_changed_bytes_raise_only_our_errors(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "f.orc"
    raw = written(path, codec)
    assert not any(isinstance(each, Exception) for each in outcomes(path))
    rng = random.Random(codec)
    errors = 0
    if codec == "uncompressed":  # tracing makes everything several times slower
        tracemalloc.start()
    for _ in range(CHANGES):
        bad = bytearray(raw)
        # Most bytes of a small file are filters; the lengths and counts are in the tail.
        low = rng.choice([3, len(raw) - 400, len(raw) - 60])
        for _ in range(rng.randint(1, 3)):
            bad[rng.randrange(low, len(raw))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path.write_bytes(bad)
        for each in outcomes(path):
            if isinstance(each, Exception):
                assert isinstance(each, BloomParquetError)
                assert str(path) in str(each)
                errors += 1
            if isinstance(each, tuple):
                assert len(each) <= 1000
    assert errors > CHANGES / 5
    if tracemalloc.is_tracing():
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_a_truncated_file_is_never_taken_for_complete(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "f.orc"
    raw = written(path, codec)
    for size in [*range(0, len(raw), 37), *range(len(raw) - 80, len(raw))]:
        path.write_bytes(raw[:size])
        (error,) = outcomes(path)
        assert isinstance(error, FormatError)
        assert str(path) in str(error)


def test_a_file_that_shrinks_while_it_is_read_is_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    raw = written(path, "zlib")
    storage, files = list_files(path)
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(FileChangedError, match=r"f\.orc: the file changed"):
        read_tails(storage, files, ReadCount())
