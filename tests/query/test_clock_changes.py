"""Wall times that a clock change moves, by comparison with all wall times around it."""

from __future__ import annotations

import datetime as dt

import pytest

from bloomparquet.query.families import ColumnType
from bloomparquet.query.literals import find_zone

CHANGES = [  # and whether wall times are skipped
    ("Europe/Berlin", dt.date(2024, 3, 31), True),
    ("Europe/Berlin", dt.date(2024, 10, 27), False),
    ("America/New_York", dt.date(2024, 3, 10), True),
    ("Australia/Lord_Howe", dt.date(2024, 10, 6), True),  # by half an hour
    ("America/Sao_Paulo", dt.date(2018, 11, 4), True),  # at midnight
    ("Pacific/Apia", dt.date(2011, 12, 30), True),  # the whole day
    ("+05:30", dt.date(2024, 3, 31), False),
]
LOCAL = ColumnType("timestamp_ntz", "c", unit=1000)


@pytest.mark.parametrize(("zone", "day", "skips"), CHANGES)
def test_times_that_share_their_instant_are_uncertain(zone: str, day: dt.date, skips: bool) -> None:
    start = dt.datetime.combine(day, dt.time()) - dt.timedelta(days=3)
    times = [start + dt.timedelta(minutes=15 * i) for i in range(6 * 96)]
    info = find_zone(zone)
    instants = {time: time.replace(tzinfo=info).astimezone(dt.timezone.utc) for time in times}
    skipped = {time for time, at in instants.items() if at.astimezone(info).replace(tzinfo=None) != time}
    onto = {instants[time] for time in skipped}
    moved = {time for time in times if time in skipped or instants[time] in onto}
    assert bool(moved) is skips
    assert {time for time in times if LOCAL.exact_values([None, time], zone) is None} == moved
    assert (LOCAL.exact_values(times, zone) is None) is skips
    if moved:
        before = min(moved) - dt.timedelta(microseconds=1)
        assert LOCAL.exact_values([before], zone) is not None


def test_the_ends_of_the_calendar_are_uncertain() -> None:
    assert LOCAL.exact_values([dt.datetime.min], "Europe/Berlin") is None
    assert LOCAL.exact_values([dt.datetime.min], None) is None
