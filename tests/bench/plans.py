"""Planning lookups, with an empty cache (cold) and with the process's cache (warm).

The files stay in the page cache of the operating system in both cases. Each round looks up another value, so that no
contender can cache the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.bench.data import Shape, data_set, file_of, keys, scatter
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns

WARM_SECONDS = 0.015
COLD_SECONDS = 0.200
_AIMED_AT = 4_000  # row groups
_LARGER = 10


class Lookups:
    """The values that are looked up in one data set: of rows in all files (hit), or of rows past the last (miss)."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.root = data_set(shape)

    def row(self, number: int, *, hit: bool) -> int:
        if not hit:
            return self.shape.total_rows + 100 + number
        return (7919 * (number + 2) * self.shape.rows + 17) % self.shape.total_rows

    def id(self, number: int, *, hit: bool) -> int:
        return int(scatter(np.array([self.row(number, hit=hit)]))[0])

    def key(self, number: int, *, hit: bool) -> str:
        text: str = keys(np.array([self.row(number, hit=hit)]))[0].as_py()
        return text

    def path(self, number: int) -> str:
        return file_of(self.root, self.shape, self.row(number, hit=True))


def plans(rounds: int, smaller: Shape, larger: Shape) -> Iterator[Row]:
    """A lookup by id in both data sets."""
    cold: dict[bool, Timing] = {}
    for shape in dict.fromkeys((smaller, larger)):
        lookups = Lookups(shape)
        slow = rounds if shape is smaller else max(3, rounds // 2)
        for hit in (True, False):
            timings = _by_id(lookups, hit, slow)
            case = f"{'hit' if hit else 'miss'}, {shape.total_row_groups:,} row groups"
            yield from _rows(case, timings, shape, cold.get(hit))
            cold[hit] = timings["cold"]


def _by_id(lookups: Lookups, hit: bool, rounds: int) -> dict[str, Timing]:
    root = str(lookups.root)
    opened = bp.Dataset.open(root)

    def agree(number: int, plan: bp.ScanPlan) -> None:
        total = lookups.shape.total_row_groups
        if hit and lookups.path(number) not in [group.path for group in plan.kept_row_groups()]:
            raise AssertionError(f"the row group of id {lookups.id(number, hit=True)} was skipped")
        if plan.kept > max(10, total // 20):
            raise AssertionError(f"{plan.kept} of {total} row groups were kept for one id")

    def run(number: int, source: Any = root) -> bp.ScanPlan:
        return bp.plan(source, bp.Eq("id", lookups.id(number, hit=hit)))

    contenders = [
        Contender("cold", run, before=lambda _: process_cache.clear()),
        Contender("warm", run, before=lambda number: run(number - 1)),
        Contender("warm, listed before", lambda number: run(number, opened), before=lambda number: run(number - 1)),
    ]
    return take_turns(contenders, rounds, agree)


def _rows(case: str, timings: dict[str, Timing], shape: Shape, smaller: Timing | None) -> Iterator[Row]:
    for timing in timings.values():
        ratios, aims = {}, []
        if shape.total_row_groups == _AIMED_AT and timing.name in ("cold", "warm"):
            most = COLD_SECONDS if timing.name == "cold" else WARM_SECONDS
            aims.append(Aim(f"<= {1e3 * most:.0f} ms", timing.median <= most))
        if smaller is not None and timing.name == "cold":
            growth = timing.median / smaller.median
            ratios["cold, smaller set"] = 1 / growth
            if shape.total_row_groups == _LARGER * _AIMED_AT:
                aims.append(Aim(f"<= {_LARGER}x the smaller set ({growth:.1f}x)", growth <= _LARGER))
        yield milliseconds("plan", case, timing, ratios=ratios, notes=_notes(timing), aims=tuple(aims))


def _notes(timing: Timing) -> dict[str, int]:
    plan: bp.ScanPlan = timing.result
    size = plan.footer_reads.bytes + plan.filter_reads.bytes
    return {"kept": plan.kept, "requests": plan.requests, "bytes": size}
