"""Random data sets for SQL statements: files of several writers, with columns that differ between files.

Only Spark needs to read these files. So they have what the Python oracle of :mod:`tests.differential.cases` does not
support: lists, maps, INT96 beside other types, damaged files, names that differ only in case.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp
from tests.support import orc_rewriting

_EPOCH = dt.datetime(1970, 1, 1)


def quoted(text: str) -> str:
    """A SQL string literal. `text` must have no backslash, whose meaning depends on a setting."""
    return "'" + text.replace("'", "\\'") + "'"


def _float_sql(value: float) -> str:
    return f"double('{value!r}')" if value != value or value in (float("inf"), float("-inf")) else f"{value!r}D"


def _clock(micros: int) -> str:
    return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(" ")


def _day(days: int) -> str:
    return (_EPOCH + dt.timedelta(days=days)).date().isoformat()


@dataclass(frozen=True)
class Type:
    """A column type: values for ``pa.array``, and their literals in Spark's SQL."""

    name: str
    arrow: pa.DataType = field(compare=False)
    values: tuple[Any, ...] = field(compare=False)
    sql: Callable[[Any], str] = field(compare=False)
    ddl: str
    narrower: tuple[str, ...] = ()

    @property
    def filtered(self) -> bool:
        """Whether writers make filters of a column of this type."""
        return self.name not in ("list", "map", "struct", "boolean", "null", "variant")

    def literals(self, value: Any) -> list[str]:
        """The literals of one value. The first has the column's own type."""
        text = self.sql(value)
        if self.name.startswith(("int", "uint")):
            return [text, f"{value}L" if abs(value) < 2**63 else text, f"{value}.0BD", f"{value}.5D", f"'{value}'"]
        if self.name.startswith("decimal"):
            return [text, f"{value}D", quoted(str(value)), str(value).split(".")[0]]
        if self.name in ("date", "timestamp", "timestamp_ntz", "timestamp_ms", "timestamp_ns", "int96"):
            plain = text.split(" ", 1)[1]
            return [text, f"TIMESTAMP {plain}", f"TIMESTAMP_NTZ {plain}", f"DATE {plain[:11]}'", plain]
        if self.name.startswith("float"):
            return [text, text, f"float({text})", "1", "'1.5'"]
        return [text, text, f"cast({text} AS STRING)"]


def _integers(*more: int) -> tuple[int, ...]:
    return (0, 1, -1, 2, 3, 5, 7, 42, 100, *more)


_MICROS = tuple(
    (dt.datetime(*parts) - _EPOCH) // dt.timedelta(microseconds=1)
    for parts in (
        (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999999),
        (2026, 3, 8, 2, 30),
        (2026, 11, 1, 1, 30),
        (2026, 1, 1),
        (2026, 1, 1, 0, 0, 0, 1),
        (2026, 1, 1, 12, 0, 0, 500000),
        (2011, 12, 30, 5),
        (1900, 1, 1),
        (1800, 6, 1, 1, 2, 3),
    )
)
_OLD = tuple(
    (dt.datetime(*parts) - _EPOCH) // dt.timedelta(microseconds=1)
    for parts in ((1, 1, 1), (1582, 10, 4), (1582, 10, 15), (1500, 2, 28, 12), (9999, 12, 31, 23, 59, 59, 999999))
)
_TEXTS = (
    "",
    "a",
    "b",
    "A",
    "ab",
    "abc",
    "abcdef",
    "a ",
    " a",
    "é",
    "ß",
    "zzz",
    "1",
    "42",
    "\U0001f600",
    "NaN",
    "x" * 70,
)
_FLOATS = (
    0.0,
    -0.0,
    0.0,
    -0.0,
    float("nan"),
    1.0,
    1.5,
    -1.5,
    42.0,
    3.0,
    0.1,
    float("nan"),
    float("inf"),
    float("-inf"),
    3.0e38,
    1e-40,
)


def _type(
    name: str, arrow: pa.DataType, values: tuple[Any, ...], sql: Callable[[Any], str], ddl: str, *narrower: str
) -> Type:
    return Type(name, arrow, values, sql, ddl, narrower)


def _decimal(precision: int, scale: int, *narrower: str) -> Type:
    step = Decimal(1).scaleb(-scale)
    most = Decimal(f"{'9' * (precision - scale)}.{'9' * scale}")
    values = (
        *tuple(Decimal(v).quantize(step) for v in ("0", "1", "1.5", "-1.25", "42", "7.1")),
        most,
        most.copy_negate(),
    )
    name = f"decimal({precision},{scale})"
    return Type(name, pa.decimal128(precision, scale), values, lambda v: f"{v}BD", name, narrower)


def _timestamp(name: str, arrow: pa.DataType, per_micro: float, ddl: str, old: bool, *narrower: str) -> Type:
    keyword = "TIMESTAMP_NTZ" if ddl == "TIMESTAMP_NTZ" else "TIMESTAMP"
    values = tuple(int(v * per_micro) if per_micro >= 1 else int(v // 1000) for v in (*_MICROS, *(_OLD if old else ())))
    return Type(
        name,
        arrow,
        values,
        lambda v: f"{keyword} '{_clock(int(v // per_micro) if per_micro >= 1 else v * 1000)}'",
        ddl,
        narrower,
    )


TYPES = {
    each.name: each
    for each in (
        _type("int8", pa.int8(), _integers(127, -128), str, "TINYINT"),
        _type("int16", pa.int16(), _integers(32767, -32768), str, "SMALLINT", "int8"),
        _type("int32", pa.int32(), _integers(2**31 - 1, -(2**31)), str, "INT", "int8", "int16"),
        _type(
            "int64", pa.int64(), _integers(2**31, 2**63 - 1, -(2**63) + 1), lambda v: f"{v}L", "BIGINT", "int32", "int8"
        ),
        _type("uint8", pa.uint8(), (0, 1, 42, 127, 128, 255), str, "SMALLINT"),
        _type("uint16", pa.uint16(), (0, 1, 42, 32768, 65535), str, "INT"),
        _type("uint32", pa.uint32(), (0, 1, 42, 2**31, 2**32 - 1), lambda v: f"{v}L", "BIGINT"),
        _type("uint64", pa.uint64(), (0, 1, 42, 2**63, 2**64 - 1), lambda v: f"{v}BD", "DECIMAL(20,0)"),
        _type("float32", pa.float32(), _FLOATS, _float_sql, "FLOAT"),
        _type("float64", pa.float64(), (*_FLOATS, 1.7e308, 5e-324), _float_sql, "DOUBLE", "float32", "int32", "int16"),
        _decimal(4, 2),
        _decimal(9, 2, "decimal(4,2)", "int8"),
        _decimal(18, 6, "decimal(9,2)", "int32"),
        _decimal(38, 10, "decimal(18,6)", "decimal(4,2)"),
        _type("string", pa.string(), _TEXTS, quoted, "STRING"),
        _type(
            "binary",
            pa.binary(),
            (*(t.encode() for t in _TEXTS), b"\xff\xfe", b"\x80"),
            lambda v: f"X'{v.hex()}'",
            "BINARY",
        ),
        _type("boolean", pa.bool_(), (True, False), lambda v: str(v).upper(), "BOOLEAN"),
        _type(
            "date",
            pa.date32(),
            tuple(v // 86_400_000_000 for v in _MICROS + _OLD),
            lambda v: f"DATE '{_day(v)}'",
            "DATE",
        ),
        _timestamp("timestamp", pa.timestamp("us", "UTC"), 1, "TIMESTAMP", True),
        _timestamp("timestamp_ms", pa.timestamp("ms", "UTC"), 0.001, "TIMESTAMP", True),
        _timestamp("timestamp_ns", pa.timestamp("ns"), 1000, "TIMESTAMP_NTZ", False),
        _timestamp("timestamp_ntz", pa.timestamp("us"), 1, "TIMESTAMP_NTZ", True, "date"),
        _timestamp("int96", pa.timestamp("ns"), 1000, "TIMESTAMP", False),
        _type("fixed", pa.binary(3), (b"abc", b"\0\0\0", b"zzz"), lambda v: f"X'{v.hex()}'", "BINARY"),
        _type("null", pa.null(), (None,), lambda _: "NULL", "INT"),
        _type(
            "list",
            pa.list_(pa.int32()),
            ([1, 2], [], [None], [42], [5, 5]),
            lambda v: f"array({', '.join(str(x) if x is not None else 'NULL' for x in v)})",
            "ARRAY<INT>",
        ),
        _type(
            "map",
            pa.map_(pa.string(), pa.int64()),
            ([("a", 1)], [], [("b", None), ("a", 42)]),
            lambda _: "map('a', 1L)",
            "MAP<STRING, BIGINT>",
        ),
        _type(
            "struct",
            pa.struct([("x", pa.int64()), ("y.z", pa.string()), ("t", pa.struct([("u", pa.float64())]))]),
            (
                {"x": 1, "y.z": "a", "t": {"u": 1.5}},
                {"x": None, "y.z": None, "t": None},
                {"x": 42, "y.z": "b", "t": {"u": None}},
                {"x": 7, "y.z": "", "t": {"u": float("nan")}},
            ),
            lambda _: "named_struct('x', 1L, 'y.z', 'a', 't', named_struct('u', 1.5D))",
            "STRUCT<x: BIGINT, `y.z`: STRING, t: STRUCT<u: DOUBLE>>",
        ),
    )
}

VARIANTS = (
    '{"a": 1, "b": "x", "o": {"x": 1.5}}', '{"a": 42}', '{"a": 42, "b": "s", "o": {"x": 2e0}}', '{"b": "a", "z": 1}',
    '{"a": "42"}', '{"a": null, "b": 7}', '{"a": 1.5, "o": {"y": 1}}', "42", "[1]", "{}", "null", "",
)  # fmt: skip
VARIANT = Type("variant", pa.null(), (None,), lambda _: "NULL", "VARIANT")
"""Only Spark writes it, from the JSON texts of `VARIANTS`."""

NAMES = ("a", "b", "C", "a.b", "Sp Ü", "select", "k", "v1")
_PARTITIONS: dict[str, tuple[str | None, ...]] = {
    "p": ("0", "1", "-7", "007", None, "2147483648", "1.5"),
    "q": ("x", "a b", "é", "a=b", "50%", "A", None, "", "2026-01-01", "2026-1-1", "12:30"),
}


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    pool: tuple[Any, ...] = field(compare=False)

    @property
    def sql(self) -> str:
        return f"`{self.name}`"


@dataclass(frozen=True)
class DataSet:
    """Files below `root`, the columns that statements may name, and how Spark reads the files."""

    root: Path
    format: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...]
    notes: str

    def ddl(self) -> str:
        return ", ".join(["rid BIGINT", *(f"{column.sql} {column.type.ddl}" for column in self.columns)])


def write(random: Random, root: Path, format_: str) -> DataSet:
    """Write the files of a random data set."""
    names = random.sample(NAMES, random.randint(2, 8))
    if random.random() < 0.02:
        names += ["c", "C"] if "C" not in names else ["c"]
    allowed = [
        n for n in TYPES if format_ == "parquet" or not n.startswith(("uint", "int96", "fixed", "null", "timestamp_ns"))
    ]
    allowed = [
        n for n in allowed if format_ == "parquet" or n not in ("date", "timestamp_ms", "timestamp_ntz", "map")
    ] + ["date"]
    columns = []
    # Types differ, so that few data sets have all of them. Zeros and NaN need more tries.
    for name, type_name in zip(names, random.sample([*allowed, "float32", "float64"], len(names)), strict=True):
        type_ = TYPES[type_name]
        columns.append(Column(name, type_, tuple(random.choices(type_.values, k=random.randint(1, 8)))))
    partitions: list[str] = random.choice(([], [], [], ["p"], ["q"], ["p", "q"]))
    keeps_order, uniform = random.random() < 0.7, random.random() < 0.4
    writers, first = [], 0
    for number in range(random.randint(1, 4)):
        directory = root
        for key in partitions:
            value = random.choice(_PARTITIONS[key])
            directory /= f"{key}=" + (
                "__HIVE_DEFAULT_PARTITION__"
                if value in (None, "")
                else "".join(f"%{ord(c):02X}" if c in "%:" else c for c in str(value))
            )
        directory.mkdir(parents=True, exist_ok=True)
        mine = [c for c in columns if uniform or random.random() > 0.2] or columns[:1]
        if not keeps_order:
            random.shuffle(mine)
        rows = random.choice((0, 1, 12, 30, 60))
        table = _table(random, mine, rows, first, uniform or format_ == "orc")
        first += rows
        path = directory / f"part-{number:03}.{format_}"
        writers.append((_write_orc if format_ == "orc" else _write_parquet)(random, table, path, columns))
        damage = random.random()
        if damage < 0.02:
            path.write_bytes(path.read_bytes()[:-5])
        elif damage < 0.04:
            path.write_bytes(b"")
        elif damage < 0.06:
            path.rename(path.with_name("_" + path.name))
    keys = tuple(Column(key, TYPES["string"], tuple(v or "" for v in _PARTITIONS[key])) for key in partitions)
    kinds = ", ".join(f"{c.name}: {c.type.name}" for c in columns)
    return DataSet(root, format_, tuple(columns), keys, f"{kinds}; by {', '.join(writers)}")


def _table(random: Random, columns: list[Column], rows: int, first: int, uniform: bool) -> pa.Table:
    arrays: dict[str, pa.Array] = {"rid": pa.array(range(first, first + rows), pa.int64())}
    for column in columns:
        type_ = column.type
        pool: list[Any] = list(column.pool)
        if not uniform and type_.narrower and random.random() < 0.4:
            type_ = TYPES[random.choice(type_.narrower)]
            pool = list(random.choices(type_.values, k=4))
        nulls = random.choice((0.0, 0.0, 0.2, 1.0) if random.random() < 0.5 else (0.1,))
        runs = random.random() < 0.5  # neighbours have equal values, so that statistics skip row groups
        values = [pool[at * len(pool) // rows if runs else random.randrange(len(pool))] for at in range(rows)]
        arrays[column.name] = pa.array([None if random.random() < nulls else v for v in values], type_.arrow)
    return pa.table(list(arrays.values()), names=list(arrays))


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
    leaves = [
        f.name
        for f in table.schema
        if not pa.types.is_nested(f.type) and not pa.types.is_boolean(f.type) and not pa.types.is_null(f.type)
    ]
    if by == "ours" and not int96:
        bp.write_table(table, path, bloom={name: bp.Bloom(fpp=0.01) for name in leaves}, row_group_size=5)
        return by
    pq.write_table(
        table,
        path,
        row_group_size=random.randint(1, 8),
        bloom_filter_options={name: {"ndv": 16, "fpp": 0.001} for name in leaves} if random.random() < 0.8 else None,
        write_statistics=random.random() < 0.5,
        use_dictionary=random.random() < 0.6,
        store_schema=random.random() < 0.5,
        data_page_version=random.choice(("1.0", "2.0")),
        use_deprecated_int96_timestamps=int96,
        write_page_index=random.random() < 0.5,
    )
    return "pyarrow"


def _write_orc(random: Random, table: pa.Table, path: Path, _columns: list[Column]) -> str:
    stripe = random.randint(1, 10)
    compression = random.choice(("uncompressed", "zstd"))
    orc_rewriting.write(path, table, stripe=stripe, stride=random.randint(1, stripe), compression=compression)
    return "pyarrow"
