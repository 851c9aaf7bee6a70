"""Types of columns in the files of random SQL, their values, and the literals of these values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86_400_000_000  # microseconds


def quoted(text: str) -> str:
    """A SQL string literal. `text` must have no backslash, whose meaning depends on a setting."""
    return "'" + text.replace("'", "\\'") + "'"


def _float_sql(value: float) -> str:
    return f"double('{value!r}')" if value != value or value in (float("inf"), float("-inf")) else f"{value!r}D"


def _micros(text: str) -> int:
    return (dt.datetime.fromisoformat(text) - _EPOCH) // dt.timedelta(microseconds=1)


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
    special: tuple[Any, ...] = field(default=(), compare=False)
    """Values whose bounds, hashes or calendars have lost rows. Half of the values of files are among them."""

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


_INTEGERS = (0, 1, -1, 2, 3, 5, 7, 42, 100)
_TIMES = (
    "1970-01-01", "1969-12-31 23:59:59.999999", "2026-03-08 02:30", "2026-11-01 01:30", "2026-01-01",
    "2026-01-01 00:00:00.000001", "2026-01-01 12:00:00.500000", "2011-12-30 05:00", "1900-01-01", "1800-06-01 01:02:03",
)  # fmt: skip
_OLD = "0001-01-01", "1582-10-04", "1582-10-15", "1500-02-28 12:00", "9999-12-31 23:59:59.999999"
_TEXTS = ("", "a", "b", "A", "ab", "abc", "abcdef", "a ", " a", "é", "ß", "zzz", "1", "42", "NaN")
_FLOATS = (0.0, 1.0, 1.5, -1.5, 42.0, 3.0, 0.1, float("inf"), float("-inf"), 3.0e38, 1e-40)
_SPECIAL_FLOATS = (-0.0, 0.0, float("nan"), float("nan"))


def _type(
    name: str,
    arrow: pa.DataType,
    values: tuple[Any, ...],
    sql: Callable[[Any], str],
    ddl: str,
    *narrower: str,
    special: tuple[Any, ...] = (),
) -> Type:
    return Type(name, arrow, (*values, *special), sql, ddl, narrower, special)


def _decimal(precision: int, scale: int, *narrower: str) -> Type:
    step = Decimal(1).scaleb(-scale)
    most = Decimal(f"{'9' * (precision - scale)}.{'9' * scale}")
    values = tuple(Decimal(v).quantize(step) for v in ("0", "1", "1.5", "-1.25", "42", "7.1"))
    name, special = f"decimal({precision},{scale})", (most, most.copy_negate())
    return _type(name, pa.decimal128(precision, scale), values, lambda v: f"{v}BD", name, *narrower, special=special)


def _timestamp(name: str, arrow: pa.DataType, ddl: str, old: Sequence[str], *narrower: str) -> Type:
    tick = {"ms": 1000, "us": 1, "ns": Fraction(1, 1000)}[arrow.unit]  # in microseconds
    values, special = (tuple(int(_micros(text) // tick) for text in texts) for texts in (_TIMES, old))
    keyword = "TIMESTAMP_NTZ" if ddl == "TIMESTAMP_NTZ" else "TIMESTAMP"
    return _type(name, arrow, values, lambda v: f"{keyword} '{_clock(int(v * tick))}'", ddl, *narrower, special=special)


TYPES = {
    each.name: each
    for each in (
        _type("int8", pa.int8(), _INTEGERS, str, "TINYINT", special=(127, -128)),
        _type("int16", pa.int16(), _INTEGERS, str, "SMALLINT", "int8", special=(32767, -32768)),
        _type("int32", pa.int32(), _INTEGERS, str, "INT", "int8", "int16", special=(2**31 - 1, -(2**31))),
        _type("int64", pa.int64(), _INTEGERS, lambda v: f"{v}L", "BIGINT", "int32", "int8",
              special=(2**31, 2**63 - 1, -(2**63) + 1)),
        _type("uint8", pa.uint8(), (0, 1, 42, 127), str, "SMALLINT", special=(128, 255)),
        _type("uint16", pa.uint16(), (0, 1, 42), str, "INT", special=(32768, 65535)),
        _type("uint32", pa.uint32(), (0, 1, 42), lambda v: f"{v}L", "BIGINT", special=(2**31, 2**32 - 1)),
        _type("uint64", pa.uint64(), (0, 1, 42), lambda v: f"{v}BD", "DECIMAL(20,0)", special=(2**63, 2**64 - 1)),
        _type("float32", pa.float32(), _FLOATS, _float_sql, "FLOAT", special=_SPECIAL_FLOATS),
        _type("float64", pa.float64(), (*_FLOATS, 1.7e308, 5e-324), _float_sql, "DOUBLE", "float32", "int32", "int16",
              special=_SPECIAL_FLOATS),
        _decimal(4, 2),
        _decimal(9, 2, "decimal(4,2)", "int8"),
        _decimal(18, 6, "decimal(9,2)", "int32", "int64"),
        _decimal(38, 10, "decimal(18,6)", "decimal(4,2)"),
        _type("string", pa.string(), _TEXTS, quoted, "STRING", special=("\U0001f600", "x" * 70)),
        _type("binary", pa.binary(), tuple(map(str.encode, _TEXTS)), lambda v: f"X'{v.hex()}'", "BINARY",
              special=(b"\xff\xfe", b"\x80", b"x" * 70)),
        _type("boolean", pa.bool_(), (True, False), lambda v: str(v).upper(), "BOOLEAN"),
        _type("date", pa.date32(), tuple(_micros(text) // _DAY for text in _TIMES), lambda v: f"DATE '{_day(v)}'",
              "DATE", special=tuple(_micros(text) // _DAY for text in _OLD)),
        _timestamp("timestamp", pa.timestamp("us", "UTC"), "TIMESTAMP", _OLD),
        _timestamp("timestamp_ms", pa.timestamp("ms", "UTC"), "TIMESTAMP", _OLD),
        _timestamp("timestamp_ns", pa.timestamp("ns"), "TIMESTAMP_NTZ", ()),
        _timestamp("timestamp_ntz", pa.timestamp("us"), "TIMESTAMP_NTZ", _OLD, "date"),
        _timestamp("int96", pa.timestamp("ns"), "TIMESTAMP", ()),
        _type("fixed", pa.binary(3), (b"abc", b"\0\0\0", b"zzz"), lambda v: f"X'{v.hex()}'", "BINARY"),
        _type("null", pa.null(), (None,), lambda _: "NULL", "INT"),
        _type("list", pa.list_(pa.int32()), ([1, 2], [], [None], [42], [5, 5]),
              lambda v: f"array({', '.join(str(x) if x is not None else 'NULL' for x in v)})", "ARRAY<INT>"),
        _type("map", pa.map_(pa.string(), pa.int64()), ([("a", 1)], [], [("b", None), ("a", 42)]),
              lambda _: "map('a', 1L)", "MAP<STRING, BIGINT>"),
        _type(
            "struct", pa.struct([("x", pa.int64()), ("y.z", pa.string()), ("t", pa.struct([("u", pa.float64())]))]),
            ({"x": 1, "y.z": "a", "t": {"u": 1.5}}, {"x": 42, "y.z": "b", "t": {"u": None}},
             {"x": 7, "y.z": "", "t": {"u": float("nan")}}, {"x": 5, "y.z": "ab", "t": {"u": 42.0}},
             {"x": 1000, "y.z": "b", "t": {"u": -1.5}}),
            lambda _: "named_struct('x', 1L, 'y.z', 'a', 't', named_struct('u', 1.5D))",
            "STRUCT<x: BIGINT, `y.z`: STRING, t: STRUCT<u: DOUBLE>>",
            special=({"x": None, "y.z": None, "t": None}, {"x": 7, "y.z": "a", "t": None}),
        ),
    )
}  # fmt: skip

OFTEN = (
    "float32", "float64", "uint32", "uint64", "int32", "decimal(4,2)", "decimal(9,2)", "string", "string", "date",
    "date", "list", "struct", "struct",
)  # fmt: skip
"""Types with special bounds, hashes, calendars, conversions or leaves. Columns have them more often."""
_INT32 = ("int8", "int16", "int32", "uint8", "uint16")
_CONVERSIONS = {
    **dict.fromkeys(_INT32, ("int8", "int8", "int16", "int32", "int64", "float64", "decimal(9,2)", "decimal(18,6)")),
    "int64": ("int32", "decimal(18,6)", "decimal(38,10)"),
    "uint32": ("int32", "float64"),
    **dict.fromkeys(
        ("decimal(4,2)", "decimal(9,2)", "decimal(18,6)"),
        ("int64", "int64", "int32", "int32", "decimal(18,6)", "decimal(38,10)"),
    ),
    "float32": ("float64",),
    "string": ("binary",),
    "binary": ("string",),
    "date": ("timestamp_ntz",),
    "timestamp": ("timestamp_ntz",),
    "timestamp_ntz": ("timestamp",),
}


def converted(random: Random, type_: Type) -> Type:
    """A type to which a reader may convert the values of `type_`, perhaps with losses."""
    return TYPES.get(random.choice(_CONVERSIONS.get(type_.name, (type_.name,))), type_)  # VARIANT is not in TYPES


def value_as(value: Any, stored: Type, to: Type) -> Any:
    """The value that a reader shows for a stored one if it converts the column; unchanged if that is not known."""
    if value is None or to is stored:
        return value
    if to.name in _BITS and isinstance(value, int | Decimal):
        if isinstance(value, Decimal):
            value = int(value.scaleb(stored.arrow.scale))  # Spark's reader leaves out the point
        half = 1 << _BITS[to.name] - 1
        return (value + half) % (2 * half) - half
    if to.name.startswith("float") and isinstance(value, int | float):
        return float(value)
    if to.name.startswith("decimal") and isinstance(value, int | Decimal):
        return Decimal(value)
    if to.name == "binary" and isinstance(value, str):
        return value.encode()
    if to.name == "string" and isinstance(value, bytes):
        return value.decode(errors="replace")
    if to.name == "timestamp_ntz" and stored.name == "date":
        return value * _DAY
    return value


_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

VARIANTS = (
    '{"a": 1, "b": "x", "o": {"x": 1.5}}', '{"a": 42}', '{"a": 42, "b": "s", "o": {"x": 2e0}}', '{"b": "a", "z": 1}',
    '{"a": "42"}', '{"a": null, "b": 7}', '{"a": 1.5, "o": {"y": 1}}', "42", "[1]", "{}", "null", "",
    '{"a": "7", "b": 42, "o": {"x": "1.5"}}', '{"a": 7.0, "b": "y", "o": {"x": 42}}',
)  # fmt: skip
VARIANT = Type("variant", pa.null(), (None,), lambda _: "NULL", "VARIANT")
"""Only Spark writes it, from the JSON texts of `VARIANTS`."""
