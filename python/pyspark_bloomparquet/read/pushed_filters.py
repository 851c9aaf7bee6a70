"""Translates the filters that Spark pushes to a Python data source into predicates, where that is safe.

The meaning of a pushed value depends on the column's Spark type, so each filter is looked up in the schema of the load.
A filter that cannot be translated is left out. Spark applies every filter to the rows again, so this costs time, but
no rows. Spark 4.0 pushes no filters and has no classes for them.

Measured on PySpark 4.3.0: TIMESTAMP arrives as an aware datetime in UTC, whatever the zone of the session and of the
process; TIMESTAMP_NTZ as a naive datetime; DECIMAL as Decimal at the column's scale; FLOAT as the float's exact value.
In a string literal, bytes that are not UTF-8 arrive as U+FFFD, which is another string.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as ds
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.query import predicate as p

# Whether this Spark pushes filters to Python data sources.
CAN_PUSH = hasattr(ds, "Filter")

_CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"
_REPLACEMENT = "\ufffd"

_COMPARISONS: dict[str, Callable[..., p.Predicate]] = {
    "EqualTo": p.Eq,
    "EqualNullSafe": p.EqNullSafe,
    "GreaterThan": p.Gt,
    "GreaterThanOrEqual": p.GtEq,
    "LessThan": p.Lt,
    "LessThanOrEqual": p.LtEq,
}
_VALUES: dict[type, tuple[type, ...]] = {
    T.BooleanType: (bool,),
    T.ByteType: (int,),
    T.ShortType: (int,),
    T.IntegerType: (int,),
    T.LongType: (int,),
    T.FloatType: (float,),
    T.DoubleType: (float,),
    T.DecimalType: (Decimal,),
    T.StringType: (str,),
    T.BinaryType: (bytes,),
    T.DateType: (dt.date,),
    T.TimestampType: (dt.datetime,),
    T.TimestampNTZType: (dt.datetime,),
}


def filters_to_predicate(filters: Iterable[ds.Filter], schema: T.StructType) -> p.Predicate | None:
    """The conjunction of the `filters` whose meaning for columns of `schema` is certain; None if there is none."""
    predicates = [predicate for predicate in (_translate(each, schema) for each in filters) if predicate is not None]
    return p.And(*predicates) if predicates else None


def _translate(each: ds.Filter, schema: T.StructType) -> p.Predicate | None:
    if isinstance(each, ds.Not):
        child = _translate(each.child, schema)
        return None if child is None else p.Not(child)
    column: tuple[str, ...] = getattr(each, "attribute", ())
    kind = _comparable_type(column, schema) if column else None
    if kind is None:
        return None
    if isinstance(each, ds.IsNull):
        return p.IsNull(column)
    if isinstance(each, ds.IsNotNull):
        return p.IsNotNull(column)
    if isinstance(each, ds.In):
        values = tuple(each.value)
        return p.In(column, values) if all(value is None or _fits(value, kind) for value in values) else None
    if isinstance(each, ds.StringStartsWith):
        return p.StartsWith(column, each.value) if isinstance(kind, T.StringType) and _fits(each.value, kind) else None
    build = _COMPARISONS.get(type(each).__name__)
    if build is None:
        return None
    value: Any = each.value  # type: ignore[attr-defined]  # every comparison has one
    return build(column, value) if value is None or _fits(value, kind) else None


def find_field(schema: T.StructType, column: tuple[str, ...]) -> T.StructField | None:
    """The field of `schema` at the path `column`, which is not empty."""
    field: T.StructField | None = None
    kind: T.DataType = schema
    for name in column:
        fields = kind.fields if isinstance(kind, T.StructType) else []
        field = next((field for field in fields if field.name == name), None)
        if field is None:
            return None
        kind = field.dataType
    return field


def _comparable_type(column: tuple[str, ...], schema: T.StructType) -> T.DataType | None:
    """The type of `column`, if values are equal in Spark exactly when their stored values are equal; else None."""
    field = find_field(schema, column)
    if field is None or _CHAR_METADATA in field.metadata:
        return None
    kind = field.dataType
    if type(kind) not in _VALUES:  # not isinstance: CHAR and VARCHAR are subclasses, which Spark pads or trims
        return None
    if isinstance(kind, T.StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        return None
    return kind


def _fits(value: Any, kind: T.DataType) -> bool:
    expected = _VALUES[type(kind)]
    if not isinstance(value, expected) or isinstance(value, bool) != (bool in expected):
        return False
    if isinstance(kind, T.DateType):
        return not isinstance(value, dt.datetime)
    if isinstance(value, dt.datetime):
        return (value.tzinfo is None) == isinstance(kind, T.TimestampNTZType)
    return not (isinstance(value, str) and _REPLACEMENT in value)
