"""Evaluates casts of literals, as in ``CAST('1' AS INT)`` and ``DATE '2024-05-17'``."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from bloomparquet.errors import PlanError, quoted
from bloomparquet.query.literals import EPOCH, coerce
from bloomparquet.query.values import Value

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*([+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)|nan)\s*", re.ASCII | re.IGNORECASE)
_MOST_WHOLE = 18  # digits before the point of a cast to DECIMAL, unless the literal has more; see families
_PARAMETER = re.compile(r"\d{1,9}", re.ASCII)  # a parameter of a type; int() refuses thousands of digits
_MAX_PRECISION = 38  # the largest precision of a DECIMAL
_MAX_DIGITS = 100  # more than any type holds, few enough for exact arithmetic
_NANO_DIGITS = 9  # the digits after the point of a second that nanoseconds have
_TIME_DIGITS = 6  # those that Python's times have, and Spark's type TIME without a precision
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"})


def require_decimal(sql: str, parameters: Sequence[str]) -> None:
    """Raise PlanError, which quotes `sql`, unless Spark has a type DECIMAL with these parameters."""
    if len(parameters) > 2 or not all(map(_PARAMETER.fullmatch, parameters)):
        misfit = "the type is no DECIMAL of Spark; expected DECIMAL(precision, scale)"
    else:
        precision, scale = [*map(int, parameters), 0, 0][:2]
        if scale <= precision <= _MAX_PRECISION:
            return
        if precision > _MAX_PRECISION:
            misfit = f"the precision of the DECIMAL is {precision}; expected at most {_MAX_PRECISION}"
        else:
            misfit = f"the scale of the DECIMAL is {scale}; expected at most its precision, {precision}"
    raise PlanError(f"cannot use {quoted(sql)} in where: {misfit}")


def cast_literal(value: Any, kind: str, parameters: list[int], *, negated: bool) -> Any:
    """`value`, cast to the type `kind` of SQL with its `parameters`. `negated`: a minus is before it, as in -128Y.

    Raises ValueError, ArithmeticError or PlanError if the type does not hold it exactly, and for a text that Spark does
    not cast.
    """
    if kind == "TEXT" and isinstance(value, str):
        return value
    if kind == "BINARY" and isinstance(value, (str, bytes)):
        return value.encode() if isinstance(value, str) else value
    if kind == "DATE" and isinstance(value, (str, dt.date)):
        return coerce(value, "date")
    if kind in _TIMESTAMPS and isinstance(value, str):
        return _cast_timestamp(value, has_zone=kind != "TIMESTAMPNTZ")
    if kind == "TIME" and isinstance(value, str):
        return _cast_time(value, *parameters)
    if isinstance(value, str) and not (_INTEGER if kind in _INTEGER_BITS else _NUMBER).fullmatch(value):
        raise ValueError(kind)
    if isinstance(value, (str, int, float, Decimal)) and not isinstance(value, bool):
        if kind == "DOUBLE":
            return float(value)
        if kind == "FLOAT":
            return _to_float32(value)
        exact = Decimal(value)
        number = Fraction(exact) if exact.is_finite() and abs(exact.adjusted()) < _MAX_DIGITS else Fraction(1, 3)
        if kind in _INTEGER_BITS and number.denominator == 1 and _fits(int(number), _INTEGER_BITS[kind], negated):
            return int(number)
        if kind != "DECIMAL":
            raise ValueError(kind)
        precision, scale = (*parameters, 0)[:2] if parameters else (10, 0)
        unscaled, whole = number * 10**scale, precision - scale
        is_narrow = whole <= _MOST_WHOLE or abs(number) >= 10 ** (whole - 1)
        if unscaled.denominator == 1 and abs(number) < 10**whole and is_narrow:
            # The scale is part of the type, which decides what Spark rounds.
            return Decimal((int(exact.is_signed()), tuple(map(int, str(abs(int(unscaled))))), -scale))
    raise ValueError(kind)


def _to_float32(value: Any) -> float:
    """The FLOAT nearest to `value`. ValueError if rounding to DOUBLE first might give another FLOAT."""
    double = float(value)
    nearest = np.float32(double)
    if math.isfinite(nearest) and Fraction(Decimal(value)) != Fraction(double):
        for beside in (np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))):
            if (float(nearest) + float(beside)) / 2 == double:
                raise ValueError(value)
    return float(nearest)


def _fits(number: int, bits: int, negated: bool) -> bool:
    limit = 1 << bits - 1
    return -limit <= number < limit or (negated and number == limit)


def _cast_time(text: str, precision: int = _TIME_DIGITS) -> dt.time:
    """The time of `text` in the type TIME(precision). Spark cuts digits that the type does not hold: a ValueError."""
    nanos = coerce(text, "time")
    if precision > _NANO_DIGITS or nanos % 10 ** (_NANO_DIGITS - min(precision, _TIME_DIGITS)):
        raise ValueError(text)
    return (EPOCH + dt.timedelta(microseconds=nanos // 1000)).time()


def _cast_timestamp(text: str, *, has_zone: bool) -> Value:
    """The value of text that is cast to a timestamp. `has_zone`: whether the type of the cast has a time zone. For the
    other type, Spark ignores an offset in the text."""
    try:
        zone, nanos = None, coerce(text, "timestamp_ntz")
    except PlanError:
        if not has_zone:
            raise
        zone, nanos = dt.timezone.utc, coerce(text, "timestamp")
    if nanos % 1000 and zone is None:
        return np.datetime64(nanos, "ns")
    if nanos % 1000:
        raise ValueError("nanoseconds and an offset")
    return EPOCH.replace(tzinfo=zone) + dt.timedelta(microseconds=nanos // 1000)
