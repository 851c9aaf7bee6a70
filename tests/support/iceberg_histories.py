"""Random histories of Iceberg tables."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tests.support import iceberg

DAY = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)
LEAF_VALUES: dict[type, list[Any]] = {
    BooleanType: [True, False],
    IntegerType: [*range(6), -1, 2**31 - 1],
    LongType: [*range(6), -1, 2**31 - 1],
    FloatType: [0.0, -0.0, 0.5, 1.5, -2.0],
    DoubleType: [0.0, -0.0, 0.5, 1.5, -2.0, 0.1],
    DecimalType: [Decimal(cents) / 100 for cents in (-1, 0, 1, 150, 999)],
    StringType: ["", "a", "ab", "b", "é", "2024-02-29"],
    BinaryType: [b"", b"a", b"\xff\0"],
    DateType: [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2024, 3, 1)],
    TimestampType: [DAY, DAY + dt.timedelta(microseconds=1), dt.datetime(1969, 12, 31, 12)],
    TimestamptzType: [moment.replace(tzinfo=dt.timezone.utc) for moment in (DAY, dt.datetime(1969, 12, 31, 12))],
}
DEFAULTS: dict[type, Any] = {BooleanType: True, IntegerType: 3, LongType: 3, StringType: "ab", DoubleType: 0.5}
ADDABLE: list[IcebergType] = [
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2), StringType(), BinaryType(),
    DateType(), TimestampType(), TimestamptzType(), ListType(0, StringType(), False),
    StructType(NestedField(0, "a", IntegerType()), NestedField(1, "b", StringType())),
    MapType(0, StringType(), 1, LongType(), False),
]  # fmt: skip
WIDER: dict[type, IcebergType] = {
    IntegerType: LongType(), FloatType: DoubleType(), DecimalType: DecimalType(18, 2)
}  # fmt: skip
PARTITIONABLE = (IntegerType, LongType, StringType, DateType, TimestampType)


class History:
    """A table with random changes. `tables` has every state that may be asked for: (table, snapshot id)."""

    def __init__(self, catalog: SqlCatalog, name: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.has_vectors = self.random.random() < 0.4
        self.defaults: dict[int, Any] = {}
        self.names = iter(f"c{i}" for i in range(1000))
        self.deleted: dict[str, list[int]] = {}  # by position deletes
        self.with_vector: set[str] = set()
        schema = Schema(
            NestedField(1, "id", IntegerType() if self.random.random() < 0.5 else LongType()),
            NestedField(2, "name", StringType()),
            NestedField(3, "s", StructType(NestedField(4, "a", IntegerType()), NestedField(5, "b", StringType()))),
            NestedField(6, "day", DateType()),
            NestedField(7, "at", TimestampType()),
            NestedField(8, "x", FloatType()),
            NestedField(9, "d", DecimalType(9, 2)),
            NestedField(10, "n", IntegerType()),
        )
        spec = PartitionSpec()
        if self.random.random() < 0.5:
            field = schema.find_field(self.random.choice(["name", "day", "n", "id", "at"]))
            spec = PartitionSpec(PartitionField(field.field_id, 1000, self._transform(field.field_type), "p"))
        properties = {"format-version": "2", "write.parquet.row-group-limit": str(self.random.choice([2, 3, 100]))}
        self.table: Table = catalog.create_table(f"db.{name}", schema, partition_spec=spec, properties=properties)
        self.append()
        steps = self.random.randint(2, 8)
        for step in self.random.choices([*STEPS], weights=[*STEPS.values()], k=steps):
            step(self)

    def state(self) -> tuple[Table, int | None]:
        """The table now, or at one of its snapshots."""
        table: Table = self.table
        if self.has_vectors or self.defaults:
            table = iceberg.as_version_3(table, self.defaults)
        snapshots = [snapshot.snapshot_id for snapshot in table.snapshots()]
        return table, self.random.choice(snapshots) if snapshots and self.random.random() < 0.4 else None

    # ---- rows ----

    def rows(self, least: int = 0) -> pa.Table:
        names = self.table.schema().as_arrow()
        fields = self.table.schema().fields
        count = self.random.randint(least, 7)
        return pa.Table.from_pylist(
            [{field.name: self._value(field.field_type) for field in fields} for _ in range(count)], names
        )

    def _value(self, kind: IcebergType) -> Any:
        if self.random.random() < 0.15:
            return None
        if isinstance(kind, StructType):
            return {field.name: self._value(field.field_type) for field in kind.fields}
        if isinstance(kind, ListType):
            return [self._value(kind.element_type) for _ in range(self.random.randint(0, 2))]
        if isinstance(kind, MapType):
            keys = self.random.sample(["", "a", "b"], self.random.randint(0, 2))
            return [(key, self._value(kind.value_type)) for key in keys]
        return self.random.choice(LEAF_VALUES[type(kind)])

    def _transform(self, kind: IcebergType) -> Transform[Any, Any]:
        transforms: list[Transform[Any, Any]] = [IdentityTransform(), IdentityTransform(), BucketTransform(3)]
        if isinstance(kind, StringType):
            transforms.append(TruncateTransform(1))
        if isinstance(kind, DateType | TimestampType):
            transforms.append(DayTransform())
        return self.random.choice(transforms)

    def append(self) -> None:
        self.table.append(self.rows(1))

    def append_with_filters(self) -> None:
        """A file with field ids and Bloom filters, which pyiceberg does not write."""
        if self.table.spec().is_unpartitioned():
            rows = self.rows(1)
            flat = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
            bloom = [name for name in flat if not pa.types.is_boolean(rows.schema.field(name).type)]
            rows = rows.cast(iceberg.with_ids(self.table.schema()))
            statistics = self.random.random() < 0.3  # without, the filters decide
            iceberg.add_data_file(self.table, rows, bloom=bloom, row_group_size=2, write_statistics=statistics)

    def append_without_ids(self) -> None:
        """A file that another program wrote: pyarrow's names and no ids."""
        rows = self.rows(1).select(self.random.sample(self.table.schema().as_arrow().names, 3))
        if self.table.spec().is_unpartitioned():
            self.table.refresh()
            self._set_mapping()
            iceberg.add_data_file(self.table, rows.replace_schema_metadata(), row_group_size=2)

    def append_without_partition_columns(self) -> None:
        """A file as Hive writes it: the value of the partition column is in its directory's name only."""
        spec, schema = self.table.spec(), self.table.schema()
        if not spec.fields or any(not isinstance(field.transform, IdentityTransform) for field in spec.fields):
            return
        names = [schema.find_field(field.source_id).name for field in spec.fields]
        rows = self.rows(1)
        values = []
        for field in spec.fields:
            value = self.random.choice(LEAF_VALUES[type(schema.find_field(field.source_id).field_type)])
            values.append(_to_partition(value))
        rows = rows.cast(iceberg.with_ids(schema)).drop_columns(names)
        if self.random.random() < 0.5:
            self._set_mapping()
            rows = rows.cast(_without_metadata(rows.schema))
        iceberg.add_data_file(self.table, rows, values, row_group_size=2)

    def _set_mapping(self) -> None:
        if self.table.name_mapping() is None:
            with self.table.transaction() as transaction:
                mapping = self.table.schema().name_mapping.model_dump_json()
                transaction.set_properties({"schema.name-mapping.default": mapping})

    def overwrite(self) -> None:
        self.table.overwrite(self.rows(), self._filter())

    def delete(self) -> None:
        self.table.delete(self._filter())

    def _filter(self) -> Any:
        fields = [field for field in self.table.schema().fields if isinstance(field.field_type, PARTITIONABLE)]
        field = self.random.choice(fields)
        if self.random.random() < 0.15:
            return f"{field.name} IS NULL"
        value = self.random.choice(LEAF_VALUES[type(field.field_type)])
        if isinstance(value, dt.date):
            value = value.isoformat()
        return self.random.choice([EqualTo, LessThan, GreaterThanOrEqual])(field.name, value)

    def delete_positions(self) -> None:
        """Position deletes or deletion vectors, for one or more files of one partition."""
        files = iceberg.live_files(self.table)
        if not files:
            return
        like = self.random.choice(files)
        same = [file for file in files if (file.spec_id, file.partition) == (like.spec_id, like.partition)]
        some = self.random.sample(same, self.random.randint(1, min(3, len(same))))
        positions = {
            file.file_path: [i for i in range(file.record_count) if self.random.random() < 0.4] or [0]
            for file in some
            if file.file_path not in self.with_vector
        }
        if self.has_vectors and positions and self.random.random() < 0.7:
            for path, more in positions.items():  # a vector holds the earlier deletes of its file
                more += self.deleted.get(path, [])
            iceberg.add_deletion_vectors(self.table, positions, like)
            self.with_vector |= positions.keys()
        elif positions:
            iceberg.add_position_deletes(self.table, positions, like, bounds=self.random.random() < 0.7)
            for path, more in positions.items():
                self.deleted.setdefault(path, []).extend(more)

    # ---- schema and partitions ----

    def add_column(self) -> None:
        kind, name = self.random.choice(ADDABLE), next(self.names)
        with self.table.update_schema() as update:
            update.add_column(name, kind)
        if type(kind) in DEFAULTS and self.random.random() < 0.5:
            self.defaults[self.table.schema().find_field(name).field_id] = DEFAULTS[type(kind)]

    def add_field(self) -> None:
        if parent := self._struct():
            with self.table.update_schema() as update:
                update.add_column((parent, next(self.names)), self.random.choice(ADDABLE[:8]))

    def rename(self) -> None:
        name = self.random.choice(self.table.schema().fields).name
        if name != "id":
            with self.table.update_schema() as update:
                update.rename_column(name, next(self.names))

    def rename_field(self) -> None:
        if parent := self._struct():
            kind = self.table.schema().find_type(parent)
            assert isinstance(kind, StructType)
            with self.table.update_schema() as update:
                update.rename_column((parent, self.random.choice(kind.fields).name), next(self.names))

    def drop(self, *, add_again: bool = False) -> None:
        used = {field.source_id for spec in self.table.specs().values() for field in spec.fields}
        fields = [field for field in self.table.schema().fields[1:] if field.field_id not in used]
        if len(fields) > 2:
            field = self.random.choice(fields)
            with self.table.update_schema() as update:
                update.delete_column(field.name)
            if add_again:
                with self.table.update_schema() as update:
                    update.add_column(field.name, self.random.choice([field.field_type, StringType(), LongType()]))

    def drop_and_add_again(self) -> None:
        self.drop(add_again=True)

    def reorder(self) -> None:
        fields = self.table.schema().fields
        with self.table.update_schema() as update:
            update.move_first(self.random.choice(fields[1:]).name)

    def promote(self) -> None:
        fields = [field for field in self.table.schema().fields if type(field.field_type) in WIDER]
        partitioned = {field.source_id for field in self.table.spec().fields}
        fields = [field for field in fields if field.field_id not in partitioned]
        if fields:
            field = self.random.choice(fields)
            if field.field_type != WIDER[type(field.field_type)]:
                with self.table.update_schema() as update:
                    update.update_column(field.name, WIDER[type(field.field_type)])

    def _struct(self) -> str | None:
        fields = [field.name for field in self.table.schema().fields if isinstance(field.field_type, StructType)]
        return self.random.choice(fields) if fields else None

    def change_partitions(self) -> None:
        fields = self.table.spec().fields
        with self.table.update_spec() as update:
            if fields and self.random.random() < 0.7:
                update.remove_field(fields[0].name)
            elif not fields:
                choices = [f for f in self.table.schema().fields if isinstance(f.field_type, PARTITIONABLE)]
                field = self.random.choice(choices)
                update.add_field(field.name, self._transform(field.field_type), next(self.names))

    # ---- snapshots ----

    def expire(self) -> None:
        heads = {ref.snapshot_id for ref in self.table.refs().values()}
        old = [s.snapshot_id for s in self.table.snapshots() if s.snapshot_id not in heads]
        if old:
            self.table.maintenance.expire_snapshots().by_id(self.random.choice(old)).commit()


STEPS: dict[Callable[[History], None], int] = {
    History.append: 6, History.append_with_filters: 7, History.append_without_ids: 3,
    History.append_without_partition_columns: 3,
    History.overwrite: 2, History.delete: 3, History.delete_positions: 8, History.add_column: 4,
    History.add_field: 2, History.rename: 3, History.rename_field: 2, History.drop: 2, History.drop_and_add_again: 2,
    History.reorder: 1, History.promote: 3, History.change_partitions: 3, History.expire: 1,
}  # fmt: skip


def _to_partition(value: Any) -> Any:
    """`value` as pyiceberg keeps it in a partition's record."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    def bare(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(field.name, bare(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(bare(kind.key_type), bare(kind.item_type))
        return pa.list_(bare(kind.value_type)) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind

    return pa.schema([pa.field(field.name, bare(field.type)) for field in schema])


def literals(schema: Schema) -> dict[tuple[str, ...], list[Any]]:
    """Literals for the columns of `schema`, and for the fields of its structs."""
    leaves: list[tuple[tuple[str, ...], IcebergType]] = []
    for field in schema.fields:
        if isinstance(field.field_type, StructType):
            leaves += [((field.name, inner.name), inner.field_type) for inner in field.field_type.fields]
        else:
            leaves.append(((field.name,), field.field_type))
    return {path: LEAF_VALUES[type(kind)] for path, kind in leaves if type(kind) in LEAF_VALUES}
