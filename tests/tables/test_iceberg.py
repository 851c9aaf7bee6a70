"""Iceberg tables: columns by field id, values of partitions, and deleted rows, by Iceberg's specification."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as t
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

import bloomparquet as bp
from bloomparquet.tables.iceberg_deletes import parse_vector
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


# ---- deleted rows, and files that cannot be read ----


def test_deleted_positions_count_rows_that_are_not_read(table: Table) -> None:
    path = with_filters(table, rows(), "id")
    (file,) = iceberg.live_files(table)
    iceberg.add_position_deletes(table, {path: [0, 14, 15, 29]}, file)
    dataset = bp.Dataset.from_iceberg(table)
    for where, expected in (("id = 15", []), ("id = 16", [16]), ("id IN (13, 14, 15, 16)", [13, 16])):
        assert ids_of(dataset, where) == expected
        assert dataset.plan(where).skipped == {"bloom": 2}
    assert ids_of(dataset) == [i for i in range(30) if i not in (0, 14, 15, 29)]


@pytest.mark.parametrize("bounds", [False, True], ids=["of a partition", "of a file"])
def test_position_deletes_concern_files_that_are_not_newer(bounds: bool, table: Table) -> None:
    path = iceberg.add_data_file(table, rows(0, 5).cast(iceberg.with_ids(IDS)))
    (file,) = iceberg.live_files(table)
    table.delete("id >= 0")
    iceberg.add_position_deletes(table, {path: [1]}, file, bounds=bounds, adding=[file])
    assert ids_of(bp.Dataset.from_iceberg(table)) == [0, 2, 3, 4] == table.scan().to_arrow()["id"].to_pylist()
    table.delete("id >= 0")
    iceberg.append_files(table, file)
    assert ids_of(bp.Dataset.from_iceberg(table)) == [*range(5)] == table.scan().to_arrow()["id"].to_pylist()


def test_a_puffin_file_holds_vectors_of_several_files(table: Table) -> None:
    paths = [iceberg.add_data_file(table, rows(i, 4).cast(iceberg.with_ids(IDS))) for i in (0, 100)]
    like = iceberg.live_files(table)[0]
    iceberg.add_position_deletes(table, {paths[0]: [1]}, like)
    vectors = iceberg.add_deletion_vectors(table, {paths[0]: [0, 1], paths[1]: [3]}, like)
    newer = iceberg.as_version_3(table)
    dataset = bp.Dataset.from_iceberg(newer)
    assert ids_of(dataset) == sorted(newer.scan().to_arrow()["id"].to_pylist()) == [2, 3, 100, 101, 102]
    puffin = iceberg.local(vectors)
    puffin.write_bytes(puffin.read_bytes()[:20] + b"\x55" + puffin.read_bytes()[21:])
    with pytest.raises(bp.FormatError, match=rf"{puffin.name}: the deletion vector of .* checksum"):
        dataset.read_table()


@pytest.mark.parametrize(
    "positions",
    [[], [0], [7, 3, 3], [*range(70_000)], [*range(0, 140_000, 3)], [5, 2**32, 2**32 + 70_000, 2**34 + 1]],
    ids=["none", "one", "unsorted", "a run", "a bitset", "beyond 32 bits"],
)
def test_vectors_of_all_shapes_are_parsed(positions: list[int]) -> None:
    blob = iceberg.vector(positions)
    assert parse_vector(blob).tolist() == sorted(set(positions))
    for end in range(len(blob) % 1000):
        with pytest.raises((bp.FormatError, ValueError, struct.error)):
            parse_vector(blob[:end])


def test_equality_deletes_are_refused_while_they_matter(catalog: SqlCatalog) -> None:
    table = make(catalog, IDS, PartitionField(3, 1000, IdentityTransform(), "d"))
    table.append(rows(0, 2))
    like = next(file for file in iceberg.live_files(table) if file.partition[0] == (DAYS[1] - dt.date(1970, 1, 1)).days)
    path = iceberg.add_equality_deletes(table, pa.table({"id": [1]}), [1], like)
    with pytest.raises(bp.UnsupportedError, match=rf"{Path(path).name}: .* by equality \(field ids 1\).*compact"):
        bp.Dataset.from_iceberg(table)
    snapshot = table.snapshots()[0]
    assert ids_of(bp.Dataset.from_iceberg(table, snapshot_id=snapshot.snapshot_id)) == [0, 1]
    table.append(rows(10, 2))  # newer than the deletes
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(like)  # as a compaction does
    assert ids_of(bp.Dataset.from_iceberg(table)) == [0, 10, 11]
    iceberg.add_equality_deletes(table, pa.table({"id": [1]}), [1], like, adding=[like])  # as Flink replaces a row
    table.delete("id >= 10")  # other files of the partition
    assert ids_of(bp.Dataset.from_iceberg(table)) == [0, 1]


def test_equality_deletes_of_an_emptied_spec_are_global(catalog: SqlCatalog) -> None:
    """A table of version 1 keeps a removed partition field as ``void``."""
    table = make(catalog, IDS, PartitionField(3, 1000, IdentityTransform(), "d"), version=1)
    table.append(rows(0, 2))
    with table.update_spec() as update:
        update.remove_field("d")
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows(2, 1))
    like = next(file for file in iceberg.live_files(table) if file.spec_id == table.spec().spec_id)
    iceberg.add_equality_deletes(table, pa.table({"id": [1]}), [1], like)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(like)  # so that only files of the older partitions are left
    with pytest.raises(bp.UnsupportedError, match=r"by equality \(field ids 1\)"):
        bp.Dataset.from_iceberg(table)


def test_files_that_cannot_be_read_are_named(table: Table) -> None:
    path = iceberg.add_data_file(table, rows(0, 5).cast(iceberg.with_ids(IDS)))
    (file,) = iceberg.live_files(table)
    deletes = iceberg.local(iceberg.add_position_deletes(table, {path: [1]}, file))
    pq.write_table(pa.table({"file_path": [path], "position": [1]}), deletes)
    with pytest.raises(bp.FormatError, match=rf"{deletes.name}: .*columns file_path and pos"):
        bp.Dataset.from_iceberg(table).read_table()
    iceberg.append_files(table, file)
    with pytest.raises(bp.FormatError, match=rf"{Path(path).name}: the snapshot has this file twice"):
        bp.Dataset.from_iceberg(table)
    iceberg.local(path).unlink()
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    with pytest.raises(FileNotFoundError, match=Path(path).name):
        bp.Dataset.from_iceberg(table)


@pytest.mark.parametrize(
    ("path", "entry", "message"),
    [
        ("{}/data/a.avro", {"file_format": "AVRO"}, "a.avro: this data file is an AVRO file; expected Parquet"),
        ("{}/data/b.parquet", {"key_metadata": b"k"}, "b.parquet: this file is encrypted with a key of the Iceberg"),
        ("memory://c/c.parquet", {}, "c.parquet: this file of the table lies on another storage"),
        ("{}/data/d.parquet", {}, "d.parquet: this file is gone"),
    ],
)
def test_entries_that_cannot_be_read_are_refused(path: str, entry: dict[str, Any], message: str, table: Table) -> None:
    iceberg.add_entry(table, path.format(table.location()), **entry)
    with pytest.raises((bp.UnsupportedError, FileNotFoundError), match=message):
        bp.Dataset.from_iceberg(table)


def test_a_pyarrow_data_set_has_only_rows_that_it_can_describe(table: Table) -> None:
    table.append(rows())
    with table.update_schema() as update:
        update.add_column("n", t.LongType())
    dataset = bp.Dataset.from_iceberg(table)
    kept = dataset.to_dataset("id = 15")
    assert kept.to_table().num_rows == 10
    assert kept.to_table(filter=pa.compute.field("id") == 15).to_pylist() == dataset.read_table("id = 15").to_pylist()
    defaults = {table.schema().find_field("n").field_id: 3}
    with pytest.raises(bp.UnsupportedError, match="lacks columns that have a value"):
        bp.Dataset.from_iceberg(iceberg.as_version_3(table, defaults)).to_dataset()
    with table.update_schema() as update:
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.add_column("name", t.StringType())
    with pytest.raises(bp.UnsupportedError, match="under other names"):
        bp.Dataset.from_iceberg(table).to_dataset("id = 15")
    assert bp.Dataset.from_iceberg(table).to_dataset("id = 150").to_table().num_rows == 0
    (file,) = iceberg.live_files(table)
    iceberg.add_position_deletes(table, {file.file_path: [1]}, file)
    with table.update_schema() as update:
        update.delete_column("name")
        update.rename_column("label", "name")
    with pytest.raises(bp.UnsupportedError, match="some rows of this file are deleted"):
        bp.Dataset.from_iceberg(table).to_dataset("id = 15")
