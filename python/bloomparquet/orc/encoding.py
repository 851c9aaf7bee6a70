"""A query's value and a file's column → every hash by which a filter of that column may know the value, or "cannot
tell".

The dangerous file: a hash too few denies a row that is there. So where writers or readers differ, the hashes of all of
them are asked for, and where it is not known what was hashed, the answer is None. What decides is always the *file's*
column; what its writer hashes of it is told by :mod:`bloomparquet.orc.hashed`.

No range of a type is relied upon, but that of the 64 bits that are hashed: Java stores what it is given in a SMALLINT.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from bloomparquet.errors import PlanError
from bloomparquet.literals import NANOSECONDS, Family, coerce, find_zone
from bloomparquet.orc.bloom import Hashes, hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.hashed import char_text, decimal_text, timestamp_millis
from bloomparquet.orc.schema import Kind, OrcType

_FAMILIES: dict[int, Family] = {
    Kind.BOOLEAN: "boolean", Kind.BYTE: "integer", Kind.SHORT: "integer", Kind.INT: "integer", Kind.LONG: "integer",
    Kind.FLOAT: "float", Kind.DOUBLE: "float", Kind.STRING: "string", Kind.BINARY: "binary", Kind.DECIMAL: "decimal",
    Kind.TIMESTAMP: "timestamp_ntz", Kind.TIMESTAMP_INSTANT: "timestamp", Kind.DATE: "date", Kind.VARCHAR: "string",
    Kind.CHAR: "string",
}  # fmt: skip
_CATALYST = "spark.sql.catalyst.type"
_SPARK_NTZ = "timestamp_ntz"
_SAME: dict[Family, frozenset[str]] = {
    "integer": frozenset({"tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"}),
    "string": frozenset({"string", "varchar"}),
}
"""Types of Spark whose values are equal where what is stored is: not intervals, and no text with a collation."""

_MICROSECOND = 1_000
_DAY = dt.timedelta(days=1)
_HOUR_NS = 3_600 * NANOSECONDS
_DAY_NS = 24 * _HOUR_NS
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()

# Older values may stand in the file in the hybrid Julian calendar, or by a zone's local mean time, and readers shift
# them: what one calendar has and the other has not (5 to 14 October 1582), by ten days more.
_OLDEST_DATE = dt.date(1582, 10, 26)
_OLDEST_TIMESTAMP = (dt.datetime(1900, 1, 2) - _EPOCH) // dt.timedelta(seconds=1) * NANOSECONDS


def family_of(found: OrcType) -> Family:
    """What kind of literal the column compares with: one of the families of :func:`bloomparquet.literals.coerce`."""
    family = _FAMILIES.get(found.kind, "other")
    spark = found.attributes.get(_CATALYST)
    if found.kind == Kind.LONG and spark == _SPARK_NTZ:
        return "timestamp_ntz"
    same = _SAME.get(family)
    return family if same is None or spark is None or spark.partition("(")[0] in same else "other"


def encode_value(
    found: OrcType, value: Any, *, timezone: str, writer_timezone: str | None, column: str
) -> Hashes | None:
    """Every hash under which filters of this column may hold `value`, shape (n,): a filter with none of them proves it
    absent, and so does every filter where there are none. None when that cannot be told.

    `timezone` is that of datetimes without one, `writer_timezone` that of the stripe. A TIMESTAMP is a reading of a
    clock: which moment it is depends on who reads it, so `value` is taken both for that reading and for a moment
    that the writer's clock shows. Raises PlanError for a value of another kind than the column's; `column` names it.
    """
    family = family_of(found)
    if family in ("other", "boolean"):
        if family == "boolean":
            coerce(value, family, column=column)
        return None
    plain = coerce(value, family, timezone=timezone, column=column)
    if found.kind == Kind.TIMESTAMP:
        moment = coerce(value, "timestamp", timezone=timezone, column=column)
        readings = _clock_readings(plain, moment, writer_timezone)
        return None if readings is None else _hash_nanoseconds(readings)
    if family == "timestamp_ntz":
        # Spark's, as a number of microseconds.
        return hash_longs(_longs([plain // _MICROSECOND] if plain % _MICROSECOND == 0 else []))
    if family == "timestamp":
        return _hash_nanoseconds([plain])
    if family == "date":
        return hash_longs(_longs([plain.toordinal() - _EPOCH_DAY])) if plain >= _OLDEST_DATE else None
    if family == "integer":
        return _hash_integer(value, plain)
    if family == "float":
        return _hash_float(plain)
    return _hash_text(found, plain)


def _hash_integer(value: Any, number: Any) -> Hashes | None:
    if not isinstance(value, int):
        # A reader that compares as double holds other integers to be equal, and fractions next to an integer.
        if isinstance(number, float) or abs(number) >= 2**53:
            return None
        if isinstance(number, Fraction) and float(number).is_integer():
            return None
    return hash_longs(_longs([number] if isinstance(number, int) and -(2**63) <= number < 2**63 else []))


def _hash_float(number: Any) -> Hashes | None:
    if not isinstance(number, float):
        return hash_longs(_longs([]))  # a whole number that no double is
    if math.isnan(number):
        return None  # NaN has many bit patterns, and readers hold them all equal
    return hash_doubles(np.array([-0.0, 0.0] if number == 0 else [number]))


def _hash_text(found: OrcType, plain: Any) -> Hashes | None:
    if found.kind == Kind.DECIMAL:
        if isinstance(plain, float):
            return None if math.isnan(plain) else hash_bytes([])
        return hash_bytes([decimal_text(Decimal(plain))])
    if found.kind == Kind.CHAR:
        if found.maximum_length is None:
            return None
        return hash_bytes([char_text(plain, found.maximum_length)])
    return hash_bytes([plain if isinstance(plain, bytes) else plain.encode()])


def _clock_readings(reading: int, moment: int, writer_timezone: str | None) -> list[int] | None:
    """What the writer's clock may have shown for a TIMESTAMP, in nanoseconds since 1970 by it; None where that is not
    known.

    What is stored is a moment, and readers make a reading of it by what they know of the zone. Programs of different
    years know different rules of it, and differ by an hour; of the time before 1970 few know the same.
    """
    if writer_timezone is None:
        return None
    try:
        zone = find_zone(writer_timezone)
        found = {reading, moment + _offset(zone, dt.datetime.fromtimestamp(moment // NANOSECONDS, zone))}
        if isinstance(zone, dt.timezone) or writer_timezone.startswith("Etc/"):
            return sorted(found)
        if any(each < _DAY_NS for each in found):
            return None
        for each in list(found):
            clock = _EPOCH + dt.timedelta(seconds=each // NANOSECONDS)
            change = _offset(zone, clock + _DAY) - _offset(zone, clock - _DAY)
            found |= {each + step for by in (change, _HOUR_NS) for step in (-by, by)}
    except (PlanError, OverflowError, ValueError, OSError):
        return None
    return sorted(found)


def _offset(zone: dt.tzinfo, clock: dt.datetime) -> int:
    return (zone.utcoffset(clock) or dt.timedelta()) // dt.timedelta(seconds=1) * NANOSECONDS


def _hash_nanoseconds(moments: Iterable[int]) -> Hashes | None:
    millis: set[int] = set()
    for moment in moments:
        if moment < _OLDEST_TIMESTAMP:
            return None
        # Readers that keep microseconds cut the rest off, which is towards 1970 in some of them.
        rest = _MICROSECOND - 1 if moment % _MICROSECOND == 0 else 0
        millis.update(timestamp_millis(moment - (rest if moment < 0 else 0), moment + rest))
    return hash_longs(_longs(sorted(millis)))


def _longs(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)
