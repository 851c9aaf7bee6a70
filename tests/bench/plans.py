"""Planning lookups, with an empty cache (cold) and with the process's cache (warm).

The files stay in the page cache of the operating system in both cases. Each round looks up another value, so that no
contender can cache the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.planning.index.cache import process_cache
from tests.bench.data import Shape, data_set, file_of, keys, scatter
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns

WARM_SECONDS = 0.015
COLD_SECONDS = 0.200
_AIMED_AT = 4_000  # row groups
_LARGER = 10
_MANY = 10_000


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
    """A lookup by id in both data sets, and other predicates on the smaller one."""
    cold: dict[bool, Timing] = {}
    for shape in dict.fromkeys((smaller, larger)):
        lookups = Lookups(shape)
        slow = rounds if shape is smaller else max(3, rounds // 2)
        for hit in (True, False):
            timings = _by_id(lookups, hit, slow)
            case = f"{'hit' if hit else 'miss'}, {shape.total_row_groups:,} row groups"
            yield from _rows(case, timings, shape, cold.get(hit))
            cold[hit] = timings["cold"]
    lookups = Lookups(smaller)
    for name, where in _others(lookups).items():
        case = f"{name}, {smaller.total_row_groups:,} row groups"
        for timing in take_turns(_contenders(lookups, where)[:2], rounds).values():
            yield milliseconds("plan", case, timing, notes=_notes(timing))


def _by_id(lookups: Lookups, hit: bool, rounds: int) -> dict[str, Timing]:
    def agree(number: int, plan: bp.ScanPlan) -> None:
        total = lookups.shape.total_row_groups
        if hit and lookups.path(number) not in [group.path for group in plan.kept_row_groups()]:
            raise AssertionError(f"the row group of id {lookups.id(number, hit=True)} was skipped")
        if plan.kept > max(10, total // 20):
            raise AssertionError(f"{plan.kept} of {total} row groups were kept for one id")

    return take_turns(_contenders(lookups, lambda number: bp.Eq("id", lookups.id(number, hit=hit))), rounds, agree)


def _contenders(lookups: Lookups, where: Any) -> list[Contender]:
    root = str(lookups.root)
    opened = bp.Dataset.open(root)

    def run(number: int) -> bp.ScanPlan:
        return bp.plan(root, where(number))

    return [
        Contender("cold", run, before=lambda _: process_cache.clear()),
        Contender("warm", run, before=lambda number: run(number - 1)),
        Contender(
            "warm, listed before", lambda number: bp.plan(opened, where(number)), before=lambda number: run(number - 1)
        ),
    ]


def _others(lookups: Lookups) -> dict[str, Any]:
    shape = lookups.shape
    absent = scatter(np.arange(shape.total_rows, shape.total_rows + _MANY)).tolist()
    present = scatter(np.linspace(0, shape.total_rows - 1, _MANY, dtype=np.int64)).tolist()
    return {
        "key hit": lambda number: bp.Eq("key", lookups.key(number, hit=True)),
        "key miss": lambda number: bp.Eq("key", lookups.key(number, hit=False)),
        "SQL text, id miss": lambda number: f"id = {lookups.id(number, hit=False)}",
        f"IN of {_MANY:,} absent ids": lambda _: bp.In("id", tuple(absent)),
        f"IN of {_MANY:,} present ids": lambda _: bp.In("id", tuple(present)),
        "id miss OR key miss": lambda number: (
            bp.Eq("id", lookups.id(number, hit=False)) | bp.Eq("key", lookups.key(number, hit=False))
        ),
        "amount < 0": lambda _: bp.Lt("amount", 0),
        "no predicate": lambda _: None,
    }


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
