"""Columns of extension types that users define in Python, which need not be hashable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp


class Celsius(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls()


@pytest.fixture
def table() -> Iterator[pa.Table]:
    pa.register_extension_type(Celsius())
    degrees = pa.ExtensionArray.from_storage(Celsius(), pa.array([7, None, 1, 4]))
    nested = pa.StructArray.from_arrays([degrees], names=["d"])
    yield pa.table({"degrees": degrees, "id": [1, 2, 3, 4], "nested": nested})
    pa.unregister_extension_type("tests.celsius")


ROWS: dict[str | None, list[int]] = {
    "id = 3": [2], "degrees = 7": [0], "degrees > 3": [0, 3], "degrees IN (1, 4)": [2, 3], "degrees IS NULL": [1],
    None: [0, 1, 2, 3],
}  # fmt: skip


@pytest.mark.parametrize("where", ROWS)
def test_rows_are_those_of_the_storage_type(where: str | None, table: pa.Table, tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    with bp.ParquetWriter(root / "a.parquet", table.schema, bloom=["id", "degrees"], row_group_size=2) as writer:
        writer.write_table(table)
    pq.write_table(table.select(["id", "degrees"]), root / "b.parquet")
    expected = table.take(ROWS[where])
    assert bp.read_table(root / "a.parquet", where).equals(expected)
    of_both = bp.read_table(root, where, ["degrees", "id"], merge_schema=True)
    assert of_both.column("id").to_pylist() == 2 * expected.column("id").to_pylist()
    assert bp.count(root, where) == 2 * expected.num_rows


def test_filters_of_the_storage_type_skip(table: pa.Table, tmp_path: Path) -> None:
    bp.write_table(table, tmp_path / "x.parquet", bloom=["degrees"], row_group_size=1)
    assert bp.plan(tmp_path / "x.parquet", "degrees = 4").kept == 1
