"""From the columns of an ORC file to the Spark schema that ``spark.read.orc`` infers, and what can be read as what.

Spark's types that ORC has not are attributes of the columns that hold their values.

Source: Spark's ``OrcUtils.toCatalystSchema`` and ``orcTypeDescription``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import UnsupportedError
from bloomparquet.orc.schema import Kind
from pyspark_bloomparquet.types import as_nullable, resolve

if TYPE_CHECKING:
    from bloomparquet.orc.schema import OrcType

CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"
CATALYST = "spark.sql.catalyst.type"

_PLAIN: dict[int, T.DataType] = {
    Kind.BOOLEAN: T.BooleanType(),
    Kind.BYTE: T.ByteType(),
    Kind.SHORT: T.ShortType(),
    Kind.INT: T.IntegerType(),
    Kind.LONG: T.LongType(),
    Kind.FLOAT: T.FloatType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.STRING: T.StringType(),
    Kind.BINARY: T.BinaryType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampType(),
    Kind.TIMESTAMP_INSTANT: T.TimestampType(),
}
_HELD_BY: dict[type[T.DataType], int] = {
    T.TimestampNTZType: Kind.LONG,
    T.DayTimeIntervalType: Kind.LONG,
    T.YearMonthIntervalType: Kind.INT,
}
"""What holds the values of Spark's types that ORC has not."""

_SQL_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "real": "float"}
_DEFAULT_DECIMAL = (38, 10)
_MAX_PRECISION = 38
_TEXT = (T.StringType, T.CharType, T.VarcharType)
_WIDER: tuple[type[T.DataType], ...] = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def file_schema(types: Sequence[OrcType]) -> T.StructType:
    """The Spark schema of a file with the columns `types`, every field nullable. :class:`UnsupportedError` for a column
    that Spark has no type for."""
    found = _type(types, 0, ())
    if not isinstance(found, T.StructType):
        raise UnsupportedError(
            f"its rows are of type {types[0].describe()}; expected a STRUCT, whose fields are columns"
        )
    return as_nullable(T.StructType([_without_lengths(field) for field in found.fields]))


def _without_lengths(field: T.StructField) -> T.StructField:
    """CHAR and VARCHAR as STRING, as Spark has them: what they were is metadata, by which it pads what is compared."""
    kind = _as_strings(field.dataType)
    lengths = {} if kind == field.dataType else {CHAR_METADATA: field.dataType.simpleString()}
    return T.StructField(field.name, kind, True, lengths)


def _as_strings(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, _as_strings(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_as_strings(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_as_strings(kind.keyType), _as_strings(kind.valueType))
    return T.StringType() if isinstance(kind, T.CharType | T.VarcharType) else kind


def _type(types: Sequence[OrcType], column: int, place: tuple[str, ...]) -> T.DataType:
    found = types[column]
    if found.kind == Kind.STRUCT:
        fields = zip(found.names, found.children, strict=True)
        return T.StructType([T.StructField(name, _type(types, child, (*place, name))) for name, child in fields])
    if found.kind == Kind.LIST:
        return T.ArrayType(_type(types, found.children[0], (*place, "element")))
    if found.kind == Kind.MAP:
        key, value = found.children
        return T.MapType(_type(types, key, (*place, "key")), _type(types, value, (*place, "value")))
    said = found.attributes.get(CATALYST)
    shown = _plain(found) if said is None else _named(said)
    if shown is None:
        described = found.describe() if said is None else f"{found.describe()} with the attribute {CATALYST}={said}"
        raise UnsupportedError(
            f"column {'.'.join(place)} is {described}, which Spark has no type for; "
            "give a schema that leaves it out: spark.read.schema(…)"
        )
    return shown


def _plain(found: OrcType) -> T.DataType | None:
    if found.kind in (Kind.CHAR, Kind.VARCHAR):
        length = found.maximum_length or 0
        return T.CharType(length) if found.kind == Kind.CHAR else T.VarcharType(length)
    if found.kind != Kind.DECIMAL:
        return _PLAIN.get(found.kind)
    precision, scale = _DEFAULT_DECIMAL if found.precision is None else (found.precision, found.scale or 0)
    return T.DecimalType(precision, scale) if 1 <= precision <= _MAX_PRECISION and 0 <= scale <= precision else None


def _named(name: str) -> T.DataType | None:
    """The type that Spark calls so."""
    text = name.strip().lower()
    field = {"name": "c", "type": _SQL_NAMES.get(text, text), "nullable": True, "metadata": {}}
    try:
        return T.StructType.fromJson({"fields": [field]}).fields[0].dataType
    except Exception:  # noqa: BLE001 - another Spark's type, which is unknown here
        return None


def check_readable(
    types: Sequence[OrcType], column: int, wanted: T.DataType, place: str, *, case_sensitive: bool
) -> None:
    """UnsupportedError where a column of a file cannot be read as `wanted` with every value unchanged.

    ORC's reader in Java converts nearly every type to every other, by rules of its own; here numbers become wider
    ones, and nothing else.
    """
    found = types[column]
    if isinstance(wanted, T.UserDefinedType):
        wanted = wanted.sqlType()
    if found.kind == Kind.STRUCT and isinstance(wanted, T.StructType):
        for field in wanted.fields:
            at = resolve(found.names, field.name, case_sensitive=case_sensitive)
            if at is not None:
                inner = f"{place}.{field.name}"
                check_readable(types, found.children[at], field.dataType, inner, case_sensitive=case_sensitive)
        return
    inside: list[tuple[str, T.DataType]] = []
    if found.kind == Kind.LIST and isinstance(wanted, T.ArrayType):
        inside = [("element", wanted.elementType)]
    elif found.kind == Kind.MAP and isinstance(wanted, T.MapType):
        inside = [("key", wanted.keyType), ("value", wanted.valueType)]
    for child, (name, kind) in zip(found.children, inside):
        check_readable(types, child, kind, f"{place}.{name}", case_sensitive=case_sensitive)
    if not inside and not _is_exact(found, wanted):
        said = found.attributes.get(CATALYST)
        shown = found.describe() if said is None else f"{found.describe()} ({said})"
        raise UnsupportedError(
            f"{place} is {shown} in the file, which the Python data source does not read as {wanted.simpleString()}; "
            "give it its own type in the schema and cast it, or attach the jar (pyspark_bloomorc.attach), with which "
            "Spark's own reader converts it"
        )


def _is_exact(found: OrcType, wanted: T.DataType) -> bool:
    if found.kind == Kind.DECIMAL:
        if not isinstance(wanted, T.DecimalType) or not found.precision:  # without one, files hold numbers of any scale
            return False
        more = wanted.scale - (found.scale or 0)
        return more >= 0 and wanted.precision - found.precision >= more
    shown = _plain(found)
    said = found.attributes.get(CATALYST)
    if said is not None:
        named = _named(said)
        if named is not None and type(named) in _HELD_BY:
            return wanted == named and found.kind == _HELD_BY[type(named)]
        if type(named) is not type(shown) and not (isinstance(named, _TEXT) and isinstance(shown, _TEXT)):
            return False
    if isinstance(wanted, _TEXT):
        return isinstance(shown, _TEXT)
    if shown in (T.FloatType(), T.DoubleType()):
        return wanted == shown or wanted == T.DoubleType()
    if type(shown) in _WIDER and type(wanted) in _WIDER:
        return _WIDER.index(type(wanted)) >= _WIDER.index(type(shown))
    return shown == wanted
