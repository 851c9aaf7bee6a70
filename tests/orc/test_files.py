"""ORC files written by ORC C++ through pyarrow, and the example files of apache/orc."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from bloomparquet.errors import unless_error
from bloomparquet.orc.file_tail import read_tails
from bloomparquet.orc.stripe_indexes import StripeId, read_stripe_footers
from bloomparquet.storage.files import ReadCount
from tests.support.orc import OrcFile, count_held, list_files

ROWS, STRIDE, FPP = 1500, 500, 0.05
DAY = 86_400_000_000


def with_nulls(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if i % 7 == 3 else value for i, value in enumerate(values)], kind)


TABLE = pa.table(
    {
        "i16": with_nulls([i * 20 - 15_000 for i in range(ROWS)], pa.int16()),
        "i32": with_nulls([i * 1_000_003 - 2**30 for i in range(ROWS)], pa.int32()),
        "i64": with_nulls([i * 10**15 - 7 * 10**17 for i in range(ROWS)], pa.int64()),
        "f64": with_nulls([i / 7 - 100 for i in range(ROWS)], pa.float64()),
        "text": with_nulls([f"käse {i}" * (i % 4 + 1) for i in range(ROWS)], pa.string()),
        "blob": with_nulls([i.to_bytes(i % 9 + 2, "little") for i in range(ROWS)], pa.binary()),
        "day": with_nulls([i * 17 - 12_000 for i in range(ROWS)], pa.date32()),
        "seconds": with_nulls([i * 99_991 - 10**8 for i in range(ROWS)], pa.timestamp("s")),
        "micros": with_nulls([(i - 700) * DAY - i * 1_001 for i in range(ROWS)], pa.timestamp("us")),
        "nanos": with_nulls([(i - 700) * DAY * 1000 + i * 1_000_001 for i in range(ROWS)], pa.timestamp("ns")),
        "near": with_nulls([(i - 700) * 3_333 for i in range(ROWS)], pa.timestamp("us")),
        "instant": with_nulls([(i - 700) * DAY - i * 1_001 for i in range(ROWS)], pa.timestamp("us", "Asia/Tokyo")),
        "short": with_nulls([Decimal(i - 700).scaleb(-2) for i in range(ROWS)], pa.decimal128(9, 2)),
        "long": with_nulls([Decimal((i - 700) * 10**21).scaleb(-10) for i in range(ROWS)], pa.decimal128(38, 10)),
        "whole": with_nulls([Decimal((i - 700) * 100) for i in range(ROWS)], pa.decimal128(20, 0)),
    }
)


def write(path: Path, table: pa.Table, fpp: float = FPP, **options: Any) -> OrcFile:
    orc.write_table(
        table,
        path,
        bloom_filter_columns=list(range(1, table.num_columns + 1)),
        bloom_filter_fpp=fpp,
        **{"row_index_stride": STRIDE, **options},
    )
    return OrcFile.open(path)


@pytest.mark.parametrize("name", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_every_compression_that_pyarrow_writes_is_read(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, TABLE.select(["i64", "text"]), compression=name, compression_block_size=64 * 1024)
    assert file.tail.compression.codec.name == ("NONE" if name == "uncompressed" else name.upper())
    for column in ("i64", "text"):
        held, values, taken, absent = count_held(file, column)
        assert held == values
        assert taken <= absent * 0.1


def test_a_tail_and_its_last_stripe_footer_take_one_request(tmp_path: Path) -> None:
    for i in range(5):
        orc.write_table(pa.table({"a": [i, None]}), tmp_path / f"{i}.orc")
    storage, files = list_files(tmp_path)
    count, ids = ReadCount(), [StripeId(i, 0) for i in range(5)]
    tails = list(map(unless_error, read_tails(storage, files, count)))
    assert [tail.stripe_statistics(0, 1).minimum for tail in tails] == list(range(5))  # type: ignore[union-attr]
    assert len(read_stripe_footers(storage, tails, ids, count)) == count.requests == 5
    for tail in tails:
        object.__setattr__(tail, "last_stripe_footer", None)
    assert len(read_stripe_footers(storage, tails, ids, count)) == 5
    assert count.requests == 10
