"""Queries of Spark's own sources, run with pruning and without: rows and schemas must be equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support.scenarios import PRUNED, UNPRUNED, ask_all, texts
from tests.support.spark import conf

NODE = "PrunedFileScan"

Ask = Callable[[], DataFrame]


@dataclass(frozen=True)
class Pruned:
    """The rows of a query with pruning, and the plans of those of its scans that were planned."""

    rows: list[str]
    plans: list[ScanSummary]

    @property
    def kept(self) -> list[int]:
        return sorted(plan.kept for plan in self.plans)

    @property
    def skipped(self) -> int:
        return sum(plan.skipped.total() for plan in self.plans)


def compare(spark: SparkSession, ask: Ask) -> Pruned:
    """Run the query that `ask` makes without pruning and with it, and assert that schema and rows are equal."""
    with conf(spark, UNPRUNED):
        frame = ask()
        schema, expected = frame.schema, texts(frame.collect())
        assert NODE not in executed(frame)
    return run(spark, ask, expected, schema)


def compare_all(spark: SparkSession, ask: Callable[[str], DataFrame], wheres: Iterable[str]) -> dict[str, Pruned]:
    """Compare the rows of the query for each of `wheres` without pruning and with it. One query asks all of them."""
    wheres = list(wheres)
    with conf(spark, UNPRUNED):
        expected, _ = ask_all(map(ask, wheres))
    with conf(spark, PRUNED):
        rows, frame = ask_all(map(ask, wheres))
        plans = last_plan(frame)
    for where, ours, theirs in zip(wheres, rows, expected, strict=True):
        assert texts(ours) == texts(theirs), where
    each = zip(wheres, rows, plans, strict=True)
    return {where: Pruned(texts(ours), [plan] if plan.planned else []) for where, ours, plan in each}


def run(spark: SparkSession, ask: Ask, expected: list[str], schema: StructType | None = None) -> Pruned:
    """Run the query with pruning, and assert that its rows, and its `schema` if given, are the expected ones."""
    with conf(spark, PRUNED):
        frame = ask()
        rows = texts(frame.collect())
        assert rows == expected
        assert schema in (None, frame.schema)
        return Pruned(rows, [plan for plan in last_plan(frame) if plan.planned])


def executed(frame: DataFrame) -> str:
    """The physical plan as text."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def nodes(plan: Any, name: str = NODE) -> Iterator[Any]:
    """The nodes of a physical plan whose names begin so, also those in stages and subqueries."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from nodes(plan.executedPlan(), name)
        return
    if kind.endswith("QueryStageExec"):
        yield from nodes(plan.plan(), name)
        return
    if plan.nodeName().startswith(name):
        yield plan
    for children in (plan.children(), plan.subqueries()):
        for i in range(children.size()):
            yield from nodes(children.apply(i), name)


def without_ids(plan: str) -> str:
    """A plan as text without the ids of its expressions and nodes, which differ for each query."""
    return re.sub(r"#\d+L?|plan_id=\d+|\[id=#?\d+\]|org\.apache\S*@[0-9a-f]+", "", plan)
