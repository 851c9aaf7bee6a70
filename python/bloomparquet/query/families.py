"""Which comparisons of literals with a column are exact, by the family of the column and the types of the literals.

Spark casts a column and its literals to one type, all literals of an IN together. That type depends on ANSI mode and on
the types in which the literals were written, which a predicate no longer has. Beside files of DOUBLE, pyarrow shows
integers as DOUBLE. Where such a type rounds, rows match that do not equal the literal. So a comparison gives evidence
only if every reader compares the stored values exactly:

    column         literals that are compared exactly
    integer        int and whole Decimals; with fractions or a float, those below 2**24, and Decimals of at most 8
                   digits after the point
    DECIMAL(p, s)  int and Decimal that fit one DECIMAL with the column; or only floats, if p is at most 15
    FLOAT          float and Decimal; int up to 2**24
    DOUBLE         all numbers
    timestamp      with an offset; without one if the zone is known, in a region since 1970
    timestamp_ntz  all but those that a clock change in the session's zone skips, or to which it moves skipped ones
    16 bytes       bytes and UUID; text of more than 16 characters may be a UUID in other files
    all others     all that :func:`bloomparquet.query.literals.coerce` takes
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from bloomparquet.query.literals import EPOCH, Family, coerce_all, find_zone

INT32_RANGE = -(1 << 31), (1 << 31) - 1
INT64_RANGE = -(1 << 63), (1 << 63) - 1
_UINT32_RANGE = 0, (1 << 32) - 1

MAX_DIGITS = 76
"""The most digits of a decimal. Without a limit, a damaged scale would make a number of gigabytes."""

_DECIMAL_DIGITS = 38  # the largest precision of Spark's DECIMAL
_BIGINT_DIGITS = 20  # the precision of the DECIMAL to which Spark casts a BIGINT
_CAST_DIGITS = 18  # digits before the point of a literal that is cast to DECIMAL; see casts
_DOUBLE_DIGITS = 15  # digits of a decimal that DOUBLE always keeps
_FLOAT_INTEGERS = 2**24  # FLOAT lacks some integers above this one, and DOUBLE above 2**53
_FRACTION_DIGITS = 8  # DOUBLE rounds no number below 2**24 with so many digits after the point to an integer
_ROUNDED = frozenset({2**53 + 1, -(2**53) - 1})
"""DOUBLE rounds them to 2**53, the greatest integer that pyarrow shows as DOUBLE, and to -2**53."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a file's column, as far as it decides how literals compare. `column` is its name, for messages."""

    family: Family
    column: str
    integers: tuple[int, int] = INT64_RANGE  # the least and the greatest that the file can store
    scale: int | None = None  # decimal
    precision: int | None = None  # decimal
    unit: int = 1  # time, timestamp, timestamp_ntz: in nanoseconds
    length: int | None = None  # bytes: the fixed length of every value
    float_type: type[np.floating[Any]] = np.float64

    def exact_values(self, values: Sequence[Any], timezone: str | None) -> list[Any] | None:
        """The `values` coerced to the family; None if one of them is not compared exactly.

        `timezone` is the zone of naive datetimes, None if it is unknown. Raises PlanError for a value of another kind
        than the column's.
        """
        family = self.family
        exact = coerce_all(values, family, column=self.column, timezone=timezone or "UTC")
        if family == "timestamp":
            is_exact = _are_known_instants(values, exact, timezone)
        elif family == "timestamp_ntz":
            zone = dt.timezone.utc if timezone is None else find_zone(timezone)
            is_exact = not any(time is not None and _is_moved(time, zone) for time in exact)
        elif family == "binary":
            is_exact = self.length != 16 or not any(isinstance(value, str) and len(value) > 16 for value in values)
        elif family in ("integer", "decimal", "float"):
            is_exact = self._are_exact_numbers([value for value in values if value is not None])
        else:
            is_exact = True
        return exact if is_exact else None

    def holds(self, other: ColumnType) -> bool:
        """Whether this type has all values of the type `other`. If not, readers that show it instead round, cut, wrap
        or refuse some."""
        low, high = other.integers
        if self.family == "decimal" and other.family in ("decimal", "integer"):
            digits, scale = len(str(high - low)), 0
            if other.family == "decimal":
                digits, scale = other.precision or 0, other.scale or 0
            own_scale = self.scale or 0
            fits = scale <= own_scale and digits - scale <= (self.precision or 0) - own_scale
            return fits and other.integers != _UINT32_RANGE  # Spark takes these integers for signed ones
        if (self.family, other.family) == ("float", "integer"):
            return high <= self._exact_integers
        is_in_range = self.integers[0] <= low and high <= self.integers[1] and self.unit <= other.unit
        return self.family == other.family and is_in_range and np.can_cast(other.float_type, self.float_type)

    @property
    def _exact_integers(self) -> int:
        """A floating-point type lacks some integers above this one."""
        return 1 << int(np.finfo(self.float_type).nmant) + 1

    def _are_exact_numbers(self, numbers: Sequence[Any]) -> bool:
        types = set(map(type, numbers))
        if self.family == "float":
            most = self._exact_integers
            return self.float_type is np.float64 or all(type(each) is not int or abs(each) <= most for each in numbers)
        if self.family == "integer":
            if types <= {int} or (types <= {int, Decimal} and max(map(_scale, numbers)) <= 0):
                return _ROUNDED.isdisjoint(numbers)
            limit = _FLOAT_INTEGERS
            are_small = all(number != number or -limit < number < limit for number in numbers)
            return are_small and max(map(_scale, numbers)) <= _FRACTION_DIGITS
        if self.precision is None or self.scale is None or self.scale > MAX_DIGITS:
            return False
        if self.precision > _DECIMAL_DIGITS:
            return True  # Spark has no such type, and pyarrow compares decimals exactly
        if float in types:
            return self.precision <= _DOUBLE_DIGITS and types == {float}
        return _fit_decimal(numbers, self.precision - self.scale, self.scale)


def _fit_decimal(numbers: Sequence[int | Decimal], whole: int, scale: int) -> bool:
    """Whether a DECIMAL of 38 digits holds a column of `whole` digits before the point and `scale` after it, and the
    literals. An int may be a BIGINT, and a Decimal a cast to 18 digits before the point."""
    for number in numbers:
        digits = Decimal(number).adjusted() + 1
        whole = max(whole, digits, _BIGINT_DIGITS if type(number) is int else _CAST_DIGITS)
        scale = max(scale, _scale(number))
    return whole + scale <= _DECIMAL_DIGITS


def _scale(number: float | Decimal) -> int:
    """The digits after the point of a Decimal, 0 of other numbers."""
    exponent = number.as_tuple().exponent if isinstance(number, Decimal) else 0
    assert isinstance(exponent, int)  # the number is finite
    return -exponent


def _is_moved(time: int, zone: dt.tzinfo) -> bool:
    """Whether a clock change skips this wall time, or moves a skipped one there.

    Spark compares a TIMESTAMP_NTZ column with a TIMESTAMP literal as instants, and then both times are one.
    """
    day = dt.timedelta(days=1)  # no clock change skips more
    try:
        wall = EPOCH + dt.timedelta(microseconds=time // 1000)
        before, later = (zone.utcoffset(each) or dt.timedelta() for each in (wall - day, wall.replace(fold=1)))
        skipped = later - before
        return skipped > dt.timedelta() and zone.utcoffset(wall - skipped) == before
    except OverflowError:
        return True


def _are_known_instants(values: Sequence[Any], exact: Sequence[int | None], timezone: str | None) -> bool:
    if not any(not isinstance(value, dt.datetime) or value.tzinfo is None for value in values):
        return True
    if timezone is None:
        return False
    # The time zone data of Java and of Python differ before 1970.
    return isinstance(find_zone(timezone), dt.timezone) or not any(time is not None and time < 0 for time in exact)
