"""Decides whether Spark may round numbers to compare them.

Spark casts a column and its literals to one type: BIGINT, DECIMAL, FLOAT or DOUBLE, the values of IN to one type
together. If that type does not hold all of them, rows match that do not equal a literal exactly. Which type it is
depends on ANSI mode and on the types that the literals were written in, which a predicate no longer has. So the answers
are cautious.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from bloomparquet.query.literals import Family

_DECIMAL_DIGITS = 38  # the largest precision of a DECIMAL
_BIGINT_DIGITS = 20  # the precision of the DECIMAL to which a BIGINT is cast
_CAST_DIGITS = 18  # digits before the point of a literal that is cast to DECIMAL; see casts
_DOUBLE_DIGITS = 15  # digits that a DOUBLE always keeps
_EXACT_FLOAT = 2**24  # a FLOAT lacks some integers above this one
_BEYOND_INTEGERS = 2**65  # no column of integers reaches this number, even after rounding


def may_round(
    values: Sequence[Any],
    family: Family,
    precision: int | None,
    scale: int | None,
    float_type: type[np.floating[Any]],
) -> bool:
    """Whether the type in which Spark compares `values` with a column may not hold all of its values, or one of them.

    `precision` and `scale` are those of a column of the family ``decimal``, `float_type` that of a ``float``.
    """
    if family == "float":
        # Without ANSI mode, a FLOAT and an integer are compared as FLOAT.
        most = 2 ** (np.finfo(float_type).nmant + 1)
        return float_type is not np.float64 and any(type(value) is int and abs(value) > most for value in values)
    if family == "integer":
        if {int, type(None)}.issuperset(map(type, values)):
            return False
        numbers = list(filter(_is_finite, values))
        if any(isinstance(value, float) for value in numbers):
            return any(_EXACT_FLOAT <= _magnitude(value) < _BEYOND_INTEGERS for value in numbers)
        return _exceeds_decimal(numbers, _BIGINT_DIGITS, 0)
    if family != "decimal" or scale is None or precision is None or precision > _DECIMAL_DIGITS:
        return False  # the column has no numbers, or Spark does not read it
    numbers = list(filter(_is_finite, values))
    if any(isinstance(value, float) for value in numbers):
        return precision > _DOUBLE_DIGITS or not all(isinstance(value, float) for value in numbers)
    return _exceeds_decimal(numbers, precision - scale, scale)


def _is_finite(value: Any) -> bool:
    """Whether `value` is a finite number."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value.is_finite() if isinstance(value, Decimal) else type(value) is int


def _magnitude(value: float | Decimal) -> float | Decimal:
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)  # abs would round a Decimal, or overflow


def _exceeds_decimal(values: Sequence[int | Decimal], whole: int, scale: int) -> bool:
    """Whether a column of `whole` digits before the point and `scale` after it has no common type of 38 digits with the
    `values`. An int may be a BIGINT, and a Decimal a cast to 18 digits."""
    for value in values:
        digits, exponent = _digits(value)
        if max(digits + exponent, -exponent, digits) > _DECIMAL_DIGITS:  # no DECIMAL, so Spark refuses it
            return False
        whole = max(whole, digits + exponent, _BIGINT_DIGITS if type(value) is int else _CAST_DIGITS)
        scale = max(scale, -exponent)
    return whole + scale > _DECIMAL_DIGITS


def _digits(value: int | Decimal) -> tuple[int, int]:
    """The number of digits, and the exponent of the last one."""
    if isinstance(value, int):
        return len(str(abs(value))) if abs(value) < 10**_DECIMAL_DIGITS else _DECIMAL_DIGITS + 1, 0
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # the value is finite
    return len(digits), exponent
