"""Converts the values of a predicate to the type family of a column.

The planner and the row filter share this conversion, so that they agree about every value. Only for a column of floats
does it round. Elsewhere, a value that no row can hold (1.5 in a column of integers) becomes a number that compares
correctly and equals no row. Arrow's and numpy's casts do not serve: they round, wrap around or raise.

The result of :func:`coerce`, by family:

    integer        int; Fraction where it is not whole; float for NaN and the infinities
    decimal        int or Decimal; float for NaN and the infinities
    float          float; int beyond the largest float64
    boolean        bool
    string         str
    binary         bytes; a str is its UTF-8 bytes, because text is often stored without an annotation
    uuid           16 bytes
    date           datetime.date
    time           int, nanoseconds since midnight
    timestamp      int, nanoseconds since 1970-01-01 00:00 UTC
    timestamp_ntz  int, nanoseconds since 1970-01-01 00:00 of the wall clock
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from bloomparquet.errors import PlanError, did_you_mean, quoted, shorten
from bloomparquet.query.values import Value, describe

Family = Literal[
    "boolean", "integer", "decimal", "float", "string", "binary", "date", "timestamp", "timestamp_ntz", "time", "uuid",
    "other",
]  # fmt: skip
"""A family of column types that compare with the same values. Only ``timestamp`` is adjusted to UTC."""

Number = int | float | Fraction | Decimal

NANOSECONDS_PER_SECOND = 1_000_000_000

DAY_NANOSECONDS = 86_400 * NANOSECONDS_PER_SECOND
EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = EPOCH.replace(tzinfo=dt.timezone.utc)
EPOCH_ORDINAL = EPOCH.toordinal()
"""The number of 1970-01-01 among Python's dates: ``date.toordinal() - EPOCH_ORDINAL`` are the days since 1970."""

_MAX_EXPONENT = 400  # beyond every finite double (308) and every decimal256 (76 digits)
_UNCHANGED: dict[str, type] = {
    "boolean": bool, "integer": int, "decimal": int, "float": float, "string": str, "binary": bytes, "date": dt.date,
}  # fmt: skip
"""By family, the type of the values that stay as they are."""
_NOT_NAN = "NaN is a number; if it stands for a missing value, leave it out or use None"
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")
_TIMESTAMP = re.compile(rf"({_DATE.pattern})(?:[T ]({_TIME.pattern})\s*(\S.*)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2}):?(\d{2})?(?::?(\d{2}))?")


def coerce(value: Value, family: Family, *, timezone: str = "UTC", column: str = "", kind: str = "") -> Any:
    """Convert `value` exactly to the form of a column of `family` (see the table above). None stays None.

    Dates, timestamps, times and UUIDs are also parsed from their ISO text. If the column is adjusted to UTC, a datetime
    without an offset is local time in `timezone`. If a clock change skips or repeats that time, the offset before the
    change applies (``fold=0``), as in Spark.

    In a float column, an int and a Decimal are the nearest float64, as in Spark. In a decimal column, the float 0.1 is
    its shortest text, 0.1; Spark compares both as float64, which selects the same rows up to 15 digits.

    Raises PlanError, which names `column` and its type (`kind`, else the family), if the value does not fit.
    """
    if value is None:
        return None
    try:
        return _COERCE[family](value, timezone)
    except _MisfitError as misfit:
        expected = _NOT_NAN if isinstance(value, float) and math.isnan(value) else misfit
        name = f"column {quoted(column)}" if column else "the column"
        mismatch = f"is of type {kind or family}, but is compared with {describe(value)}"
        raise PlanError(f"{name} {mismatch}; {expected}") from None


def coerce_all(
    values: Sequence[Value], family: Family, *, timezone: str = "UTC", column: str = "", kind: str = ""
) -> list[Any]:
    """:func:`coerce` of each value, in order. Fast if no value needs conversion."""
    is_unchanged = {_UNCHANGED.get(family), type(None)}.issuperset(map(type, values))
    if is_unchanged and (family != "string" or _is_text(values)):
        return list(values)
    return [coerce(value, family, timezone=timezone, column=column, kind=kind) for value in values]


def to_stored(value: Any, times: int = 1, per: int = 1) -> int | float | Fraction:
    """The number that a column stores for a coerced `value`, which is a number or a date: days since 1970, or `value` *
    `times` / `per`. It is exact: a Fraction if no integer is equal, a float for NaN and the infinities."""
    if isinstance(value, dt.date):
        value = value.toordinal() - EPOCH_ORDINAL
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        whole, rest = divmod(value * times, per)
        return whole if rest == 0 else Fraction(value * times, per)
    exact = Fraction(value) * Fraction(times, per)
    return exact.numerator if exact.denominator == 1 else exact


_Made = TypeVar("_Made")


class _MisfitError(Exception):
    """The value does not fit. Its text says what is expected, and what to write."""


def _to_boolean(value: Value, timezone: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _MisfitError("expected a bool: write TRUE or FALSE in SQL, True or False in Python")


def _to_integer(value: Value, timezone: str) -> Number:
    number = _to_number(value)
    if isinstance(number, int) or (isinstance(number, float) and not math.isfinite(number)):
        return number
    exact = Fraction(number)
    return exact.numerator if exact.denominator == 1 else exact


def _to_decimal(value: Value, timezone: str) -> Number:
    number = _to_number(value)
    return Decimal(repr(number)) if isinstance(number, float) and math.isfinite(number) else number


def _to_float(value: Value, timezone: str) -> Number:
    number = _to_number(value)
    if isinstance(number, float):
        return number
    try:
        nearest_float = float(number)
    except OverflowError:
        return int(number)
    return nearest_float if math.isfinite(nearest_float) else int(number)


def _to_number(value: Value) -> int | float | Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        text = isinstance(value, str) and re.fullmatch(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*", value)
        raise _MisfitError(
            "expected a number" + (f": write {shorten(str(value).strip())} without quotes" if text else "")
        )
    if not isinstance(value, Decimal):
        return value
    if not value.is_finite():
        raise _MisfitError("expected a finite decimal; NaN and infinities are floats: float('nan')")
    if value and abs(value.adjusted()) > _MAX_EXPONENT:
        # The exact integer could fill the memory. A number that is also out of range (or near zero) compares the same.
        return Decimal((value.as_tuple().sign, (1,), _MAX_EXPONENT if value.adjusted() > 0 else -_MAX_EXPONENT))
    return value


def _to_string(value: Value, timezone: str) -> str:
    if isinstance(value, str):
        if _is_text([value]):
            return value
        raise _MisfitError("expected text: half of a surrogate pair cannot be written as UTF-8")
    if isinstance(value, bytes):
        raise _MisfitError("expected a str: decode the bytes, or write the text in quotes")
    raise _MisfitError(f"expected a str: write '{shorten(str(value))}' in quotes")


def _is_text(values: Sequence[Any]) -> bool:
    try:
        "".join(filter(None, values)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _to_binary(value: Value, timezone: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, str):
        return _to_string(value, timezone).encode()
    raise _MisfitError("expected bytes: write X'00ff' in SQL, b'\\x00\\xff' in Python")


def _to_uuid(value: Value, timezone: str) -> bytes:
    if isinstance(value, bytes) and len(value) == 16:
        return value
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, str):
        try:
            return UUID(value).bytes
        except ValueError:
            pass
    raise _MisfitError("expected a UUID, its 16 bytes, or its text: '123e4567-e89b-12d3-a456-426614174000'")


def _to_date(value: Value, timezone: str) -> dt.date:
    expected = "expected a date: write DATE '2024-05-17' in SQL, datetime.date(2024, 5, 17) in Python"
    if isinstance(value, dt.datetime):
        if value.tzinfo is None and value.time() == dt.time() and not getattr(value, "nanosecond", 0):
            return value.date()
        raise _MisfitError(f"{expected} (a datetime fits only at midnight and without an offset)")
    if isinstance(value, dt.date):
        return value
    match = _DATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        raise _MisfitError(expected)
    return _make(dt.date, *map(int, match.groups()))


def _to_time(value: Value, timezone: str) -> int:
    expected = "expected a time without an offset: write TIME '13:45:00' in SQL, datetime.time(13, 45) in Python"
    if isinstance(value, dt.time) and value.tzinfo is None:
        return (
            (value.hour * 60 + value.minute) * 60 + value.second
        ) * NANOSECONDS_PER_SECOND + value.microsecond * 1000
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        raise _MisfitError(expected)
    time, fraction = _parse_time(match)
    return ((time.hour * 60 + time.minute) * 60 + time.second) * NANOSECONDS_PER_SECOND + fraction


def _to_timestamp(value: Value, timezone: str) -> int:
    wall, nanoseconds, zone = _split_timestamp(value)
    return _since_epoch(wall.replace(tzinfo=zone or find_zone(timezone)), nanoseconds)


def _to_timestamp_ntz(value: Value, timezone: str) -> int:
    wall, nanoseconds, zone = _split_timestamp(value)
    if zone is not None:
        raise _MisfitError(
            "expected a timestamp without an offset, because the column holds local timestamps: leave the offset out"
        )
    return _since_epoch(wall, nanoseconds)


def _to_other(value: Value, timezone: str) -> Any:
    raise _MisfitError("such a column supports only IS NULL and IS NOT NULL")


_COERCE: dict[str, Callable[[Value, str], Any]] = {
    "boolean": _to_boolean,
    "integer": _to_integer,
    "decimal": _to_decimal,
    "float": _to_float,
    "string": _to_string,
    "binary": _to_binary,
    "uuid": _to_uuid,
    "date": _to_date,
    "time": _to_time,
    "timestamp": _to_timestamp,
    "timestamp_ntz": _to_timestamp_ntz,
    "other": _to_other,
}


def _split_timestamp(value: Value) -> tuple[dt.datetime, int, dt.tzinfo | None]:
    """The local time to the second, the remaining nanoseconds, and the offset if the value has one."""
    if isinstance(value, np.datetime64):
        seconds, rest = divmod(int(value.astype("datetime64[ns]").astype(np.int64)), NANOSECONDS_PER_SECOND)
        return EPOCH + dt.timedelta(seconds=seconds), rest, None
    if isinstance(value, dt.datetime):
        rest = value.microsecond * 1000 + getattr(value, "nanosecond", 0)
        wall = dt.datetime.combine(value.date(), dt.time(value.hour, value.minute, value.second, fold=value.fold))
        return wall, rest, value.tzinfo
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time()), 0, None
    match = _TIMESTAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        raise _MisfitError(
            "expected a timestamp: "
            "write TIMESTAMP '2024-05-17 13:45:00' in SQL, datetime.datetime(2024, 5, 17, 13, 45) in Python"
        )
    date = _to_date(match[1], "")
    time, rest = _parse_time(_TIME.fullmatch(match[5])) if match[5] else (dt.time(), 0)
    return dt.datetime.combine(date, time), rest, find_zone(match[10]) if match[10] else None


def _since_epoch(moment: dt.datetime, nanoseconds: int) -> int:
    since = moment - (EPOCH if moment.tzinfo is None else EPOCH_UTC)
    return (since.days * 86_400 + since.seconds) * NANOSECONDS_PER_SECOND + since.microseconds * 1000 + nanoseconds


def _parse_time(match: re.Match[str] | None) -> tuple[dt.time, int]:
    """The time to the second, and the remaining nanoseconds."""
    assert match is not None
    hour, minute, second, fraction = match.groups()
    return _make(dt.time, int(hour), int(minute), int(second or 0)), int((fraction or "").ljust(9, "0"))


def _make(kind: Callable[..., _Made], *parts: int) -> _Made:
    try:
        return kind(*parts)
    except ValueError as error:
        raise _MisfitError(f"there is no such date or time: {error}") from None


def is_zone(name: str) -> bool:
    """Whether :func:`find_zone` knows the time zone `name`."""
    return _zone(name) is not None


def find_zone(name: str) -> dt.tzinfo:
    """The time zone `name`: a region (``Europe/Berlin``), an offset (``+02:00``, ``UTC-5``), or ``Z``."""
    zone = _zone(name)
    if zone is None:
        raise PlanError(_unknown_zone(name))
    return zone


@lru_cache(maxsize=64)  # a hint compares the name with all names, and a plan may need the zone for each column
def _unknown_zone(name: str) -> str:
    hint = did_you_mean(name, available_timezones())
    return f"unknown time zone {quoted(name)}{hint}; expected a region (Europe/Berlin) or an offset (+02:00)"


@lru_cache(maxsize=64)
def _zone(name: str) -> dt.tzinfo | None:
    if name.upper() in ("Z", "UTC", "GMT", "UT"):
        return dt.timezone.utc
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes, seconds = offset.groups()
        delta = dt.timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if delta <= dt.timedelta(hours=18):
            return dt.timezone(-delta if sign == "-" else delta)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
