"""A query's values and a file's column → where they stand in the column's order, and every hash by which a filter of it
may know them; or "cannot tell".

The dangerous file: a hash too few denies a row that is there. So where writers or readers differ, the hashes of all of
them are asked for, and where it is not known what was hashed, the answer is None. What decides is always the *file's*
column; what its writer hashes of it is told by :mod:`bloomparquet.orc.writer_quirks`.

Where a value stands among the values of a column is found by :class:`bloomparquet.query.ordering.ValueOrder`. No range
of a type is relied upon, but that of the 64 bits that are hashed: Java stores what it is given in a SMALLINT.
Timestamps have their own order here: ORC has them beyond all 64-bit nanoseconds, and by the clocks of writers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import PlanError
from bloomparquet.orc.bloom_filter import Hashes, hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.writer_quirks import char_text, decimal_text, timestamp_millis
from bloomparquet.query.literals import (
    DAY_NANOSECONDS,
    EPOCH,
    EPOCH_ORDINAL,
    NANOSECONDS,
    Family,
    coerce,
    find_zone,
)
from bloomparquet.query.ordering import INT32_RANGE, OLDEST_TIMESTAMP, Encoded, Point, ValueOrder, objects

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

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDTHS: dict[int, int] = {Kind.BYTE: 0, Kind.SHORT: 1, Kind.INT: 2, Kind.LONG: 3}
_SHOWN_AS: dict[int, str] = {
    Kind.BOOLEAN: "boolean", Kind.FLOAT: "float", Kind.DOUBLE: "double", Kind.STRING: "string", Kind.VARCHAR: "string",
    Kind.CHAR: "string", Kind.BINARY: "binary", Kind.DATE: "date", Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_INSTANT: "timestamp",
}  # fmt: skip

_DECIMAL_RANGE = -(1 << 127), (1 << 127) - 1
_LONGEST_CHAR = 255  # of Hive and Spark; values are padded to it

_MICROSECOND = 1_000
_DAY = dt.timedelta(days=1)
_HOUR_NS = 3_600 * NANOSECONDS

# Older values may stand in the file in the hybrid Julian calendar, or by a zone's local mean time, and readers shift
# them: what one calendar has and the other has not (5 to 14 October 1582), by ten days more.
_OLDEST_DAY = dt.date(1582, 10, 26).toordinal() - EPOCH_ORDINAL


def family_of(found: OrcType) -> Family:
    """What kind of literal the column compares with: one of the families of
    :func:`bloomparquet.query.literals.coerce`."""
    family = _FAMILIES.get(found.kind, "other")
    spark = found.attributes.get(_CATALYST)
    if found.kind == Kind.LONG and spark == _SPARK_NTZ:
        return "timestamp_ntz"
    same = _SAME.get(family)
    return family if same is None or spark is None or spark.partition("(")[0] in same else "other"


def is_lossless(found: OrcType, reader_type: str) -> bool:
    """Whether a reader that shows the column as a type of Spark shows every value as what it is.

    Readers of ORC convert whatever they are asked to, with losses. Wider integers lose nothing.
    """
    width = _WIDTHS.get(found.kind)
    if width is not None and family_of(found) == "integer":
        return reader_type in _INTEGERS[width:]
    if found.kind == Kind.DECIMAL:
        return reader_type == f"decimal({found.precision},{found.scale})"
    if family_of(found) == "timestamp_ntz" and found.kind == Kind.LONG:
        return reader_type == _SPARK_NTZ
    return family_of(found) != "other" and reader_type == _SHOWN_AS.get(found.kind)


def encode_values(
    found: OrcType,
    values: Sequence[Any],
    *,
    timezone: str | None,
    writer_timezones: Collection[str | None],
    column: str,
) -> Encoded | None:
    """The values of an equality or IN that this column can hold at all, and every hash that filters of it may have of
    them: a key that has several stands there several times. None where that cannot be told of one of them.

    `timezone` is that of datetimes without one and of the reader's clock, None where it is not known;
    `writer_timezones` are those of the stripes. A TIMESTAMP is a reading of a clock: which moment it is depends on who
    reads it, so a value is taken both for that reading and for a moment that the writer's clock shows, and a moment
    for what either clock shows. Its keys are nanoseconds since 1970 by the clock, as Python's integers. Raises
    PlanError for a value of another kind than the column's; `column` names it.
    """
    if _is_timestamp(found):
        return _encode_timestamps(found, values, timezone, writer_timezones, column)
    order = _value_order(found, column)
    keys = None if order is None else order.keys(values, timezone)
    if keys is None or (found.kind == Kind.DATE and bool((keys < _OLDEST_DAY).any())):
        return None
    return Encoded(keys, _hash(found, keys))


def encode_point(
    found: OrcType,
    value: Any,
    *,
    timezone: str | None,
    writer_timezones: Collection[str | None],
    column: str,
    upwards: bool,
) -> Point | None:
    """The place of `value` in the order of this column's statistics, for a comparison with what lies above it
    (`upwards`) or below; None where that cannot be told. The rest is as for :func:`encode_values`."""
    if _is_timestamp(found):
        readings = _readings(found, value, timezone, writer_timezones, column)
        if readings is None or readings[0] < OLDEST_TIMESTAMP:
            return None
        return Point(readings[0 if upwards else -1])
    order = _value_order(found, column)
    point = None if order is None else order.point(value, timezone)
    return None if point is not None and found.kind == Kind.DATE and point.key < _OLDEST_DAY else point


def encode_value(
    found: OrcType, value: Any, *, timezone: str, writer_timezone: str | None, column: str
) -> Hashes | None:
    """The hashes of :func:`encode_values` for one value, shape (n,): a filter with none of them proves it absent, and
    so does every filter where there are none."""
    encoded = encode_values(found, [value], timezone=timezone, writer_timezones=[writer_timezone], column=column)
    return None if encoded is None else encoded.hashes


def _is_timestamp(found: OrcType) -> bool:
    return found.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)


def _value_order(found: OrcType, column: str) -> ValueOrder | None:
    """The values of the column and their order; None where that is not certain. Not of timestamps."""
    family = family_of(found)
    if family == "other" or (found.kind == Kind.CHAR and not 0 < (found.maximum_length or 0) <= _LONGEST_CHAR):
        return None
    if family == "boolean":
        return ValueOrder(family, column, integers=(0, 1))
    if family == "date":
        return ValueOrder(family, column, integers=INT32_RANGE)
    if family == "decimal":
        return None if found.scale is None else ValueOrder(family, column, integers=_DECIMAL_RANGE, scale=found.scale)
    float_type = np.float32 if found.kind == Kind.FLOAT else np.float64
    return ValueOrder(family, column, unit=_MICROSECOND, float_type=float_type)


def _hash(found: OrcType, keys: NDArray[Any]) -> Hashes | None:
    family = family_of(found)
    if family == "boolean":
        return None
    if family == "float":
        return hash_doubles(keys)
    if family == "decimal":
        return hash_bytes([decimal_text(unscaled(key, found.scale or 0)) for key in keys])
    if found.kind == Kind.CHAR:
        return hash_bytes([char_text(key.decode(), found.maximum_length or 0) for key in keys])
    return hash_bytes(keys.tolist()) if family in ("string", "binary") else hash_longs(keys)


def unscaled(key: int, scale: int) -> Decimal:
    """The decimal number of an unscaled integer, exactly: arithmetic would round it to a context's digits."""
    return Decimal((int(key < 0), tuple(map(int, str(abs(key)))), -scale))


def _encode_timestamps(
    found: OrcType, values: Sequence[Any], timezone: str | None, writer_timezones: Collection[str | None], column: str
) -> Encoded | None:
    pairs: set[tuple[int, int]] = set()
    for value in values:
        readings = _readings(found, value, timezone, writer_timezones, column)
        if readings is None or readings[0] < OLDEST_TIMESTAMP:
            return None
        for reading in readings:
            # Readers that keep microseconds cut the rest off, which is towards 1970 in some of them.
            rest = _MICROSECOND - 1 if reading % _MICROSECOND == 0 else 0
            millis = timestamp_millis(reading - (rest if reading < 0 else 0), reading + rest)
            pairs.update((reading, each) for each in millis)
    ordered = sorted(pairs)
    try:
        hashes = hash_longs(np.array([millis for _, millis in ordered], np.int64))
    except OverflowError:
        return None
    return Encoded(objects([reading for reading, _ in ordered]), hashes)


def _readings(
    found: OrcType, value: Any, timezone: str | None, writer_timezones: Collection[str | None], column: str
) -> list[int] | None:
    """What may stand in the file for `value`, in nanoseconds since 1970, sorted; None where that is not known."""
    try:
        digits = coerce(value, "timestamp_ntz", column=column)
    except PlanError:
        digits = None  # it names its zone, unless it is no timestamp at all
    if timezone is None and (digits is not None or found.kind == Kind.TIMESTAMP):
        coerce(value, "timestamp", column=column)
        return None
    moment = coerce(value, "timestamp", timezone=timezone or "UTC", column=column)
    if found.kind == Kind.TIMESTAMP_INSTANT:
        return [moment]
    assert timezone is not None
    return _clock_readings(digits, moment, timezone, writer_timezones)


def _clock_readings(
    digits: int | None, moment: int, timezone: str, writer_timezones: Iterable[str | None]
) -> list[int] | None:
    """What the writers' clocks may have shown for a TIMESTAMP of these `digits`, or of this `moment`, in nanoseconds
    since 1970 by them.

    What is stored is a moment, and readers make a reading of it by what they know of the zone. Programs of different
    years know different rules of it, and differ by an hour; of the time before 1970 few know the same.
    """
    try:
        zones = [find_zone(timezone)]
        for name in writer_timezones:
            if name is None:
                return None
            zones.append(find_zone(name))
        found = {moment + _offset(zone, dt.datetime.fromtimestamp(moment // NANOSECONDS, zone)) for zone in zones}
        found |= {digits} if digits is not None else set()
        changing = [zone for zone in zones if not _is_fixed(zone)]
        if changing and any(each < DAY_NANOSECONDS for each in found):
            return None
        for each in list(found) if changing else ():
            clock = EPOCH + dt.timedelta(seconds=each // NANOSECONDS)
            steps = {_HOUR_NS, *(_offset(zone, clock + _DAY) - _offset(zone, clock - _DAY) for zone in changing)}
            found |= {each + sign * step for step in steps for sign in (-1, 1)}
    except (PlanError, OverflowError, ValueError, OSError):
        return None
    return sorted(found)


def _is_fixed(zone: dt.tzinfo) -> bool:
    return isinstance(zone, dt.timezone) or str(zone).startswith("Etc/") or str(zone) in ("UTC", "GMT")


def _offset(zone: dt.tzinfo, clock: dt.datetime) -> int:
    return (zone.utcoffset(clock) or dt.timedelta()) // dt.timedelta(seconds=1) * NANOSECONDS
