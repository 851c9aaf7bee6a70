"""Small Iceberg tables to test with."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, LongType, NestedField, StringType

import bloomparquet as bp
from tests.support import iceberg

IDS = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "day", DateType()))
_numbers = itertools.count()
DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3)]


def make(catalog: SqlCatalog, schema: Schema = IDS, *parts: PartitionField, version: int = 2) -> Table:
    """A new table, whose files have row groups of 10 rows."""
    name = f"t{next(_numbers)}"
    properties = {"format-version": str(version), "write.parquet.row-group-limit": "10"}
    return catalog.create_table(f"db.{name}", schema, partition_spec=PartitionSpec(*parts), properties=properties)


def rows(first: int = 0, count: int = 30) -> pa.Table:
    ids = range(first, first + count)
    values = {"id": ids, "name": [f"n{i}" for i in ids], "day": [DAYS[i % 3] for i in ids]}
    return pa.table(values, pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())]))


def with_filters(table: Table, data: pa.Table, *columns: str) -> str:
    """Append `data` in row groups of 10, with filters on `columns` and no other evidence."""
    data = data.cast(iceberg.with_ids(table.schema()))
    return iceberg.add_data_file(table, data, bloom=columns, row_group_size=10, write_statistics=False)


def ids_of(dataset: bp.Dataset, where: Any = None) -> list[int]:
    return sorted(dataset.read_table(where, ["id"])["id"].to_pylist())
