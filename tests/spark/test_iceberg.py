"""`read_iceberg`: the rows that pyiceberg reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession

from pyspark_bloomparquet import read_iceberg
from tests.support import iceberg

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "kind", StringType())
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with iceberg.open_catalog(tmp_path) as opened:
        yield opened


def rows(first: int, count: int, kind: str = "a") -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "name": [f"n{i}" for i in ids], "kind": [kind] * count})


def as_dicts(frame: Any) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"])


@pytest.mark.slow
def test_rows_are_those_of_pyiceberg(spark: SparkSession, catalog: SqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "k"))
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"format-version": "2"})
    bare = rows(0, 4).cast(iceberg.with_ids(SCHEMA)).drop_columns(["kind"])
    path = iceberg.add_data_file(table, bare, ["told by the partition"], row_group_size=2)
    (file,) = iceberg.live_files(table)
    iceberg.add_deletion_vectors(table, {path: [0]}, file)
    with table.update_spec() as update:
        update.remove_field("k")
    table.append(rows(10, 4))
    file = next(file for file in iceberg.live_files(table) if file.spec_id == 1)
    iceberg.add_position_deletes(table, {file.file_path: [3]}, file)
    before = table.current_snapshot()
    assert before is not None
    with table.update_schema() as update:
        update.rename_column("name", "label")
        update.add_column("n", LongType())
    newer = iceberg.as_version_3(table, {table.schema().find_field("n").field_id: 7})
    expected = newer.scan().to_arrow().sort_by("id").to_pylist()
    assert as_dicts(read_iceberg(spark, newer)) == expected
    assert [row["id"] for row in expected] == [1, 2, 3, 10, 11, 12]
    frame = read_iceberg(spark, newer, where="label IN ('n0', 'n2', 'n12') AND n = 7", columns=["id", "kind"])
    assert as_dicts(frame) == [{"id": 2, "kind": "told by the partition"}, {"id": 12, "kind": "a"}]
    old = read_iceberg(spark, newer.metadata_location, before.snapshot_id, where="name = 'n11'")
    assert as_dicts(old) == [{"id": 11, "name": "n11", "kind": "a"}]
    with_key = StaticTable.from_metadata(newer.metadata_location, {"s3.secret-access-key": "hidden"})
    frame = read_iceberg(spark, with_key, columns=["id"])
    assert "hidden" not in frame._jdf.queryExecution().toString(), "plans do not show credentials"
