"""Random data sets for SQL statements: files of several writers, with columns that differ between files.

Only Spark needs to read these files. So they have what the Python oracle of :mod:`tests.differential.cases` does not
support: lists, maps, INT96 beside other types, damaged files, names that differ only in case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp
from tests.differential.column_types import OFTEN, TYPES, Type, value_as
from tests.support import orc_rewriting

_CLOSE = 4  # so many rows before and after a row are close to it
NAMES = ("a", "b", "C", "a.b", "Sp Ü", "select", "k", "v1", "d", "E_2", "zz", "from")
_PARTITIONS: dict[str, tuple[str | None, ...]] = {
    "p": ("0", "1", "-7", "007", None, "2147483648", "1.5"),
    "q": ("x", "a b", "é", "a=b", "50%", "A", None, "", "2026-01-01", "2026-1-1", "12:30"),
}


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    pool: tuple[Any, ...] = field(compare=False)
    near: tuple[Any, ...] = field(default=(), compare=False)
    """After :meth:`DataSet.at_row`: the values of the row and of those around it. `pool` has only the row's own."""

    @property
    def sql(self) -> str:
        return f"`{self.name}`"


@dataclass(frozen=True)
class DataSet:
    """Files below `root`, the columns that statements may name, and how Spark reads the files.

    `rows`: the rows, by column, in the order of the files. A value that a file stores as another type is left out.
    """

    root: Path
    format: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...]
    notes: str
    rows: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    def at_row(self, number: int) -> DataSet:
        """The data set, as if each column had only the value of row `number`."""
        row, around = self.rows[number], self.rows[max(0, number - _CLOSE) : number + _CLOSE + 1]

        def at_row(column: Column) -> Column:
            if (key := column.name) not in row:
                return column
            return replace(column, pool=(row[key],), near=tuple(each[key] for each in around if key in each))

        columns, partitions = (tuple(map(at_row, each)) for each in (self.columns, self.partitions))
        return replace(self, columns=columns, partitions=partitions)

    def read_as(self, types: dict[str, Type]) -> DataSet:
        """The data set as a reader shows it that converts some columns to `types`."""

        def convert(column: Column, value: Any) -> Any:
            return value_as(value, column.type, types[column.name]) if column.name in types else value

        columns = tuple(
            replace(c, type=types.get(c.name, c.type), pool=tuple(convert(c, value) for value in c.pool))
            for c in self.columns
        )
        by_name = {column.name: column for column in self.columns}
        rows = tuple(
            {key: convert(by_name[key], value) if key in by_name else value for key, value in row.items()}
            for row in self.rows
        )
        return replace(self, columns=columns, rows=rows)

    def ddl(self) -> str:
        return ", ".join(["rid BIGINT", *(f"{column.sql} {column.type.ddl}" for column in self.columns)])


def write(random: Random, root: Path, format_: str, *, for_spark: bool = False) -> DataSet:
    """Write the files of a random data set. `for_spark`: Spark can read all columns of all files at once."""
    names = random.sample(NAMES, random.randint(4, 10))
    if random.random() < 0.02:
        names += ["c", "C"] if "C" not in names else ["c"]
    allowed = [
        n for n in TYPES if format_ == "parquet" or not n.startswith(("uint", "int96", "fixed", "null", "timestamp_ns"))
    ]
    allowed = [
        n for n in allowed if format_ == "parquet" or n not in ("date", "timestamp_ms", "timestamp_ntz", "map")
    ] + ["date"]
    # By default, Spark does not load files with nanoseconds.
    if for_spark or (format_ == "parquet" and random.random() < 0.7):
        allowed.remove("timestamp_ns")
    columns = []
    often = [n for n in (*OFTEN, *(["date"] * 2 if for_spark else [])) if n in allowed]  # Spark writes two calendars
    for name, type_name in zip(names, random.sample([*allowed, *often], len(names)), strict=True):
        columns.append(Column(name, TYPES[type_name], _pool(random, TYPES[type_name], random.randint(1, 8))))
    partitions: list[str] = random.choice(([], [], [], ["p"], ["q"], ["p", "q"]))
    keeps_order, uniform = random.random() < 0.7, random.random() < 0.3
    # Spark cannot read all columns that have several types. Few have them, so that most predicates have an answer.
    may_evolve = format_ == "parquet" and not uniform and not for_spark
    evolving = {c.name for c in columns if may_evolve and random.random() < 0.3}
    writers, rows, first = [], [], 0
    for number in range(random.randint(1, 4)):
        directory, values = root, {key: random.choice(_PARTITIONS[key]) or None for key in partitions}
        for key, value in values.items():
            directory /= f"{key}=" + (
                "__HIVE_DEFAULT_PARTITION__"
                if value is None
                else "".join(f"%{ord(c):02X}" if c in "%:" else c for c in value)
            )
        directory.mkdir(parents=True, exist_ok=True)
        mine = [c for c in columns if uniform or random.random() > 0.2] or columns[:1]
        if not keeps_order:
            random.shuffle(mine)
        count = random.choice((0, 1, 12, 30, 30, 60, 60))
        table, written = _table(random, mine, count, first, evolving)
        first += count
        absent = {c.name: None for c in columns if c not in mine}
        rows += [absent | values | {name: column[at] for name, column in written.items()} for at in range(count)]
        path = directory / f"part-{number:03}.{format_}"
        writers.append((_write_orc if format_ == "orc" else _write_parquet)(random, table, path, columns))
        damage = random.random()
        if damage < 0.01:
            path.write_bytes(path.read_bytes()[:-5])
        elif damage < 0.02:
            path.write_bytes(b"")
        elif damage < 0.03:
            path.rename(path.with_name("_" + path.name))
    keys = tuple(Column(key, TYPES["string"], tuple(v or "" for v in _PARTITIONS[key])) for key in partitions)
    kinds = ", ".join(f"{c.name}: {c.type.name}" for c in columns)
    return DataSet(root, format_, tuple(columns), keys, f"{kinds}; by {', '.join(writers)}", tuple(rows))


def _pool(random: Random, type_: Type, count: int) -> tuple[Any, ...]:
    """The values of a column, half of them special."""
    return tuple(random.choice(random.choice((type_.values, type_.special or type_.values))) for _ in range(count))


def _table(
    random: Random, columns: list[Column], rows: int, first: int, evolving: Collection[str]
) -> tuple[pa.Table, dict[str, list[Any]]]:
    """The rows of a file, and the values of the columns that have the data set's type.

    The columns `evolving` may have a narrower one.
    """
    written: dict[str, list[Any]] = {"rid": [*range(first, first + rows)]}
    arrays: dict[str, pa.Array] = {"rid": pa.array(written["rid"], pa.int64())}
    for column in columns:
        type_ = column.type
        pool: list[Any] = list(column.pool)
        if column.name in evolving and type_.narrower and random.random() < 0.5:
            type_ = TYPES[random.choice(type_.narrower)]
            pool = list(_pool(random, type_, 4))
        nulls = random.choice((0.0, 0.0, 0.2, 1.0) if random.random() < 0.5 else (0.1,))
        runs = random.random() < 0.5  # neighbours have equal values, so that statistics skip row groups
        values = [pool[at * len(pool) // rows if runs else random.randrange(len(pool))] for at in range(rows)]
        values = [None if random.random() < nulls else v for v in values]
        arrays[column.name] = pa.array(values, type_.arrow)
        if type_ is column.type:
            written[column.name] = values
    return pa.table(list(arrays.values()), names=list(arrays)), written


def _write_parquet(random: Random, table: pa.Table, path: Path, columns: list[Column]) -> str:
    by = random.choice(("pyarrow", "pyarrow", "pyarrow", "ours", "duckdb", "polars"))
    int96 = any(c.type.name == "int96" for c in columns)
    if by == "duckdb" and not int96:
        import duckdb

        try:
            with duckdb.connect() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                connection.register("rows", table)
                connection.execute(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
            return by
        except duckdb.Error:
            path.unlink(missing_ok=True)
    if by == "polars" and not int96:
        import polars as pl

        try:
            pl.from_arrow(table).write_parquet(path, row_group_size=random.randint(1, 8), statistics="full")  # type: ignore[union-attr]
            return by
        except BaseException as error:
            if not type(error).__module__.startswith(("polars", "pyo3")):
                raise
            path.unlink(missing_ok=True)
    if by == "ours" and not int96:
        bloom = {name: bp.Bloom(fpp=0.01) for name in bloom_filter_options(table)}
        bp.write_table(table, path, bloom=bloom, row_group_size=5)
        return by
    pq.write_table(
        table,
        path,
        row_group_size=random.randint(1, 8),
        bloom_filter_options=bloom_filter_options(table) if random.random() < 0.8 else None,
        write_statistics=random.random() < 0.5,
        use_dictionary=random.random() < 0.6,
        store_schema=random.random() < 0.5,
        data_page_version=random.choice(("1.0", "2.0")),
        use_deprecated_int96_timestamps=int96,
        store_decimal_as_integer=random.random() < 0.5,
        write_page_index=random.random() < 0.5,
    )
    return "pyarrow"


def bloom_filter_options(table: pa.Table) -> dict[str, dict[str, float]]:
    """pyarrow's option for a filter on each column that can have one."""
    return {
        field.name: {"ndv": 16, "fpp": 0.001}
        for field in table.schema
        if not (pa.types.is_nested(field.type) or pa.types.is_boolean(field.type) or pa.types.is_null(field.type))
    }


def _write_orc(random: Random, table: pa.Table, path: Path, _columns: list[Column]) -> str:
    stripe = random.randint(1, 10)
    compression = random.choice(("uncompressed", "zstd"))
    orc_rewriting.write(path, table, stripe=stripe, stride=random.randint(1, stripe), compression=compression)
    return "pyarrow"
