"""Converts a query's values to keys in the order of a file's column, and to every hash that a filter may have of them.

A missing hash would deny a row that is there. So where writers or readers differ, the hashes of all of them are
included, and if the hashed bytes are not known, the answer is None. The *file's* column decides, never the type of the
query; :mod:`bloomparquet.orc.writer_quirks` knows what its writer hashes.

:class:`bloomparquet.query.ordering.ValueOrder` makes the keys, except those of timestamps: ORC's timestamps exceed
64-bit nanoseconds and depend on the clocks of writers. Integer types have the range of the 64 bits that are hashed,
because Java stores any number in a SMALLINT.
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
from bloomparquet.query.families import INT32_RANGE, INT64_RANGE
from bloomparquet.query.literals import (
    DAY_NANOSECONDS,
    EPOCH,
    EPOCH_ORDINAL,
    NANOSECONDS_PER_SECOND,
    Family,
    coerce,
    find_zone,
)
from bloomparquet.query.ordering import OLDEST_TIMESTAMP, Encoded, Point, ValueOrder, objects

_FAMILIES: dict[int, Family] = {
    Kind.BOOLEAN: "boolean", Kind.BYTE: "integer", Kind.SHORT: "integer", Kind.INT: "integer", Kind.LONG: "integer",
    Kind.FLOAT: "float", Kind.DOUBLE: "float", Kind.STRING: "string", Kind.BINARY: "binary", Kind.DECIMAL: "decimal",
    Kind.TIMESTAMP: "timestamp_ntz", Kind.TIMESTAMP_INSTANT: "timestamp", Kind.DATE: "date", Kind.VARCHAR: "string",
    Kind.CHAR: "string",
}  # fmt: skip
_CATALYST = "spark.sql.catalyst.type"
_SPARK_NTZ = "timestamp_ntz"
_PLAIN_SPARK_TYPES: dict[Family, frozenset[str]] = {
    "integer": frozenset({"tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"}),
    "string": frozenset({"string", "varchar"}),
}
"""Spark's types whose values are equal if the stored values are: neither intervals nor text with a collation."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_INDEX: dict[int, int] = {Kind.BYTE: 0, Kind.SHORT: 1, Kind.INT: 2, Kind.LONG: 3}
_SPARK_TYPES: dict[int, str] = {
    Kind.BOOLEAN: "boolean", Kind.FLOAT: "float", Kind.DOUBLE: "double", Kind.STRING: "string", Kind.VARCHAR: "string",
    Kind.CHAR: "string", Kind.BINARY: "binary", Kind.DATE: "date", Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_INSTANT: "timestamp",
}  # fmt: skip

_RANGES: dict[Family, tuple[int, int]] = {
    "boolean": (0, 1), "date": INT32_RANGE, "decimal": (-(1 << 127), (1 << 127) - 1)
}  # fmt: skip
_MAX_CHAR_LENGTH = 255  # in Hive and Spark; values are padded to the length
_MICROSECOND = 1_000  # in nanoseconds
_HOUR = 3_600 * NANOSECONDS_PER_SECOND
_DAY = dt.timedelta(days=1)

# Older dates may be stored in the hybrid Julian calendar, and readers shift them by up to ten days. The dates that only
# one of the two calendars has are 5 to 14 October 1582.
_OLDEST_DAY = dt.date(1582, 10, 26).toordinal() - EPOCH_ORDINAL


def orc_family(orc_type: OrcType) -> Family:
    """The family of literals that the column compares with: see :func:`bloomparquet.query.literals.coerce`."""
    family = _FAMILIES.get(orc_type.kind, "other")
    spark_type = orc_type.attributes.get(_CATALYST)
    if orc_type.kind == Kind.LONG and spark_type == _SPARK_NTZ:
        return "timestamp_ntz"
    plain = _PLAIN_SPARK_TYPES.get(family)
    return family if plain is None or spark_type is None or spark_type.partition("(")[0] in plain else "other"


def is_lossless(orc_type: OrcType, reader_type: str) -> bool:
    """Whether reading the column as `reader_type`, a type of Spark, keeps every value.

    ORC readers convert to any type that they are asked for, with losses. A wider integer type loses nothing.
    """
    family, index = orc_family(orc_type), _INTEGER_INDEX.get(orc_type.kind)
    if index is not None and family == "integer":
        return reader_type in _INTEGERS[index:]
    if orc_type.kind == Kind.DECIMAL:
        return reader_type == f"decimal({orc_type.precision},{orc_type.scale})"
    if orc_type.kind == Kind.LONG and family == "timestamp_ntz":
        return reader_type == _SPARK_NTZ
    return family != "other" and reader_type == _SPARK_TYPES.get(orc_type.kind)


def encode_values(
    orc_type: OrcType,
    values: Sequence[Any],
    *,
    timezone: str | None,
    writer_timezones: Collection[str | None],
    column: str,
) -> Encoded | None:
    """The keys and hashes of the values of an equality or IN that this column can hold.

    Each key has every hash that filters may have of its value; a key with several hashes is repeated. None if a value
    has no certain key. `timezone` is the zone of naive datetimes and of the reader's clock, None if unknown.
    `writer_timezones` are the zones of the stripes. `column` is the column's name for messages. Raises PlanError for a
    value of another kind than the column's.

    A TIMESTAMP is a clock reading: which instant it is depends on the reader. So a datetime is taken both as a reading
    and as an instant on the writer's clock; a datetime with an offset is taken as the reading of either clock. Keys of
    timestamps are nanoseconds since 1970 by the clock, as Python integers.
    """
    if _is_timestamp(orc_type):
        return _encode_timestamps(orc_type, values, timezone, writer_timezones, column)
    order = _value_order(orc_type, column)
    keys = None if order is None else order.keys(values, timezone)
    if keys is None or (orc_type.kind == Kind.DATE and bool((keys < _OLDEST_DAY).any())):
        return None
    return Encoded(keys, _hash(orc_type, keys))


def encode_point(
    orc_type: OrcType,
    value: Any,
    *,
    timezone: str | None,
    writer_timezones: Collection[str | None],
    column: str,
    upwards: bool,
) -> Point | None:
    """The position of `value` in the order of the column's statistics; None if it is not certain.

    The position is for a comparison with greater values if `upwards`, else with smaller values. The other parameters
    are those of :func:`encode_values`.
    """
    if _is_timestamp(orc_type):
        readings = _clock_readings(orc_type, value, timezone, writer_timezones, column)
        if readings is None or readings[0] < OLDEST_TIMESTAMP:
            return None
        return Point(readings[0 if upwards else -1])
    order = _value_order(orc_type, column)
    point = None if order is None else order.point(value, timezone)
    return None if point is not None and orc_type.kind == Kind.DATE and point.key < _OLDEST_DAY else point


def encode_value(
    orc_type: OrcType, value: Any, *, timezone: str, writer_timezone: str | None, column: str
) -> Hashes | None:
    """The hashes of :func:`encode_values` for one value, shape (n,).

    A filter that has none of the hashes proves that the value is absent. If n is 0, every filter proves it.
    """
    encoded = encode_values(orc_type, [value], timezone=timezone, writer_timezones=[writer_timezone], column=column)
    return None if encoded is None else encoded.hashes


def _is_timestamp(orc_type: OrcType) -> bool:
    return orc_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)


def _value_order(orc_type: OrcType, column: str) -> ValueOrder | None:
    """The order of a column that is not a timestamp; None if it is not certain."""
    family = orc_family(orc_type)
    if family == "other":
        return None
    if orc_type.kind == Kind.CHAR and not 0 < (orc_type.maximum_length or 0) <= _MAX_CHAR_LENGTH:
        return None
    integers = _RANGES.get(family, INT64_RANGE)
    float_type = np.float32 if orc_type.kind == Kind.FLOAT else np.float64
    return ValueOrder(
        family, column, integers, orc_type.scale, orc_type.precision, unit=_MICROSECOND, float_type=float_type
    )


def _hash(orc_type: OrcType, keys: NDArray[Any]) -> Hashes | None:
    family = orc_family(orc_type)
    if family == "boolean":
        return None
    if family == "float":
        return hash_doubles(keys)
    if family == "decimal":
        return hash_bytes([decimal_text(_scaled(key, orc_type.scale or 0)) for key in keys])
    if orc_type.kind == Kind.CHAR:
        return hash_bytes([char_text(key.decode(), orc_type.maximum_length or 0) for key in keys])
    return hash_bytes(keys.tolist()) if family in ("string", "binary") else hash_longs(keys)


def _scaled(unscaled: int, scale: int) -> Decimal:
    """The decimal of an unscaled integer, exactly: arithmetic would round it to the digits of a context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _encode_timestamps(
    orc_type: OrcType,
    values: Sequence[Any],
    timezone: str | None,
    writer_timezones: Collection[str | None],
    column: str,
) -> Encoded | None:
    pairs: set[tuple[int, int]] = set()
    for value in values:
        readings = _clock_readings(orc_type, value, timezone, writer_timezones, column)
        if readings is None or readings[0] < OLDEST_TIMESTAMP:
            return None
        for reading in readings:
            # Readers with microseconds cut off the rest; some of them cut it towards 1970.
            rest = _MICROSECOND - 1 if reading % _MICROSECOND == 0 else 0
            millis = timestamp_millis(reading - (rest if reading < 0 else 0), reading + rest)
            pairs.update((reading, each) for each in millis)
    ordered = sorted(pairs)
    try:
        hashes = hash_longs(np.array([millis for _, millis in ordered], np.int64))
    except OverflowError:
        return None
    return Encoded(objects([reading for reading, _ in ordered]), hashes)


def _clock_readings(
    orc_type: OrcType, value: Any, timezone: str | None, writer_timezones: Collection[str | None], column: str
) -> list[int] | None:
    """The timestamps that the file may store for `value`, in nanoseconds since 1970, sorted; None if unknown."""
    try:
        wall_clock = coerce(value, "timestamp_ntz", column=column)
    except PlanError:
        wall_clock = None  # the value has an offset, or is not a timestamp at all
    if timezone is None and (wall_clock is not None or orc_type.kind == Kind.TIMESTAMP):
        coerce(value, "timestamp", column=column)  # raises for a value of another kind
        return None
    instant = coerce(value, "timestamp", timezone=timezone or "UTC", column=column)
    if orc_type.kind == Kind.TIMESTAMP_INSTANT:
        return [instant]
    assert timezone is not None
    return _shown_by_clocks(wall_clock, instant, timezone, writer_timezones)


def _shown_by_clocks(
    wall_clock: int | None, instant: int, timezone: str, writer_timezones: Iterable[str | None]
) -> list[int] | None:
    """The readings of the writers' clocks for a TIMESTAMP with this `wall_clock` reading, or at this `instant`.

    An instant is stored, and readers turn it into a reading by the rules of the zone that they know. Programs of
    different years know different rules, which differ by an hour; few agree on the time before 1970.
    """
    try:
        zones = [find_zone(timezone)]
        for name in writer_timezones:
            if name is None:
                return None
            zones.append(find_zone(name))
        readings = {
            instant + _offset(zone, dt.datetime.fromtimestamp(instant // NANOSECONDS_PER_SECOND, zone))
            for zone in zones
        }
        if wall_clock is not None:
            readings.add(wall_clock)
        changing = [zone for zone in zones if not _is_fixed(zone)]
        if changing and any(reading < DAY_NANOSECONDS for reading in readings):
            return None
        for reading in list(readings) if changing else ():
            clock = EPOCH + dt.timedelta(seconds=reading // NANOSECONDS_PER_SECOND)
            steps = {_HOUR, *(_offset(zone, clock + _DAY) - _offset(zone, clock - _DAY) for zone in changing)}
            readings |= {reading + sign * step for step in steps for sign in (-1, 1)}
    except (PlanError, OverflowError, ValueError, OSError):
        return None
    return sorted(readings)


def _is_fixed(zone: dt.tzinfo) -> bool:
    return isinstance(zone, dt.timezone) or str(zone).startswith("Etc/")


def _offset(zone: dt.tzinfo, clock: dt.datetime) -> int:
    return (zone.utcoffset(clock) or dt.timedelta()) // dt.timedelta(seconds=1) * NANOSECONDS_PER_SECOND
