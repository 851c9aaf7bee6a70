"""The filters that Spark pushes to a Python data source → the core's predicates; and whether they may be used at all.

What a pushed value *means* depends on the column's Spark type, so each filter is looked up in the schema of the load.
Whatever is not understood is left out: Spark applies every filter again to the rows, so leaving one out costs time and
never a row.

Measured on PySpark 4.3.0: a TIMESTAMP arrives as an aware datetime in UTC whatever the session's zone and the
process's; TIMESTAMP_NTZ as a naive one; DECIMAL as Decimal at the column's scale; FLOAT as the float's exact value;
bytes that are no UTF-8, inside a string literal, as U+FFFD, which is another string.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyspark
from pyspark.sql import datasource as ds
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.query import predicate as p

# Whether the filters of one scan stay out of other scans of the same DataFrame, per Spark release. Where they do not,
# the last filter pushed decides which rows *every* scan of that DataFrame or view reads (`PythonDataSourceV2` keeps one
# plan per relation). tests/spark/test_reuse.py holds this table against the Spark that is installed.
FILTERS_STAY_IN_THEIR_SCAN: dict[tuple[int, int], bool] = {(4, 1): False, (4, 2): False, (4, 3): False}

_CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"
_REPLACEMENT = "\ufffd"

_COMPARISONS: dict[type, Callable[..., p.Predicate]] = {
    ds.EqualTo: p.Eq,
    ds.EqualNullSafe: p.EqNullSafe,
    ds.GreaterThan: p.Gt,
    ds.GreaterThanOrEqual: p.GtEq,
    ds.LessThan: p.Lt,
    ds.LessThanOrEqual: p.LtEq,
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


def filters_stay_in_their_scan(version: str = pyspark.__version__) -> bool:
    """Whether this Spark keeps filters to the scan they were pushed for; an unknown release counts as not."""
    major, minor = version.split(".")[:2]
    return FILTERS_STAY_IN_THEIR_SCAN.get((int(major), int(minor)), False)


def to_predicate(filters: Iterable[ds.Filter], schema: T.StructType) -> p.Predicate | None:
    """The conjunction of those `filters` whose meaning for columns of `schema` is certain; None when there is none."""
    understood = [found for found in (_translate(each, schema) for each in filters) if found is not None]
    return p.And(*understood) if understood else None


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
    build = _COMPARISONS.get(type(each))
    if build is None:
        return None
    value: Any = each.value  # type: ignore[attr-defined]  # every comparison has one
    return build(column, value) if value is None or _fits(value, kind) else None


def _comparable_type(column: tuple[str, ...], schema: T.StructType) -> T.DataType | None:
    """The type of `column` if equality of its values is equality of what the file stores; else None."""
    kind: T.DataType = schema
    for name in column:
        if not isinstance(kind, T.StructType):
            return None
        field = next((field for field in kind.fields if field.name == name), None)
        if field is None or _CHAR_METADATA in field.metadata:
            return None
        kind = field.dataType
    if type(kind) not in _VALUES:  # the exact class: CHAR and VARCHAR, which Spark pads or trims, are subclasses
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
