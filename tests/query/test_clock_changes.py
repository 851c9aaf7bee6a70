"""Wall times that a clock change moves, by comparison with all wall times around it."""

from __future__ import annotations

import datetime as dt
import time
from zoneinfo import ZoneInfo

import pytest

from bloomparquet.query.clock_changes import has_moved_time
from bloomparquet.query.literals import EPOCH, find_zone

CHANGES = [  # and whether wall times are skipped
    ("Europe/Berlin", dt.date(2024, 3, 31), True),
    ("Europe/Berlin", dt.date(2024, 10, 27), False),
    ("Europe/London", dt.date(2024, 3, 31), True),
    ("America/New_York", dt.date(2024, 3, 10), True),
    ("Australia/Lord_Howe", dt.date(2024, 10, 6), True),  # by half an hour
    ("America/Sao_Paulo", dt.date(2018, 11, 4), True),  # at midnight
    ("Pacific/Apia", dt.date(2011, 12, 30), True),  # the whole day
    ("Asia/Tokyo", dt.date(2024, 3, 31), False),
    ("+05:30", dt.date(2024, 3, 31), False),
]


@pytest.mark.parametrize(("zone", "day", "skips"), CHANGES)
def test_times_that_share_their_instant_are_moved(zone: str, day: dt.date, skips: bool) -> None:
    start = dt.datetime.combine(day, dt.time()) - dt.timedelta(days=3)
    times = [start + dt.timedelta(minutes=15 * i) for i in range(6 * 96)]
    info = find_zone(zone)
    instants = {time: time.replace(tzinfo=info).astimezone(dt.timezone.utc) for time in times}
    skipped = {time for time, at in instants.items() if at.astimezone(info).replace(tzinfo=None) != time}
    onto = {instants[time] for time in skipped}
    moved = {time for time in times if time in skipped or instants[time] in onto}
    assert bool(moved) is skips
    assert {time for time in times if has_moved_time([_nanos(time)], info)} == moved
    assert has_moved_time([None, *map(_nanos, times)], info) is skips
    assert not has_moved_time([_nanos(time) + 999 for time in times if time not in moved], info)
    assert not has_moved_time([_nanos(min(moved)) - 1] if moved else [], info)


@pytest.mark.parametrize("machine", ["America/New_York", "Pacific/Apia", "UTC"])
def test_the_zone_of_the_machine_does_not_matter(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", machine)
            time.tzset()
            for change in CHANGES:
                test_times_that_share_their_instant_are_moved(*change)
    finally:
        time.tzset()


def test_the_zone_is_asked_once_for_the_times_of_a_calm_day() -> None:
    """An IN list may have many thousands of times."""

    class Counting(ZoneInfo):
        asked = 0

        def utcoffset(self, time: dt.datetime | None) -> dt.timedelta | None:
            Counting.asked += 1
            return super().utcoffset(time)

    zone = Counting("Europe/Berlin")
    assert not has_moved_time([_nanos(EPOCH + dt.timedelta(seconds=second)) for second in range(86_400)], zone)
    assert Counting.asked == 2  # the days before and after


def test_the_ends_of_the_calendar_are_not_known() -> None:
    zone = ZoneInfo("Europe/Berlin")
    assert has_moved_time([_nanos(dt.datetime.min)], zone)
    assert not has_moved_time([None], zone)


def _nanos(time: dt.datetime) -> int:
    return (time - EPOCH) // dt.timedelta(microseconds=1) * 1000
