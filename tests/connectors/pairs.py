"""One query with pruning and without it: rows or errors must be equal. Counts what was pruned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import conf

Ask = Callable[[], DataFrame]
ERRORS = (PySparkException, Py4JError)


@dataclass
class Counts:
    """What was compared. A pair is a query, a statement is a change of a table; each ran off and on."""

    pairs: int = 0
    planned: int = 0  # pairs
    pruned: int = 0  # pairs
    row_groups: int = 0
    skipped: int = 0  # row groups
    failed: int = 0  # pairs and statements that fail alike
    statements: int = 0
    pruned_statements: int = 0
    differences: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter[str])  # why scans were not planned

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __str__(self) -> str:
        numbers = [f"{each.name.replace('_', ' ')} {getattr(self, each.name):,}" for each in fields(self)[:-2]]
        return "\n".join(
            [", ".join([*numbers, f"differences {len(self.differences)}"])]
            + [f"  not planned, {number:,}: {reason}" for reason, number in self.reasons.most_common()]
        )


@dataclass(frozen=True)
class Outcome:
    rows: list[str] = field(default_factory=list)
    error: str = ""
    message: str = field(default="", compare=False)
    plans: tuple[ScanSummary, ...] = field(default=(), compare=False)


def run(ask: Ask) -> Outcome:
    try:
        frame = ask()
        rows = texts(frame.collect())
        return Outcome(rows, plans=tuple(last_plan(frame)))
    except ERRORS as error:
        return Outcome(error=_kind(error), message=str(error)[:2000])


def _kind(error: Exception) -> str:
    """The condition or the class of an error. Errors that only name other values are equal."""
    named = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", str(error))
    return named[1] if named else type(error).__name__


def check(spark: SparkSession, query: str | Ask, failing: bool = False) -> tuple[list[str], list[ScanSummary]]:
    """The rows of a query, equal off and on, and the plans of its scans that were planned."""
    ask = partial(spark.sql, query) if isinstance(query, str) else query
    with conf(spark, UNPRUNED):
        expected = run(ask)
    ours = run(ask)
    assert ours == expected, ours.message
    assert bool(ours.error) == failing, ours.message
    return ours.rows, [plan for plan in ours.plans if plan.planned]


def kept(spark: SparkSession, query: str | Ask) -> list[tuple[int, int]]:
    """The kept row groups of each planned scan, and all of them."""
    return sorted((plan.kept, plan.total) for plan in check(spark, query)[1])


def compare(spark: SparkSession, ask: Ask, about: Callable[[], str]) -> Counts:
    """Run a query off and on. `about` tells how to repeat it."""
    with conf(spark, UNPRUNED):
        expected = run(ask)
    with conf(spark, PRUNED):
        ours = run(ask)
    counts = counts_of(ours.plans, pairs=1)
    if expected.error and not ours.error:
        counts.failed = 1  # the row that it fails at is in a skipped row group
    elif ours != expected:
        counts.differences.append(difference(expected, ours, about()))
    elif ours.error:
        counts.failed = 1
    return counts


def compare_conditions(
    spark: SparkSession, source: str, shown: str, conditions: Sequence[str], about: Callable[[str], str]
) -> Counts:
    """Ask all conditions by one query, each by a scan of its own; and without pruning all of them by one scan.

    `shown`: a struct. Of conditions that fail together, each is asked alone.
    """
    selects = [f"SELECT {i}, CAST({shown} AS STRING) FROM {source} WHERE {each}" for i, each in enumerate(conditions)]
    truths = ", ".join(f"({each}) IS TRUE" for each in conditions)
    try:
        with conf(spark, UNPRUNED):
            expected = spark.sql(f"SELECT CAST({shown} AS STRING), {truths} FROM {source}").collect()
        with conf(spark, PRUNED):
            frame = spark.sql(" UNION ALL ".join(selects))
            ours = frame.collect()
            plans = last_plan(frame)
    except ERRORS:
        alone = (compare(spark, partial(spark.sql, each), partial(about, each)) for each in selects)
        return sum(alone, Counts())
    counts = replace(sum((counts_of((plan,), pairs=1) for plan in plans), Counts()), pairs=len(conditions))
    for i, select in enumerate(selects):
        if sorted(row[1] for row in ours if row[0] == i) != sorted(row[0] for row in expected if row[i + 1]):
            # A connector's own skipping loses rows too: NaN and -0.0 in Iceberg. What it gives for this query is right.
            counts.differences += compare(spark, partial(spark.sql, select), partial(about, select)).differences
    return counts


def difference(expected: Outcome, ours: Outcome, about: str) -> str:
    lines = [about]
    if ours.error:
        lines.append(f"  error: {ours.error}, expected {expected.error or 'rows'}: {ours.message}")
    else:
        lost = list(_minus(expected.rows, ours.rows))
        extra = list(_minus(ours.rows, expected.rows))
        lines.append(f"  {len(ours.rows)} rows, expected {len(expected.rows)}; lost {lost[:3]}, extra {extra[:3]}")
    lines += [f"  {plan}" for plan in ours.plans]
    return "\n".join(lines)


def _minus(rows: list[str], others: list[str]) -> Iterator[str]:
    left = list(others)
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            yield row


def skipped(spark: SparkSession, after: int = -1) -> tuple[int, int]:
    """How many row groups the queries skipped that began later than the query `after`, and the latest query.

    These are also the queries that a statement runs by itself, which :func:`last_plan` does not know.
    """
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    store = spark._jsparkSession.sharedState().statusStore()
    count = store.executionsCount()
    latest = store.executionsList(max(0, count - 20), 20)
    total = 0
    for query in (latest.apply(i) for i in range(latest.size())):
        if query.executionId() > after >= 0:
            values = store.executionMetrics(query.executionId())
            metrics = (query.metrics().apply(i) for i in range(query.metrics().size()))
            ids = [each.accumulatorId() for each in metrics if each.name().startswith("row groups skipped by")]
            total += sum(int(values.apply(each).replace(",", "")) for each in ids if values.contains(each))
    return total, latest.last().executionId() if count else 0


def counts_of(plans: tuple[ScanSummary, ...], pairs: int = 0) -> Counts:
    planned = [plan for plan in plans if plan.planned]
    skipped = sum(plan.skipped.total() for plan in planned)
    counts = Counts(
        pairs, planned=pairs * bool(planned), pruned=pairs * bool(skipped),
        row_groups=sum(plan.total for plan in planned), skipped=skipped,
    )  # fmt: skip
    counts.reasons.update(str(plan.reason) for plan in plans if not plan.planned)
    return counts
