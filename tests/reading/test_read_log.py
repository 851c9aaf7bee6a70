"""At INFO, a scan logs what it has read."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp

ROWS = 60_000
NUMBERS = np.random.default_rng(1).integers(0, 1 << 62, ROWS)
TABLE = pa.table(
    {"id": NUMBERS, "n": range(ROWS), "s": pa.StructArray.from_arrays([pa.array(NUMBERS)] * 2, ["a", "b"])}
)


@pytest.fixture
def path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> str:
    caplog.set_level(logging.INFO, "bloomparquet")
    bp.write_table(
        TABLE, tmp_path / "a.parquet", bloom="id", row_group_size=20_000, data_page_size=16_000, use_dictionary=False
    )
    return str(tmp_path / "a.parquet")


def size(path: str, row_group: int, *leaves: str) -> int:
    """The bytes of some column chunks in the file."""
    chunks = pq.read_metadata(path).row_group(row_group)
    columns = [chunks.column(i) for i in range(chunks.num_columns)]
    return sum(chunk.total_compressed_size for chunk in columns if chunk.path_in_schema in leaves)


def parts(caplog: pytest.LogCaptureFixture) -> list[str]:
    (message,) = [record.getMessage() for record in caplog.records if record.name == "bloomparquet"]
    return message.split("; ")


def test_columns_are_read_whole_or_by_pages(path: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(bp.read_table(path, f"id = {NUMBERS[25_000]}")) == 1
    rows, row_groups, id_, n, s = parts(caplog)
    assert [rows, row_groups] == ["read rows: 1", "row groups: 1 of 3"]
    assert id_ == f"id: {size(path, 1, 'id'):,} bytes (whole)"
    assert n.startswith("n: ")
    assert n.endswith(" bytes (pages: 1)")
    assert s.endswith(" bytes (pages: 2)")  # of two leaves
    by_pages = int(s.split()[1].replace(",", ""))
    assert 0 < by_pages < size(path, 1, "s.a", "s.b") / 4


def test_rows_of_all_row_groups_are_counted(path: str, caplog: pytest.LogCaptureFixture) -> None:
    bp.read_table(path, columns=["s"])
    whole = sum(size(path, i, "s.a", "s.b") for i in range(3))
    assert parts(caplog) == ["read rows: 60,000", "row groups: 3 of 3", f"s: {whole:,} bytes (whole)"]


def test_a_scan_that_stops_early_says_what_it_read(path: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(bp.read_table(path, columns=["n"], limit=5)) == 5
    assert parts(caplog)[1:] == ["row groups: 1 of 3", f"n: {size(path, 0, 'n'):,} bytes (whole)"]


def test_encrypted_columns_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bloomparquet")
    keys = bp.Keys(footer=b"0123456789abcdef", columns={"id": b"abcdef0123456789"})
    bp.write_table(TABLE, tmp_path / "a.parquet", encryption=keys)
    bp.read_table(tmp_path / "a.parquet", columns=["id"], keys=keys)
    rows, row_groups, id_ = parts(caplog)
    assert [rows, row_groups] == ["read rows: 60,000", "row groups: 1 of 1"]
    assert 8 * ROWS < int(id_.split()[1].replace(",", "")) < 9 * ROWS


def test_stripes_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bloomparquet")
    pa.orc.write_table(TABLE.select(["n"]), str(tmp_path / "a.orc"))
    assert bp.count(tmp_path / "a.orc", "n < 10") == 10
    assert parts(caplog) == ["read rows: 10", "stripes: 1 of 1"]


def test_a_dictionary_as_large_as_its_pages_is_not_searched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It can only show that a value is absent, at the price of most of the column."""
    caplog.set_level(logging.INFO, "bloomparquet")
    rows = 120_000
    table = pa.table({"unique": range(rows), "few": [f"{i % 100:0600}" for i in range(rows)]})
    path = str(tmp_path / "x.parquet")
    pq.write_table(table, path, compression="none", dictionary_pagesize_limit=1 << 24, write_statistics=False)
    for column, absent in (("unique", "-1"), ("few", "'x'")):
        caplog.clear()
        assert bp.count(path, f"{column} = {absent}") == 0
        whole = f"{column}: {size(path, 0, column):,} bytes (whole)"
        assert (whole in parts(caplog)) == (column == "unique")
