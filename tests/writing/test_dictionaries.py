"""Columns that hardly repeat a value are written without a dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp

ROWS = 120_000
NUMBERS = np.arange(ROWS)
COLUMNS: dict[str, pa.Array] = {
    "unique": pa.array(NUMBERS * 7919),
    "unique or null": pa.array(NUMBERS, mask=NUMBERS % 4 != 0),
    "uuid": pa.array([UUID(int=i).bytes for i in range(ROWS)], pa.uuid()),
    "pairs far apart": pa.array(NUMBERS % (ROWS // 2)),
    "pairs side by side": pa.array(NUMBERS // 2),
    "10,000 words": pa.array([f"a long word {i % 10_000}" for i in range(ROWS)]),
    "half one value": pa.array(np.where(NUMBERS % 2, NUMBERS, 0)),
    "nulls": pa.nulls(ROWS, pa.int64()),
    "encoded": pa.array([f"{i}" for i in range(ROWS)]).dictionary_encode(),
    "struct": pa.StructArray.from_arrays([pa.array(NUMBERS)], ["x"]),
    "list": pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), pa.array(NUMBERS)),
}
PLAIN = {"unique", "unique or null", "uuid"}


def with_dictionary(path: Path) -> set[str]:
    row_group = pq.read_metadata(path).row_group(0)
    chunks = [row_group.column(i) for i in range(row_group.num_columns)]
    return {chunk.path_in_schema.partition(".")[0] for chunk in chunks if chunk.has_dictionary_page}


@pytest.mark.parametrize("encryption", [None, bp.Keys(footer=b"0123456789abcdef")])
def test_only_columns_that_hardly_repeat_are_plain(tmp_path: Path, encryption: bp.Keys | None) -> None:
    table, path = pa.table(COLUMNS), tmp_path / "a.parquet"
    bp.write_table(table, path, encryption=encryption, bloom="unique")
    assert bp.read_table(path, keys=encryption).equals(table)
    if encryption is None:
        assert with_dictionary(path) == COLUMNS.keys() - PLAIN


@pytest.mark.parametrize(
    "options", [{"use_dictionary": True}, {"dictionary_pagesize_limit": 1 << 20}, {"use_dictionary": ["unique"]}]
)
def test_given_encodings_are_kept(tmp_path: Path, options: dict[str, Any]) -> None:
    table = pa.table({name: COLUMNS[name] for name in ("unique", "10,000 words")})
    bp.write_table(table, tmp_path / "ours", **options)
    pq.write_table(table, tmp_path / "theirs", write_page_index=True, **options)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_columns_of_one_name_are_written(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([COLUMNS["unique"], COLUMNS["10,000 words"]], ["a", "a"])
    bp.write_table(table, tmp_path / "a.parquet")
    assert pq.read_metadata(tmp_path / "a.parquet").num_columns == 2
