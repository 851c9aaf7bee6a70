"""What is read of a file, as Spark shows it: clock readings as instants, and old days in today's calendar.

ORC counts a TIMESTAMP from what the clock of the writer's zone called the beginning of 2015; its reader in Java moves
it to the moment at which the clock of the reader's zone shows what that of the writer's did.

Sources: apache/orc, ``TreeReaderFactory.TimestampTreeReader``, ``SerializationUtils.convertBetweenTimezones``,
``ColumnReader.cc``; Spark's ``RebaseDateTime``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.literals import find_zone
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.tail import Calendar
from pyspark_bloomorc.calendar import GREGORIAN_BEGINS, numbers, to_gregorian
from pyspark_bloomorc.clock import arrow_zone, is_utc, same_zone

Numbers = NDArray[np.int64]

_NANOS, _MICROS = 1_000_000_000, 1_000_000
_INSTANT = pa.timestamp("us", "UTC")
_1900 = -2_208_988_800  # seconds: from here on, all calendars and all tables of zones agree
_FIRST_LEFT_OUT = GREGORIAN_BEGINS - 10  # of the days that the hybrid calendar has not
_EPOCH = dt.datetime(2015, 1, 1)
_LOST_NANOS = 999_999  # below, a fraction does not make the seconds before 1970 be counted otherwise
_OLD = "read it by spark.read.orc, attach the jar (pyspark_bloomorc.attach), or give a schema that leaves it out"


@dataclass(frozen=True)
class Reading:
    """How stripes are read: the file's `calendar`, the zone of the `writer` (None where no column needs it), without
    which stripes were read (:func:`pyspark_bloomorc.unzoned.without_zone`), and the zone of the reader's `clock`
    (None: it is not known)."""

    types: Sequence[OrcType]
    calendar: int
    writer: str | None
    clock: str | None

    def shown(self, array: Any, column: int, place: str) -> Any:
        """A column, as Spark shows it. UnsupportedError, with `place`, for values that it would show otherwise than can
        be told here, OptionError where the clock's zone is not known."""
        if not needs_reading(self.types, column):
            return array
        found = self.types[column]
        if found.kind == Kind.DATE:
            return self._days(array, place)
        if found.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            return self._instants(array, found.kind == Kind.TIMESTAMP, place)
        return self._nested(array, found, place)

    def _nested(self, array: Any, found: OrcType, place: str) -> Any:
        if found.kind == Kind.STRUCT:
            named = zip(array.flatten(), found.children, found.names, strict=True)
            children = [self.shown(child, column, f"{place}.{name}") for child, column, name in named]
            fields = [pa.field(name, child.type) for name, child in zip(found.names, children, strict=True)]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        if found.kind == Kind.LIST:
            values = [self.shown(array.values, found.children[0], f"{place}.element")]
            kind = pa.list_(values[0].type)
        else:
            key, value = found.children
            keys, items = self.shown(array.keys, key, f"{place}.key"), self.shown(array.items, value, f"{place}.value")
            kind = pa.map_(keys.type, items.type)
            values = [pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])]
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=values
        )

    def _days(self, array: Any, place: str) -> Any:
        days, nulls = numbers(array)
        if not len(days) or days.min() >= GREGORIAN_BEGINS:
            return array
        if self.calendar == Calendar.PROLEPTIC_GREGORIAN:
            if ((days >= _FIRST_LEFT_OUT) & (days < GREGORIAN_BEGINS)).any():
                raise UnsupportedError(
                    f"{place} has days from 5 to 14 October 1582, which readers take for others; {_OLD}"
                )
            return array
        return pa.array(to_gregorian(days).astype(np.int32), pa.int32(), mask=nulls).cast(pa.date32())

    def _instants(self, array: Any, by_clock: bool, place: str) -> Any:
        nanos, nulls = numbers(array)
        seconds, fraction = np.divmod(nanos, _NANOS)
        clock = self.clock
        if by_clock:
            if clock is None:
                raise OptionError(
                    f"{place} holds what a clock showed (ORC's TIMESTAMP), and the zone of the JVM's clock, by which "
                    "Spark reads it, cannot be told here; give the option clockTimeZone (what the JVM's property "
                    "user.timezone is)"
                )
            seconds = self._moved(seconds, fraction, clock)
        old = seconds < _1900 if nulls is None else (seconds < _1900) & ~nulls
        if old.any() and not (clock is not None and is_utc(clock) and (not by_clock or is_utc(self.writer or clock))):
            raise UnsupportedError(
                f"{place} has times from before 1900, which readers of different zones take for others; {_OLD}"
            )
        return pa.array(seconds * _MICROS + fraction // 1_000, pa.int64(), mask=nulls).cast(_INSTANT)

    def _moved(self, seconds: Numbers, fraction: Numbers, clock: str) -> Numbers:
        """What was stored, as the moments at which `clock` shows what the writer's clock showed."""
        writer, reader = arrow_zone(self.writer or clock), arrow_zone(clock)
        if not is_utc(writer):
            # Writers cut fractions towards 1970, and readers take one more second off before it: pyarrow before that
            # of GMT, Java before that of the writer.
            cut = fraction > _LOST_NANOS
            seconds = seconds + (cut & (seconds < 0)) - _epoch_offset(writer)
            seconds -= cut & (seconds < 0)
        return _between(seconds, writer, reader)


def _epoch_offset(zone: str) -> int:
    """That of the moment from which ORC counts, in seconds."""
    found = _EPOCH.replace(tzinfo=find_zone(zone)).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def _between(seconds: Numbers, writer: str, reader: str) -> Numbers:
    """The moments at which `reader` shows what `writer` shows at `seconds`."""
    if same_zone(writer, reader):
        return seconds
    shown = seconds + _offset(seconds, writer)
    adjusted = shown - _offset(seconds, reader)
    return shown - _offset(adjusted, reader)


def _offset(seconds: Numbers, zone: str) -> Numbers:
    return _numbers(pc.local_timestamp(pa.array(seconds, pa.timestamp("s", zone)))) - seconds


def _numbers(moments: Any) -> Numbers:
    found: Numbers = moments.cast(pa.int64()).to_numpy()
    return found


def needs_reading(types: Sequence[OrcType], column: int) -> bool:
    """Whether pyarrow shows what is in a column otherwise than Spark."""
    return has_kind(types, column, (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT))


def has_kind(types: Sequence[OrcType], column: int, kinds: Sequence[int]) -> bool:
    """Whether a column is of one of `kinds`, or has one inside."""
    found = types[column]
    return found.kind in kinds or any(has_kind(types, child, kinds) for child in found.children)
