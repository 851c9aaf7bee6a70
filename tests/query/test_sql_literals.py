"""Literals in SQL text: they have Spark's value and type, or are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from bloomparquet.errors import PlanError, quoted
from bloomparquet.query.sql.parse import parse_where

NOON = dt.datetime(2024, 5, 17, 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("99999999999999999999999999999999999999999", 99999999999999999999999999999999999999999), ("-5", -5),
        ("- 1.5", Decimal("-1.5")), ("1.50", Decimal("1.50")), (".5", Decimal("0.5")), ("1.5BD", Decimal("1.5")),
        (f"-{'9' * 30}.{'9' * 8}", Decimal(f"-{'9' * 30}.{'9' * 8}")),
        (f"CAST('{'9' * 38}' AS DECIMAL(38, 0))", Decimal("9" * 38)),
        ("CAST('1e-38' AS DECIMAL(38, 38))", Decimal("1e-38")), ("1.5D", 1.5), ("0.1F", 0.10000000149011612),
        ("1e3", 1000.0), ("-1.5E-3", -0.0015), ("-128Y", -128), ("-9223372036854775808L", -(2**63)),
        ("CAST(-128 AS TINYINT)", -128), ("CAST('x' AS STRING)", "x"), ("CAST('x' AS BINARY)", b"x"),
        ("CAST(X'00fF' AS BINARY)", b"\x00\xff"), ("CAST(5 AS DECIMAL(4))", Decimal(5)),
        ("CAST(5 AS DECIMAL)", Decimal(5)), ("CAST(9999999999 AS DECIMAL)", Decimal(9999999999)),
        ("CAST(5 AS DECIMAL(20, 2))", Decimal("5.00")), ("CAST(-1.5 AS DECIMAL(9, 2))", Decimal("-1.50")),
        ("CAST(1000000000000000000 AS DECIMAL(19, 0))", Decimal(10**18)), ("1.00000005F", 1.0),
        ("1.000000059604644775390625F", 1.0),  # halfway between two FLOATs, also as a DOUBLE
        ("CAST('Infinity' AS FLOAT)", float("inf")), ("CAST(9.99 AS DECIMAL(3, 2))", Decimal("9.99")),
        ("CAST(' +5\t' AS INT)", 5), ("CAST('1e2' AS DOUBLE)", 100.0), ("CAST('.5' AS DECIMAL(3, 1))", Decimal("0.5")),
        ("double('NaN')", float("nan")), ("CAST('-Infinity' AS DOUBLE)", float("-inf")),
        ("CAST(1.50 AS DECIMAL(12, 2))", Decimal("1.50")), ("CAST(NULL AS INT)", None), ("'x'", "x"), ('"x"', "x"),
        ("''", ""), ("'it''s'", "it's"), (r"'it\'s'", "it's"), (r"'a\nb\\c\u0041'", "a\nb\\cA"), (r"r'a\n'", r"a\n"),
        ("'a' 'b'", "ab"), ("X'00fF'", b"\x00\xff"), ("TRUE", True), ("(NULL)", None),
        ("DATE '2024-05-17'", dt.date(2024, 5, 17)), ("TIMESTAMP '2024-05-17 12:00:00'", NOON),
        ("TIMESTAMP_NTZ '2024-05-17T12:00'", NOON),
        ("TIMESTAMP_LTZ '2024-05-17 12:00:00.000001'", NOON.replace(microsecond=1)),
        ("TIMESTAMP '2024-05-17 14:00:00+02:00'", NOON.replace(tzinfo=dt.timezone.utc)),
        ("TIMESTAMP '2024-05-17 12:00:00.000000001'", np.datetime64("2024-05-17T12:00:00.000000001")),
        ("TIME '12:00:01'", dt.time(12, 0, 1)), ("CAST('12:00:01.000001' AS TIME)", dt.time(12, 0, 1, 1)),
        ("CAST('12:00:01.120' AS TIME(2))", dt.time(12, 0, 1, 120_000)), ("'12:00:01'::TIME(0)", dt.time(12, 0, 1)),
        ("CAST('12:00:01.000001' AS TIME(9))", dt.time(12, 0, 1, 1)),
    ],
)  # fmt: skip
def test_literals_have_sparks_value_and_type(text, expected):
    for value in (parse_where(f"a = {text}").value, parse_where(f"a IN ({text})").values[0]):
        assert repr(value) == repr(expected)  # also NaN, and the scale of decimals


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("a = 1e", "1e"), ("a = 300Y", "300"), ("a = 128Y", "128"), ("a = -129Y", "129"),
        ("a = CAST(TRUE AS INT)", "TRUE"), ("a = CAST('NaN' AS DECIMAL(5, 0))", "NaN"),
        ("a = CAST('Infinity' AS INT)", "Infinity"), ("a = CAST(1e100 AS DECIMAL(38, 0))", "e100"),
        ("a = CAST('1e999999999' AS DECIMAL(38, 0))", "e999999999"), ("a = CAST(1.5 AS DECIMAL)", "1.5"),
        ("a = CAST(10000000000 AS DECIMAL)", "10000000000"), ("a = CAST(10 AS DECIMAL(3, 2))", "10"),
        ("a = CAST(5 AS DECIMAL(38, 0))", "5"),  # a wide type, by which Spark rounds
        ("a = CAST(999999999999999999 AS DECIMAL(19, 0))", "999999999999999999"),
        ("a = 1.000000059604644775390625000000001F", "1.000000059604644775390625000000001"),
        ("a = 1.000000178813934326171874999999999F", "1.000000178813934326171874999999999"),
        ("a = CAST(9007199791611905 AS FLOAT)", "9007199791611905"), ("a = CAST(1.125 AS DECIMAL(9, 2))", "1.125"),
        ("a = CAST('1e2' AS INT)", "1e2"), ("a = CAST('5.0' AS INT)", "5.0"), ("a = CAST('1_0' AS INT)", "1_0"),
        ("a = CAST('٣' AS INT)", "٣"), ("a = TIMESTAMP_NTZ '2024-05-17 10:00:00+02:00'", "+02:00"),
        ("a = CAST(1.5 AS INT)", "1.5"), ("a = DATE '2024-02-30'", "2024-02-30"), ("a = TIMESTAMP 'noon'", "noon"),
        ("a = CAST('x' AS STRING COLLATE UTF8_LCASE)", "UTF8_LCASE"),
        ("a IN ('y', CAST('x' AS STRING COLLATE UTF8_BINARY_RTRIM))", "UTF8_BINARY_RTRIM"),
        ("a = CAST('12:00:01.5' AS TIME(0))", "12:00:01.5"),
        ("a = CAST('12:00:01.123456' AS TIME(3))", "12:00:01.123456"),
        ("a = CAST('12:00:01' AS TIME(10))", "12:00:01"),
        ("a = CAST('12:00:01.000000001' AS TIME(9))", "12:00:01.000000001"),
    ],
)  # fmt: skip
def test_error_quotes_a_literal_that_spark_refuses_or_changes(text, piece):
    with pytest.raises(PlanError) as caught:
        parse_where(text)
    assert piece in str(caught.value)
    assert "in where" in str(caught.value)


@pytest.mark.parametrize(
    ("cast", "misfit"),
    [
        ("CAST(5 AS DECIMAL(39))", "the precision of the DECIMAL is 39; expected at most 38"),
        ("CAST('1e60' AS DECIMAL(100, 0))", "the precision of the DECIMAL is 100; expected at most 38"),
        ("CAST(NULL AS DECIMAL(40, 2))", "the precision of the DECIMAL is 40; expected at most 38"),
        ("CAST(b AS DECIMAL(39, 0))", "the precision of the DECIMAL is 39; expected at most 38"),
        ("CAST('0.001' AS DECIMAL(3, 4))", "the scale of the DECIMAL is 4; expected at most its precision, 3"),
        ("CAST(0 AS DECIMAL(38, 39))", "the scale of the DECIMAL is 39; expected at most its precision, 38"),
        ("CAST(5 AS DECIMAL(4, 2, 1))", "the type is no DECIMAL of Spark; expected DECIMAL(precision, scale)"),
        (f"CAST(5 AS DECIMAL({'9' * 5_000}))", "the type is no DECIMAL of Spark; expected DECIMAL(precision, scale)"),
        ("CAST(5 AS DECIMAL(X))", "the type is no DECIMAL of Spark; expected DECIMAL(precision, scale)"),
    ],
)
@pytest.mark.parametrize("partly", [False, True])
def test_a_decimal_that_spark_does_not_have_is_an_error(cast: str, misfit: str, partly: bool) -> None:
    with pytest.raises(PlanError) as caught:
        parse_where(f"a = {cast} OR a = 1", partly=partly)
    assert str(caught.value) == f"cannot use {quoted(cast)} in where: {misfit}"
