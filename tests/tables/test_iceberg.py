"""Iceberg tables: columns by field id, values of partitions, and deleted rows, by Iceberg's specification."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as t
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

import bloomparquet as bp
from tests.support import iceberg
from tests.support.iceberg_tables import DAYS, IDS, ids_of, make, rows, with_filters

# ---- columns ----


def test_wider_types_are_pruned_by_the_stored_ones(catalog: SqlCatalog) -> None:
    kinds = {"id": t.IntegerType(), "x": t.FloatType(), "d": t.DecimalType(9, 2)}
    schema = Schema(*(NestedField(i, name, kind) for i, (name, kind) in enumerate(kinds.items(), 1)))
    table = make(catalog, schema)
    values = {"id": [*range(30)], "x": [i / 8 for i in range(30)], "d": [Decimal(i) / 4 for i in range(30)]}
    with_filters(table, pa.table(values, schema.as_arrow()), "id", "x", "d")
    with table.update_schema() as update:
        update.update_column("id", t.LongType())
        update.update_column("x", t.DoubleType())
        update.update_column("d", t.DecimalType(20, 2))
    dataset = bp.Dataset.from_iceberg(table)
    for where in ("id = 15", "x = 1.875", "d = 3.75"):
        assert ids_of(dataset, where) == [15]
        assert dataset.plan(where).skipped == {"bloom": 2}, where
    for where in ("id = 3000000000", "x = 0.1", "d = 3.755"):
        assert ids_of(dataset, where) == []
        assert dataset.plan(where).kept == 0, where
    assert dataset.read_table().schema.types == [pa.int64(), pa.float64(), pa.decimal128(20, 2)]


@pytest.mark.parametrize("older_spec", [True, False])
def test_a_default_replaces_a_partition_of_null(catalog: SqlCatalog, older_spec: bool) -> None:
    """In files that lack the column, with and without files of a spec that does not partition by it."""
    table = make(catalog, Schema(NestedField(1, "id", t.LongType())))
    stored = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    if older_spec:
        iceberg.add_data_file(table, pa.table({"id": [1]}, stored))
    with table.update_schema() as update:
        update.add_column("p", t.IntegerType())
    with table.update_spec() as spec:
        spec.add_identity("p")
    for i, value in ((2, None), (3, 5)):
        iceberg.add_data_file(table, pa.table({"id": [i]}, stored), partition=(value,))
    newer = iceberg.as_version_3(table.refresh(), {table.schema().find_field("p").field_id: 7})
    dataset = bp.Dataset.from_iceberg(newer)
    assert dataset.read_table().sort_by("id").to_pylist() == newer.scan().to_arrow().sort_by("id").to_pylist()
    with_default = [1, 2] if older_spec else [2]
    assert ids_of(dataset, "p = 7") == ids_of(dataset, "NOT (p <=> 5)") == with_default
    assert ids_of(dataset, "p = 5") == [3]
    assert ids_of(dataset, "p IS NULL") == []


def test_a_default_inside_a_struct_is_refused(catalog: SqlCatalog) -> None:
    table = make(catalog, Schema(NestedField(1, "s", t.StructType(NestedField(2, "a", t.LongType())))))
    with pytest.raises(bp.UnsupportedError, match=r"'a' \(field id 2\) has an initial default"):
        bp.Dataset.from_iceberg(iceberg.as_version_3(table, {2: 3}))


def test_fields_in_lists_and_maps_are_found_by_id(catalog: SqlCatalog) -> None:
    pair = t.StructType(NestedField(11, "a", t.IntegerType()), NestedField(12, "b", t.StringType()))
    schema = Schema(
        NestedField(1, "id", t.LongType()),
        NestedField(2, "tags", t.ListType(3, t.StringType(), False)),
        NestedField(4, "pairs", t.ListType(5, pair, False)),
        NestedField(
            6, "by_name", t.MapType(7, t.StringType(), 8, t.StructType(NestedField(13, "c", t.LongType())), False)
        ),
    )
    table = make(catalog, schema)
    made = [
        {"id": i, "tags": [f"t{i}"], "pairs": [{"a": i, "b": f"b{i}"}], "by_name": [("k", {"c": i})]} for i in range(30)
    ]
    with_filters(table, pa.Table.from_pylist(made, table.schema().as_arrow()), "tags.list.element")
    with table.update_schema() as update:
        update.rename_column("tags", "labels")
        update.rename_column(("pairs", "element", "a"), "number")
        update.delete_column(("pairs", "element", "b"))
    with table.update_schema() as update:
        update.add_column(("pairs", "b"), t.LongType())
        update.rename_column(("by_name", "value", "c"), "count")
    dataset = bp.Dataset.from_iceberg(table)
    row = {"id": 15, "labels": ["t15"], "pairs": [{"number": 15, "b": None}], "by_name": [("k", {"count": 15})]}
    assert dataset.read_table("array_contains(labels, 't15')").to_pylist() == [row]
    assert dataset.plan("array_contains(labels, 't15')").skipped == {"bloom": 2}


def test_all_types_are_read_and_have_defaults(catalog: SqlCatalog) -> None:
    utc = dt.timezone.utc
    # by type: a value, as SQL writes it, and as Iceberg's JSON does
    values: dict[Any, tuple[Any, str | None, Any]] = {
        t.BooleanType(): (True, "TRUE", True),
        t.IntegerType(): (7, "7", 7),
        t.DoubleType(): (0.1, "0.1", 0.1),
        t.DecimalType(9, 2): (Decimal("1.50"), "1.5", "1.50"),
        t.StringType(): ("ä", "'ä'", "ä"),
        t.DateType(): (DAYS[0], "DATE '2024-01-01'", "2024-01-01"),
        t.TimeType(): (dt.time(1, 2, 3, 4), None, "01:02:03.000004"),
        t.TimestampType(): (dt.datetime(2024, 1, 1, 2), "TIMESTAMP_NTZ '2024-01-01 02:00:00'", "2024-01-01T02:00:00"),
        t.TimestamptzType(): (
            dt.datetime(2024, 1, 1, 2, tzinfo=utc), "TIMESTAMP '2024-01-01 02:00:00Z'", "2024-01-01T02:00:00+00:00",
        ),
        t.UUIDType(): (uuid.UUID(int=7), f"'{uuid.UUID(int=7)}'", str(uuid.UUID(int=7))),
        t.FixedType(3): (b"abc", "X'616263'", "616263"),
        t.BinaryType(): (b"\xff", "X'ff'", "ff"),
    }  # fmt: skip
    table = make(catalog)
    table.append(rows(0, 1))
    with table.update_schema() as update:
        for i, kind in enumerate(values):
            update.add_column(f"c{i}", kind)
    stored = [value.bytes if isinstance(value, uuid.UUID) else value for value, _, _ in values.values()]
    row = {**rows(1, 1).to_pylist()[0], **{f"c{i}": value for i, value in enumerate(stored)}}
    table.append(pa.Table.from_pylist([row], table.schema().as_arrow()))
    defaults = {table.schema().find_field(f"c{i}").field_id: value for i, (_, _, value) in enumerate(values.values())}
    newer = iceberg.as_version_3(table, defaults)
    dataset = bp.Dataset.from_iceberg(newer)
    everything = dataset.read_table().sort_by("id").to_pylist()
    assert everything == newer.scan().to_arrow().sort_by("id").to_pylist()
    assert [everything[1][f"c{i}"] for i in range(len(values))] == [value for value, _, _ in values.values()]
    for i, (_, literal, _) in enumerate(values.values()):
        if literal is not None:
            assert ids_of(dataset, f"c{i} = {literal}") == [0, 1], literal


# ---- files without field ids ----


def test_files_without_ids_need_a_name_mapping(table: Table) -> None:
    plain = pa.table({"id": range(30), "name": [f"n{i}" for i in range(30)], "other": range(30)})
    path = iceberg.add_data_file(table, plain, row_group_size=10)
    with pytest.raises(bp.FormatError, match=f"{Path(path).name}: .*no field ids"):
        bp.Dataset.from_iceberg(table).read_table()
    with table.transaction() as transaction:
        mapping = '[{"field-id": 1, "names": ["nr", "id"]}, {"field-id": 2, "names": ["NAME"]}]'
        transaction.set_properties({"schema.name-mapping.default": mapping})
    dataset = bp.Dataset.from_iceberg(table)
    assert dataset.read_table("id = 15").to_pylist() == [{"id": 15, "name": None, "day": None}], "names are exact"
    assert dataset.plan("id = 15").skipped == {"statistics": 2}


# ---- partitions ----


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        (t.StringType(), "a/b=c%20 ä?#", "'a/b=c%20 ä?#'"),
        (t.BooleanType(), True, "TRUE"),
        (t.LongType(), -(2**63), str(-(2**63))),
        (t.DecimalType(20, 3), Decimal("-1.250"), "-1.25"),
        (t.DateType(), dt.date(1969, 12, 31), "DATE '1969-12-31'"),
        (t.TimestampType(), dt.datetime(1969, 12, 31, 23, 0, 0, 1), "TIMESTAMP_NTZ '1969-12-31 23:00:00.000001'"),
        (t.TimestamptzType(), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), "TIMESTAMP '2024-01-01 00:00:00Z'"),
        (t.BinaryType(), b"\xff\0", "X'FF00'"),
        (t.FixedType(2), b"ab", "X'6162'"),
        (t.DoubleType(), 0.5, "0.5"),
    ],
    ids=str,
)
def test_values_of_all_types_are_read_and_pruned_by_partitions(
    kind: Any, value: Any, literal: str, catalog: SqlCatalog
) -> None:
    schema = Schema(NestedField(1, "id", t.LongType()), NestedField(2, "p", kind))
    table = make(catalog, schema, PartitionField(2, 1000, IdentityTransform(), "part"))
    cells = {"id": [1, 2, 3], "p": [value, None, value]}
    table.append(pa.table(cells, schema.as_arrow()))
    dataset = bp.Dataset.from_iceberg(table)
    everything = dataset.read_table().sort_by("id").to_pylist()
    assert repr(everything) == repr(table.scan().to_arrow().sort_by("id").to_pylist())
    assert ids_of(dataset, f"p = {literal}") == [1, 3]
    assert ids_of(dataset, "p IS NULL") == [2]
    evidence = "statistics" if isinstance(value, float) else "partition"  # 0.0 may be the partition of -0.0
    assert dataset.plan(f"p = {literal}").skipped == {evidence: 1}


# ---- tables ----


def test_a_snapshot_has_the_schema_of_its_time(table: Table) -> None:
    assert bp.Dataset.from_iceberg(table).read_table().to_pylist() == []
    assert bp.Dataset.from_iceberg(table).plan("id = 1").total == 0
    table.append(rows(0, 3))
    old = table.current_snapshot()
    assert old is not None
    with table.update_schema() as update:
        update.rename_column("name", "label")
    table.overwrite(rows(10, 2).rename_columns(["id", "label", "day"]))
    assert ids_of(bp.Dataset.from_iceberg(table), "label = 'n11'") == [11]
    assert ids_of(bp.Dataset.from_iceberg(table, snapshot_id=old.snapshot_id), "name = 'n1'") == [1]
    assert ids_of(bp.Dataset.from_iceberg(table.metadata_location), "label = 'n11'") == [11]
    table.maintenance.expire_snapshots().by_id(old.snapshot_id).commit()
    with pytest.raises(bp.PlanError, match=f"no snapshot {old.snapshot_id}, or it has expired"):
        bp.Dataset.from_iceberg(table, snapshot_id=old.snapshot_id)
    with pytest.raises(bp.OptionError, match="table is a int; expected a pyiceberg"):
        bp.Dataset.from_iceberg(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("evolved", [False, True], ids=["one spec", "two specs"])
def test_a_partition_tells_the_column_that_a_file_lacks(evolved: bool, catalog: SqlCatalog) -> None:
    table = make(catalog, IDS, PartitionField(3, 1000, IdentityTransform(), "d"))
    bare = rows(0, 2).cast(iceberg.with_ids(IDS)).drop_columns(["day"])
    iceberg.add_data_file(table, bare, [(DAYS[1] - dt.date(1970, 1, 1)).days])
    if evolved:
        with table.update_spec() as update:
            update.remove_field("d")
        table.append(rows(100, 3))
    dataset = bp.Dataset.from_iceberg(table)
    everything = sorted(dataset.read_table().to_pylist(), key=repr)
    assert everything == sorted(table.scan().to_arrow().to_pylist(), key=repr)
    assert ids_of(dataset, "day = DATE '2024-01-02'") == ([0, 1, 100] if evolved else [0, 1])
    assert ids_of(dataset, "day <> DATE '2024-01-02'") == ([101, 102] if evolved else [])
