"""Planning a lookup by id, with an empty cache (cold) and with the process's cache (warm).

The files stay in the page cache of the operating system in both cases. Each round looks up another value, so that no
contender can cache the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.bench.data import Lookups, Shape
from tests.bench.measure import Contender, Row, milliseconds, take_turns


def plans(rounds: int, *shapes: Shape) -> Iterator[Row]:
    """An id that is there (hit) and one that is not (miss), in each data set."""
    for shape in dict.fromkeys(shapes):
        lookups = Lookups(shape)
        for hit in (True, False):
            case = f"{'hit' if hit else 'miss'}, {shape.total_row_groups:,} row groups"
            for timing in take_turns(_contenders(lookups, hit), rounds).values():
                plan: bp.ScanPlan = timing.result
                size = plan.footer_reads.bytes + plan.filter_reads.bytes
                notes = {"kept": plan.kept, "requests": plan.requests, "bytes": size}
                yield milliseconds("plan", case, timing, notes=notes)


def _contenders(lookups: Lookups, hit: bool) -> list[Contender]:
    root = str(lookups.root)
    opened = bp.Dataset.open(root)

    def run(number: int, source: Any = root) -> bp.ScanPlan:
        return bp.plan(source, bp.Eq("id", lookups.id(number, hit=hit)))

    return [
        Contender("cold", run, before=lambda _: process_cache.clear()),
        Contender("warm", run, before=lambda number: run(number - 1)),
        Contender("warm, listed before", lambda number: run(number, opened), before=lambda number: run(number - 1)),
    ]
