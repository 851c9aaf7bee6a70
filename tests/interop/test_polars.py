"""Files of polars. Its own writer makes no Bloom filters; with use_pyarrow it calls pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp

polars = pytest.importorskip("polars")


def test_what_exports_arrow_data_is_a_table(tmp_path: Path) -> None:
    table = pa.table({"id": list(range(1000)), "s": ["a", None] * 500})
    for same in (table.to_batches()[0], table.to_reader(), table.to_pandas(), polars.from_arrow(table)):
        assert bp.write_table(same, tmp_path / "a", bloom=["id"]).filters == 1
        assert bp.read_table(tmp_path / "a").to_pylist() == table.to_pylist()


def frame(rows: int = 2_000) -> Any:
    enum = polars.Enum(["zlow", "mid", "ahigh"])
    words, text = ["zlow", "ahigh", None, "mid"] * (rows // 4), [f"text number {i}" for i in range(rows)]
    return polars.DataFrame(
        {
            "id": range(rows),
            "enum": polars.Series(words, dtype=enum),
            "category": polars.Series(words, dtype=polars.Categorical),
            "text": text,
            "blob": [each.encode() for each in text],
            "struct": [{"a": each, "b": {"c": each}} for each in text],
            "list": [[each, None] for each in text],
            "categories": polars.Series([[each] for each in words], dtype=polars.List(polars.Categorical)),
            "array": polars.Series([[each] for each in text], dtype=polars.Array(polars.String, 1)),
        }
    )


@pytest.mark.parametrize("part", [slice(0, 2_000), slice(0, 0), slice(5, 1_005)], ids=["whole", "empty", "slice"])
def test_every_column_of_a_frame_is_written(tmp_path: Path, part: slice) -> None:
    rows, path = frame()[part], str(tmp_path / "a.parquet")
    bp.write_table(rows, path, bloom=["text", "blob", "struct.a"], row_group_size=300)
    for back in (polars.read_parquet(path), polars.from_arrow(bp.read_table(path))):
        assert back.schema == rows.schema
        assert back.equals(rows)
    rows.write_parquet(own := str(tmp_path / "own.parquet"))
    assert pq.read_schema(path).equals(pq.read_schema(own))


def test_written_text_is_found_by_filters_of_other_readers(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    bp.write_table(frame(), path, bloom=["text"], row_group_size=300)
    for column, value in (("text", "text number 7"), ("blob", b"text number 7"), ("id", 7)):
        assert pq.read_table(path, filters=[(column, "=", value)])["id"].to_pylist() == [7]
        assert pd.read_parquet(path, filters=[(column, "=", value)])["id"].to_list() == [7]
        assert ds.dataset(path).to_table(filter=pc.field(column) == value)["id"].to_pylist() == [7]
    assert bp.plan(path, "text = 'text number 7'").kept == 1
