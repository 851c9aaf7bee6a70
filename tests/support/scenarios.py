"""One question, put to three readers: Spark's own Parquet, the Python data source, and the jar.

The first says what is right. Of the jar it is also known what it planned, and what Spark then did: how many tasks it
started, and how many rows left the scan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support.spark import conf

ORACLE, PYTHON, JAR = "parquet", "bloomparquet_python", "bloomparquet"
Paths = Path | str | list[str]
Query = Callable[[DataFrame], DataFrame]

_groups = itertools.count()


def read(spark: SparkSession, source: str, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
    """The files by one of the readers."""
    reader = spark.read.format(source)
    if schema is not None:
        reader = reader.schema(schema)
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load(path if isinstance(path, list) else str(path))


def texts(rows: list[Any]) -> list[str]:
    """Rows as texts in an order of their own: NaN equals NaN there, and -0.0 is not 0.0."""
    return sorted(repr(tuple(row)) for row in rows)


@dataclass(frozen=True)
class Ran:
    """A query through the jar that was run: its rows, its plans, and what Spark says that it did.

    `scanned` are the rows that left the scans, before Spark's own filter.
    """

    rows: list[str]
    plans: list[ScanSummary]
    tasks: int
    scanned: int

    @property
    def plan(self) -> ScanSummary:
        (found,) = self.plans
        return found


def run(frame: DataFrame) -> Ran:
    """Collect `frame`, and hold what is planned for its scans against Spark's own metrics of them."""
    context = frame.sparkSession.sparkContext
    group = f"scenario-{next(_groups)}"
    context.setJobGroup(group, group)
    try:
        rows = texts(frame.collect())
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    plans, nodes = last_plan(frame), list(_scans(frame._jdf.queryExecution().executedPlan()))
    shown = {name: sum(_metric(node, name) for node in nodes) for name in _COUNTS}
    assert shown == {name: sum(count(plan) for plan in plans) for name, count in _COUNTS.items()}
    return Ran(rows, plans, _tasks(context, group), sum(_metric(node, "numOutputRows") for node in nodes))


_COUNTS: Mapping[str, Callable[[ScanSummary], int]] = {
    "numRowGroupsTotal": lambda plan: plan.total,
    "numRowGroupsRead": lambda plan: plan.kept,
    "numRowGroupsSkippedByStatistics": lambda plan: plan.skipped["statistics"],
    "numRowGroupsSkippedByBloomFilter": lambda plan: plan.skipped["bloom"],
    "numFilterErrors": lambda plan: plan.errors,
}


def _tasks(context: Any, group: str) -> int:
    """How many tasks the jobs of a group had."""
    context._jsc.sc().listenerBus().waitUntilEmpty()  # what the tracker knows arrives there
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs for stage in job.stageIds}
    return sum(tracker.getStageInfo(stage).numTasks for stage in stages)


def _scans(plan: Any) -> Iterator[Any]:
    """The jar's nodes in a physical plan, also in one that was changed while it ran."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _scans(plan.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from _scans(plan.plan())
    elif kind == "BatchScanExec" and plan.scan().getClass().getSimpleName() == "PrunedScan":
        yield plan
    elif kind != "ReusedExchangeExec":
        for children in (plan.children(), plan.subqueries()):
            for i in range(children.size()):
                yield from _scans(children.apply(i))


def _metric(node: Any, name: str) -> int:
    return int(node.metrics().apply(name).value())


class Readers:
    """The three of them in one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def jar(self, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
        options.pop("caseSensitive", None)  # of the Python source; the jar goes by the session
        return read(self.spark, JAR, path, schema, **options)

    def oracle(self, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
        return read(self.spark, ORACLE, path, schema, **options)

    def python(self, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
        zone = self.spark.conf.get("spark.sql.session.timeZone")
        return read(self.spark, PYTHON, path, schema, **{"pushFilters": "off", "timeZone": zone, **options})

    def ask(
        self,
        path: Paths,
        where: str,
        *,
        schema: Any = None,
        select: tuple[str, ...] = ("*",),
        expected: list[str] | None = None,
        rows_per_group: int | None = None,
        bind: bool = True,
        by_python: str = "query",
        not_understood: int = 0,
        **options: Any,
    ) -> Ran:
        """Ask the jar for the rows of `path` for which `where` is true: by a query, and bound to the load if `bind`.

        They are those of the oracle, which is asked as well unless its answer is given as `expected`; so is the Python
        data source then, by what `by_python` says: "query", "where" or "nothing", for what it cannot read. Where all
        row groups have `rows_per_group` rows, as many leave the scan as the kept ones have. Files that are
        `not_understood` are left to Spark whole. Gives what the query did.
        """

        def chosen(frame: DataFrame) -> DataFrame:
            return frame.selectExpr(*select)

        oracle = self.oracle(path, schema, **options).where(where).selectExpr(*select)
        rows = expected
        if rows is None:
            rows = texts(oracle.collect())
            if by_python == "where":
                self._agrees(chosen(self.python(path, schema, where=where, **options)), oracle, rows)
            elif by_python == "query":
                self._agrees(chosen(self.python(path, schema, **options).where(where)), oracle, rows)

        # Spark's reader reads all rows of what it is given while it knows of no filter: then what leaves the scan
        # is what was planned.
        knows = "true" if rows_per_group is None else "false"
        with conf(self.spark, {"spark.sql.parquet.filterPushdown": knows}):
            frame = chosen(self.jar(path, schema, **options).where(where))
            assert frame.schema == oracle.schema
            ran = run(frame)
            assert ran.rows == rows
            for plan in ran.plans:  # none where Spark knows without reading that there are no rows
                _holds_together(ran, plan, not_understood)
                if rows_per_group is not None and plan.planned:
                    assert ran.scanned == plan.kept * rows_per_group
            if not bind:
                return ran

            frame = chosen(self.jar(path, schema, where=where, **options))
            assert frame.schema == oracle.schema
            bound = run(frame)
            assert bound.rows == rows
            assert bound.scanned == len(rows), "the rows of the load are those of its condition"
            _holds_together(bound, bound.plan, not_understood)
            if not ran.plans:
                return bound
            if ran.plan.planned and bound.plan.planned:
                assert (bound.plan.kept, bound.plan.skipped) == (ran.plan.kept, ran.plan.skipped)
            else:  # one of them may know that a column is not null, which excludes nothing
                assert ran.plan.skipped.total() == bound.plan.skipped.total() == 0
            return ran

    def answers(self, path: Paths, wheres: Iterable[str], **options: Any) -> dict[str, list[str]]:
        """The rows for each of many predicates, by the oracle and by the Python data source, which agree.

        The predicates are columns of one query: nothing is filtered, so nothing can be pruned.
        """
        wheres = list(wheres)

        def asked(frame: DataFrame) -> dict[str, list[str]]:
            found = frame.selectExpr("struct(*) AS row", *(f"({where}) AS `{i}`" for i, where in enumerate(wheres)))
            rows = found.collect()
            return {where: texts([row[0] for row in rows if row[i + 1]]) for i, where in enumerate(wheres)}

        answers = asked(self.oracle(path, **options))
        assert asked(self.python(path, **options)) == answers
        return answers

    def agree(self, path: Paths, schema: Any = None, *, by_python: bool = True, **options: Any) -> DataFrame:
        """All readers agree on all rows; gives the jar's frame."""
        expected = self.oracle(path, schema, **options)
        rows = texts(expected.collect())
        if by_python:
            self._agrees(self.python(path, schema, **options), expected, rows)
        return self._agrees(self.jar(path, schema, **options), expected, rows)

    @staticmethod
    def _agrees(frame: DataFrame, expected: DataFrame, rows: list[str]) -> DataFrame:
        assert frame.schema == expected.schema
        assert texts(frame.collect()) == rows
        return frame


def _holds_together(ran: Ran, plan: ScanSummary, not_understood: int) -> None:
    if plan.planned:
        assert plan.total == plan.kept + plan.skipped.total()
        read = plan.kept + not_understood
        # Where nothing is kept, one task checks that the skipped files are still what was planned.
        assert ran.tasks <= max(read, 1), "a task with nothing to read"
        assert ran.tasks > 0 or read == 0
