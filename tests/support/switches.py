"""Switches one kind of evidence, the caches, or planning off, in tests: the rows must stay the same.

A switch replaces the one place where a plan asks for that evidence. :func:`without` does so in a block. For a whole run
``BLOOMPARQUET_WITHOUT=bloom`` does, in each Python process that has ``tests/support/switched`` on its ``PYTHONPATH``:
also in the jar's planner and in Spark's Python workers. ``make switches`` runs the comparisons so, with each switch.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from bloomparquet.planning import judge, partition_evidence, planner
from bloomparquet.planning import open as opening
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.decisions import KEPT
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Counts
from bloomparquet.planning.evidence.variants import find_typed_chunks
from bloomparquet.planning.index import lookup
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.query.resolve import NoLeaf, find_leaf_of
from bloomparquet.query.verdict import Decision

EVIDENCE = ("partitions", "statistics", "bloom")
SWITCHES = (*EVIDENCE, "index", "caches", "planning")
"""What can be switched off. ``statistics``: min, max, null counts, and that a file lacks a column."""

_off: set[str] = set()


@contextmanager
def without(*switches: str) -> Iterator[None]:
    """Switch off, in this process and this block."""
    before = set(_off)
    with ExitStack() as patches:
        for name in switches:
            _off.add(name)
            for place, attribute, replacement in _PATCHES[name]():
                patches.enter_context(patch.object(place, attribute, replacement))
        try:
            yield
        finally:
            _off.intersection_update(before)


def is_on(*switches: str) -> bool:
    """Whether none of `switches`, nor planning, is switched off."""
    return not _off.intersection((*switches, "planning"))


def require_used(tally: Counter[str], reason: str, more_than: float) -> None:
    """Assert that plans skipped `more_than` some row groups for a `reason` of :attr:`ScanPlan.skipped`; none, if its
    evidence is switched off."""
    if is_on(reason):
        assert tally[reason] > more_than
    elif reason != "statistics" or "planning" in _off:  # predicates that no row can match count as statistics too
        assert tally[reason] == 0


def require_off(plan: ScanPlan) -> None:
    """Assert that nothing which is switched off had a part in `plan`."""
    if "planning" in _off:
        assert plan.kept == plan.total
    elif _off:
        decided = plan.decisions().counts()
        for name, decisions in _DECISIONS.items():
            assert name not in _off or not any(decided.get(each) for each in decisions), (name, decided)
    assert "index" not in _off or plan.indexed == 0
    assert "caches" not in _off or not process_cache._parts


def run_without() -> None:
    """Switch off what the environment says, until the process ends."""
    names = os.environ.get("BLOOMPARQUET_WITHOUT", "").split()
    if names:
        _for_ever.enter_context(without(*names))


_for_ever = ExitStack()
_Patches = Iterator[tuple[Any, str, Any]]
_DECISIONS = {
    "partitions": (Decision.PARTITION,),
    "statistics": (Decision.BOUNDS,),
    "bloom": (Decision.BLOOM, Decision.INDEX),
    "index": (Decision.INDEX,),
}


def _without_partitions() -> _Patches:
    verdicts = partition_evidence.PartitionEvidence.verdicts

    def keep(*arguments: Any) -> Any:
        by_file = verdicts(*arguments)
        return None if by_file is None else np.ones_like(by_file)

    yield partition_evidence.PartitionEvidence, "verdicts", keep
    yield planner, "decide", _exclude_nothing  # opens all files


def _exclude_nothing(predicate: Any, alive: Any, judge_leaf: Any) -> Any:
    return np.zeros(len(alive), np.uint8)


class _Blind:
    """Chunks without bounds and null counts."""

    bounds = None

    def __init__(self, chunks: Any) -> None:
        unknown = np.full(len(chunks.members), -1)
        self._chunks, self.counts = chunks, Counts(unknown, unknown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)


def _without_statistics() -> _Patches:
    judge_by_statistics = statistics.judge_leaf

    def keep(leaf: Any, chunks: Any, timezone: str | None) -> Any:
        codes, candidates = judge_by_statistics(leaf, _Blind(chunks), timezone)  # type: ignore[arg-type]
        return np.zeros_like(codes), candidates

    def unknown_if_absent(find: Callable[..., Any]) -> Callable[..., Any]:
        def found(*arguments: Any, **options: Any) -> Any:
            leaf = find(*arguments, **options)
            return NoLeaf.UNKNOWN if leaf is NoLeaf.ABSENT else leaf

        return found

    yield statistics, "judge_leaf", keep
    yield judge, "find_leaf_of", unknown_if_absent(find_leaf_of)
    yield judge, "find_typed_chunks", unknown_if_absent(find_typed_chunks)


def _without_bloom() -> _Patches:
    judge_by_statistics = statistics.judge_leaf
    yield statistics, "judge_leaf", lambda *arguments: (judge_by_statistics(*arguments)[0], None)


def _without_index() -> _Patches:
    for place in (planner, opening):
        yield place, "find_index", lambda *_: None


class _Forgetful(OrderedDict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def move_to_end(self, key: Any, last: bool = True) -> None:
        pass


def _without_caches() -> _Patches:
    process_cache.clear()
    yield PlanCache, "_keep", lambda *_, **__: None
    yield opening, "_remember", lambda *_: None
    yield lookup, "_lookups", _Forgetful()


def _without_planning() -> _Patches:
    yield planner, "decide", _exclude_nothing
    yield planner, "judge", lambda table, conditions, request: (np.full(len(table), KEPT, np.uint8), None)


_PATCHES: dict[str, Callable[[], _Patches]] = {
    "partitions": _without_partitions,
    "statistics": _without_statistics,
    "bloom": _without_bloom,
    "index": _without_index,
    "caches": _without_caches,
    "planning": _without_planning,
}
