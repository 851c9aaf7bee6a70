"""Finds wall times that a clock change skips, or to which it moves skipped ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

from bloomparquet.query.literals import DAY_NANOSECONDS, EPOCH


def has_moved_time(times: Sequence[int | None], zone: dt.tzinfo) -> bool:
    """Whether a clock change in `zone` skips one of these wall times, or moves a skipped one there.

    Spark compares a TIMESTAMP_NTZ column with a TIMESTAMP literal as instants, and then both times are one.
    """
    if isinstance(zone, dt.timezone):
        return False
    near = (time for time in times if time is not None and _has_clock_change(zone, time // DAY_NANOSECONDS))
    return any(_is_moved(EPOCH + dt.timedelta(microseconds=time // 1000), zone) for time in near)


@lru_cache(maxsize=10_000)
def _has_clock_change(zone: dt.tzinfo, day: int) -> bool:
    """Whether the clock changes on this day since 1970, or a day before or after it. True if that is not known."""
    try:
        start = EPOCH + dt.timedelta(days=day)
        return zone.utcoffset(start - dt.timedelta(days=1)) != zone.utcoffset(start + dt.timedelta(days=2))
    except OverflowError:
        return True


def _is_moved(wall: dt.datetime, zone: dt.tzinfo) -> bool:
    try:
        instant = wall.replace(tzinfo=zone).astimezone(dt.timezone.utc)
        if instant.astimezone(zone).replace(tzinfo=None) != wall:
            return True
        earlier = instant - dt.timedelta(hours=25)  # no clock change skips more than a day
        instant = instant.replace(tzinfo=None)
        skipped = instant + (earlier.astimezone(zone).utcoffset() or dt.timedelta())
        return skipped != wall and skipped - (zone.utcoffset(skipped) or dt.timedelta()) == instant
    except OverflowError:
        return True
