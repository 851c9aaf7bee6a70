"""Pushed filters become predicates only if their meaning is certain."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import datasource as ds
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.query import predicate as p
from pyspark_bloomparquet.read.pushed_filters import filters_to_predicate

SCHEMA = T.StructType(
    [
        T.StructField("i", T.IntegerType()),
        T.StructField("d", T.DoubleType()),
        T.StructField("dec", T.DecimalType(12, 2)),
        T.StructField("s", T.StringType()),
        T.StructField("lower", T.StringType("UTF8_LCASE")),
        T.StructField("char", T.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
        T.StructField("c", T.CharType(5)),
        T.StructField("v", T.VarcharType(5)),
        T.StructField("b", T.BinaryType()),
        T.StructField("bo", T.BooleanType()),
        T.StructField("date", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("ntz", T.TimestampNTZType()),
        T.StructField("iv", T.DayTimeIntervalType()),
        T.StructField("a", T.ArrayType(T.IntegerType())),
        T.StructField("st", T.StructType([T.StructField("x", T.IntegerType()), T.StructField("a.b", T.IntegerType())])),
        T.StructField("a.b", T.IntegerType()),
    ]
)
UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (ds.EqualTo(("i",), 1), p.Eq(("i",), 1)),
        (ds.EqualNullSafe(("i",), None), p.EqNullSafe(("i",), None)),
        (ds.In(("i",), [1, None]), p.In(("i",), (1, None))),
        (ds.LessThan(("d",), 1.5), p.Lt(("d",), 1.5)),
        (ds.LessThanOrEqual(("dec",), Decimal("1.50")), p.LtEq(("dec",), Decimal("1.50"))),
        (ds.GreaterThan(("s",), "x"), p.Gt(("s",), "x")),
        (ds.GreaterThanOrEqual(("b",), b"\xff"), p.GtEq(("b",), b"\xff")),
        (ds.EqualTo(("bo",), True), p.Eq(("bo",), True)),
        (ds.EqualTo(("date",), dt.date(2026, 1, 1)), p.Eq(("date",), dt.date(2026, 1, 1))),
        (ds.EqualTo(("ts",), NOON), p.Eq(("ts",), NOON)),
        (ds.EqualTo(("ntz",), NOON.replace(tzinfo=None)), p.Eq(("ntz",), NOON.replace(tzinfo=None))),
        (ds.EqualTo(("st", "a.b"), 1), p.Eq(("st", "a.b"), 1)),
        (ds.EqualTo(("a.b",), 1), p.Eq(("a.b",), 1)),
        (ds.IsNull(("s",)), p.IsNull(("s",))),
        (ds.Not(ds.EqualTo(("i",), 1)), p.Not(p.Eq(("i",), 1))),
        (ds.StringStartsWith(("s",), "ab"), p.StartsWith(("s",), "ab")),
    ],
)
def test_a_filter_of_certain_meaning_is_translated(pushed: ds.Filter, expected: p.Predicate) -> None:
    assert filters_to_predicate([pushed], SCHEMA) == p.And(expected)


@pytest.mark.parametrize(
    "pushed",
    [
        ds.EqualTo(("lower",), "x"),  # a collation: equal strings need not be equal bytes
        ds.EqualTo(("char",), "x"),
        ds.EqualTo(("v",), "x"),
        ds.EqualTo(("s",), "\ufffd"),  # bytes that are not UTF-8 arrive as this
        ds.StringStartsWith(("s",), "a\ufffd"),
        ds.EqualTo(("iv",), dt.timedelta(1)),
        ds.EqualTo(("a",), [1]),
        ds.EqualTo(("st",), {"x": 1}),
        ds.EqualTo(("st", "x", "y"), 1),
        ds.EqualTo(("missing",), 1),
        ds.EqualTo(("i",), True),
        ds.EqualTo(("bo",), 1),
        ds.EqualTo(("date",), NOON),
        ds.EqualTo(("ts",), NOON.replace(tzinfo=None)),  # unknown zone
        ds.EqualTo(("ntz",), NOON),
        ds.StringContains(("s",), "x"),
        ds.Not(ds.EqualTo(("lower",), "x")),
    ],
)
def test_a_filter_of_uncertain_meaning_is_left_out(pushed: ds.Filter) -> None:
    assert filters_to_predicate([pushed], SCHEMA) is None
    assert filters_to_predicate([pushed, ds.IsNotNull(("i",))], SCHEMA) == p.And(p.IsNotNull(("i",)))
