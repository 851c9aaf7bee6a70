"""Literals that a user would compare a column with, and the meaning of each.

The meaning is computed in Python's exact numbers, independent of the package under test.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from tests.differential.kinds import DAY_NS, EPOCH, EPOCH_DAY, Kind, integer_range, number_key


def literal_key(kind: Kind, literal: Any, timezone: str) -> Any:
    """The literal's key in the order of `row_key`."""
    if kind.family == "float" and isinstance(literal, Decimal | int):
        try:
            nearest = float(literal)
        except OverflowError:
            nearest = math.inf
        return number_key(nearest if math.isfinite(nearest) else Fraction(literal))
    if kind.family == "decimal" and isinstance(literal, float) and math.isfinite(literal):
        return number_key(Decimal(repr(literal)))
    if kind.family in ("integer", "float", "decimal"):
        return number_key(literal)
    if kind.family in ("string", "binary"):
        return literal.encode() if isinstance(literal, str) else literal
    if kind.family == "date":
        return (dt.date.fromisoformat(literal) if isinstance(literal, str) else literal).toordinal() - EPOCH_DAY
    if kind.family in ("timestamp", "ntz"):
        return _instant(literal, ZoneInfo(timezone) if kind.family == "timestamp" else dt.timezone.utc)
    if kind.family == "time":
        return _time(literal) if isinstance(literal, str) else _time(literal.isoformat())
    if kind.family == "uuid":
        return literal if isinstance(literal, bytes) else UUID(str(literal)).bytes
    return literal


def _instant(literal: Any, zone: dt.tzinfo) -> int:
    fraction = 0
    if isinstance(literal, str):
        whole, _, digits = literal.partition(".")
        fraction = int(digits.ljust(9, "0")) if digits else 0
        literal = dt.datetime.fromisoformat(whole)
    elif not isinstance(literal, dt.datetime):
        literal = dt.datetime.combine(literal, dt.time())
    if literal.tzinfo is None:
        literal = literal.replace(tzinfo=zone)
    since = literal - EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000 + fraction


def _time(text: str) -> int:
    whole, _, digits = text.partition(".")
    hour, minute, second = map(int, whole.split(":"))
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int(digits.ljust(9, "0") or 0)


def as_literal(kind: Kind, value: Any) -> Any:
    """A row's value as a user would write it for this column; None if Python has no such literal."""
    if kind.family == "date":
        ordinal = value + EPOCH_DAY
        return dt.date.fromordinal(ordinal) if 1 <= ordinal <= dt.date.max.toordinal() else None
    if kind.family in ("timestamp", "ntz"):
        whole, rest = divmod(value, 1000)
        try:
            moment = EPOCH.replace(tzinfo=None) + dt.timedelta(microseconds=whole)
        except OverflowError:
            return None
        if not rest:
            return moment
        return f"{moment.isoformat(sep=' ', timespec='microseconds')}{rest:03}"
    if kind.family == "time":
        if not 0 <= value < DAY_NS:
            return None
        seconds, rest = divmod(value, 10**9)
        whole = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return dt.time.fromisoformat(f"{whole}.{rest // 1000:06}") if rest % 1000 == 0 else f"{whole}.{rest:09}"
    if kind.family == "uuid":
        return UUID(bytes=value) if len(value) == 16 else None
    return value


def other_forms(kind: Kind, literal: Any) -> list[Any]:
    """Literals of other types with an equal or nearly equal value."""
    if kind.family == "integer" and isinstance(literal, int):
        decimals = [Decimal(f"{literal}{end}") for end in ("", ".0", ".5")]
        return [*decimals, _float(literal), _float(literal) + 0.5]
    if kind.family == "float" and isinstance(literal, float) and math.isfinite(literal):
        below = Decimal(literal) - Decimal("1E-20")
        return [Decimal(repr(literal)), Decimal(literal), int(literal), int(literal) + 1, below]
    if kind.family == "decimal" and isinstance(literal, Decimal):
        longer = Decimal(f"{literal:f}" + ("0" if literal.as_tuple().exponent else ".0"))
        return [int(literal), float(literal), literal.scaleb(0), longer]
    if kind.family == "date":
        return [literal.isoformat()]
    if kind.family in ("timestamp", "ntz") and isinstance(literal, dt.datetime):
        forms: list[Any] = [literal.isoformat(sep=" "), literal.date()]
        if kind.family == "timestamp" and 2 < literal.year < 9998:
            forms += [literal.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours))) for hours in (0, -7)]
        return forms
    if kind.family == "binary" and literal.isascii():
        return [literal.decode()]
    if kind.family == "uuid" and isinstance(literal, UUID):
        return [str(literal), literal.bytes, str(literal).upper()]
    if kind.family == "time" and isinstance(literal, dt.time):
        return [literal.isoformat()]
    return []


def foreign(kind: Kind) -> list[Any]:
    """Literals at and beyond the limits of the column's type."""
    if kind.family == "integer":
        beyond = [2**31, -(2**31) - 1, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30]
        return [*beyond, math.nan, math.inf, -math.inf, 1e300]
    if kind.family == "float":
        return [10**400, -(10**400), Decimal("1E+310"), 2**53 + 1, Decimal("1E-400"), Decimal("0.1"), 1e39, 65520.0]
    if kind.family == "decimal":
        return [10**38, -(10**40), Decimal("1E+60"), Decimal("1E-60"), math.nan, math.inf, -math.inf, 0]
    if kind.family == "date":
        return [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10)]
    if kind.family in ("timestamp", "ntz"):
        return [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.date(1900, 1, 1)]
    if kind.family == "binary":
        return [b"", b"\xff" * 17]
    return []


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def spark_agrees(kind: Kind, literal: Any) -> bool:
    """Whether Spark compares this column with this literal exactly, without a lossy cast."""
    if literal is None:
        return True
    if kind.family == "integer":
        small = kind.name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
        if isinstance(literal, float):
            return small or not math.isfinite(literal)
        # Spark 4.3 evaluates NULL <= 18446744073709551615 to true when the column is narrower than that DECIMAL.
        low, high = integer_range(kind)
        if isinstance(literal, int):
            return -(2**63) <= literal < 2**63 or kind.name == "uint64"
        return low <= literal <= high and Fraction(literal).denominator <= 10**6
    if kind.family == "float":
        if isinstance(literal, int):
            return abs(literal) <= (2**24 if kind.name == "float32" else 2**53)
        return isinstance(literal, float) or _digits(literal) <= 38
    if kind.family == "decimal":
        if isinstance(literal, float):
            return False
        scale, whole = kind.arrow.scale, kind.arrow.precision - kind.arrow.scale
        if isinstance(literal, int):
            return max(whole, len(str(abs(literal))), 20) + scale <= 38
        literal_scale = max(0, -int(literal.as_tuple().exponent))
        ahead = max(0, literal.adjusted() + 1)
        return max(whole, ahead) + max(scale, literal_scale) <= 38
    if kind.family in ("timestamp", "ntz"):
        if isinstance(literal, str):
            return len(literal.partition(".")[2]) <= 6
        return isinstance(literal, dt.datetime)
    if kind.family == "date":
        return isinstance(literal, dt.date)
    return not (kind.family == "binary" and isinstance(literal, str))


def _digits(value: Decimal) -> int:
    exponent = int(value.as_tuple().exponent)
    return max(0, value.adjusted() + 1) + max(0, -exponent)
