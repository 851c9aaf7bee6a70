"""Compares two Arrow columns row by row, under Spark's order of values.

Spark converts columns of different types to a common one. Types for which that conversion rounds, or depends on
settings such as ANSI mode and the session's time zone, are not compared here.

Source: Spark, ``TypeCoercion.scala``, ``AnsiTypeCoercion.scala``, ``DecimalPrecisionTypeCoercion.scala``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.query.arrow_values import NULL
from bloomparquet.query.domains import arrow_family

_Convert = Callable[[Any], Any]

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DIGITS = {  # the precision of the DECIMAL that holds all integers of the type as Spark reads them
    pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20, pa.uint8(): 5, pa.uint16(): 10, pa.uint32(): 20,
    pa.uint64(): 20,
}  # fmt: skip
_MOST_DIGITS = 38


def bind_pair(symbol: str, left: pa.DataType, right: pa.DataType) -> Callable[[Any, Any], Any] | None:
    """The comparison ``left symbol right`` of two arrays in their comparable types, as booleans and nulls. None if the
    types are not compared."""
    converts = _to_common_type(left, right)
    if converts is None:
        return None
    convert_left, convert_right = converts
    is_float = "float" in (arrow_family(left), arrow_family(right))
    less, equal = (_less_float, _equal_float) if is_float else (pc.less, pc.equal)
    compare = _COMPARE[symbol]
    return lambda one, other: compare(convert_left(one), convert_right(other), less, equal)


def compare_missing(symbol: str, left: Any, right: Any) -> Any:
    """``left symbol right`` if one of them is a column that no file has: null in every row."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return both_null if symbol == "<=>" else pc.if_else(both_null, NULL, NULL)


def _equal_null_safe(left: Any, right: Any, equal: Callable[[Any, Any], Any]) -> Any:
    return pc.coalesce(equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))


_COMPARE: dict[str, Callable[[Any, Any, Any, Any], Any]] = {  # by two arrays, and the functions `less` and `equal`
    "=": lambda left, right, less, equal: equal(left, right),
    "<>": lambda left, right, less, equal: pc.invert(equal(left, right)),
    "<=>": lambda left, right, less, equal: _equal_null_safe(left, right, equal),
    "<": lambda left, right, less, equal: less(left, right),
    "<=": lambda left, right, less, equal: pc.invert(less(right, left)),
    ">": lambda left, right, less, equal: less(right, left),
    ">=": lambda left, right, less, equal: pc.invert(less(left, right)),
}


def _equal_float(left: Any, right: Any) -> Any:
    """NaN equals itself."""
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less_float(left: Any, right: Any) -> Any:
    """NaN is greater than every number."""
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def _to_common_type(left: pa.DataType, right: pa.DataType) -> tuple[_Convert, _Convert] | None:
    families = {arrow_family(left), arrow_family(right)}
    if families in ({"string"}, {"binary"}):
        return _casts(pa.large_string() if families == {"string"} else pa.large_binary())
    if families == {"boolean"}:
        return _casts(pa.uint8())  # Arrow does not order booleans
    if families == {"float"} or (families == {"date"} and left == right == pa.date32()):
        return _unchanged, _unchanged
    if families in ({"timestamp"}, {"timestamp_ntz"}):
        if left.unit == right.unit:
            return _unchanged, _unchanged
        if "ns" in (left.unit, right.unit):  # Spark has them as integers, or not at all
            return None
        return _to_microseconds(left.unit), _to_microseconds(right.unit)
    if families == {"integer"} and pa.uint64() not in (left, right):
        return _casts(pa.int64())
    if families == {"integer", "float"} and pa.float64() in (left, right) and pa.uint64() not in (left, right):
        return _casts(pa.float64())  # Java rounds integers to doubles in the same way
    if families <= {"integer", "decimal"}:
        digits = [_whole_digits_and_scale(kind) for kind in (left, right)]
        whole, scale = (max(each) for each in zip(*digits, strict=True))
        if whole + scale <= _MOST_DIGITS:
            return _casts(pa.decimal128(_MOST_DIGITS, scale))
    return None


def _unchanged(column: Any) -> Any:
    return column


def _casts(kind: pa.DataType) -> tuple[_Convert, _Convert]:
    def cast(column: Any) -> Any:
        return column.cast(kind, safe=not pa.types.is_floating(kind))

    return cast, cast


def _to_microseconds(unit: str) -> _Convert:
    return lambda column: pc.multiply_checked(column, pa.scalar(_MICROSECONDS[unit], pa.int64()))


def _whole_digits_and_scale(kind: pa.DataType) -> tuple[int, int]:
    return (_DIGITS[kind], 0) if kind in _DIGITS else (kind.precision - kind.scale, kind.scale)
