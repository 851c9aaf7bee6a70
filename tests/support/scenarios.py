"""Runs one query with three readers: Spark's own Parquet source without pruning (the oracle), the Python data source,
and the jar.

For the jar, a test also gets the plan, the number of tasks, and the number of rows that left the scan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark users give it

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support.spark import conf

ORACLE, PYTHON, JAR = "parquet", "bloomparquet_python", "bloomparquet"
TRANSPARENT = "spark.bloomparquet.transparent"
UNPRUNED, PRUNED = {TRANSPARENT: "false"}, {TRANSPARENT: "true"}
"""Whether Spark's own scans are pruned."""
Paths = Path | str | list[str]
Query = Callable[[DataFrame], DataFrame]

_groups = itertools.count()


def read(spark: SparkSession, source: str, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
    """Load the files with one of the readers."""
    reader = spark.read.format(source)
    if schema is not None:
        reader = reader.schema(schema)
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load(path if isinstance(path, list) else str(path))


def texts(rows: list[Any]) -> list[str]:
    """Rows as sorted texts, in which NaN equals NaN and -0.0 differs from 0.0."""
    return sorted(repr(tuple(row)) for row in rows)


def ask_all(frames: Iterable[DataFrame]) -> tuple[list[list[Any]], DataFrame]:
    """The rows of each frame, and the one query that asks them all, each by scans of its own."""
    numbered = [frame.select(F.lit(i), F.struct("*")) for i, frame in enumerate(frames)]
    union = reduce(DataFrame.unionAll, numbered)
    rows: list[list[Any]] = [[] for _ in numbered]
    for i, row in union.collect():
        rows[i].append(row)
    return rows, union


@dataclass(frozen=True)
class Ran:
    """The result of a query through the jar: rows, plans, and Spark's counts.

    `scanned` counts the rows that left the scans, before Spark's own filter.
    """

    rows: list[str]
    plans: list[ScanSummary]
    tasks: int
    scanned: int

    @property
    def plan(self) -> ScanSummary:
        (plan,) = self.plans
        return plan


def run(frame: DataFrame) -> Ran:
    """Collect `frame`, and assert that the plans of its scans agree with Spark's metrics."""
    context = frame.sparkSession.sparkContext
    group = f"scenario-{next(_groups)}"
    context.setJobGroup(group, group)
    try:
        rows = texts(frame.collect())
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    plans, nodes = last_plan(frame), list(scans(frame._jdf.queryExecution().executedPlan()))
    metrics = {name: sum(metric(node, name) for node in nodes) for name in _COUNTS}
    assert metrics == {name: sum(count(plan) for plan in plans) for name, count in _COUNTS.items()}
    scanned = sum(metric(node.children().apply(0), "numOutputRows") for node in nodes)
    return Ran(rows, plans, _tasks(context, group), scanned)


_COUNTS: Mapping[str, Callable[[ScanSummary], int]] = {
    "numRowGroupsTotal": lambda plan: plan.total,
    "numRowGroupsRead": lambda plan: plan.kept,
    "numRowGroupsSkippedByStatistics": lambda plan: plan.skipped["statistics"],
    "numRowGroupsSkippedByBloomFilter": lambda plan: plan.skipped["bloom"],
    "numFilterErrors": lambda plan: plan.errors,
    "numFilesTotal": lambda plan: plan.files,
    "numFilesIndexed": lambda plan: plan.indexed_files,
}


def _tasks(context: Any, group: str) -> int:
    """The number of tasks of a job group."""
    context._jsc.sc().listenerBus().waitUntilEmpty()  # the tracker's data arrives there
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs for stage in job.stageIds}
    return sum(tracker.getStageInfo(stage).numTasks for stage in stages)


def scans(plan: Any) -> Iterator[Any]:
    """The jar's nodes in a physical plan, including one that adaptive execution changed."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from scans(plan.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from scans(plan.plan())
    elif kind == "EmptyRelationExec":
        yield from _stages(plan.logical())
    elif kind == "PrunedFileScanExec":
        yield plan
    elif kind != "ReusedExchangeExec":
        for children in (plan.children(), plan.subqueries()):
            for i in range(children.size()):
                yield from scans(children.apply(i))


def _stages(logical: Any) -> Iterator[Any]:
    """The jar's nodes in the stages that ran before adaptive execution found that there are no rows."""
    if logical.getClass().getSimpleName() == "LogicalQueryStage":
        yield from scans(logical.physicalPlan())
    for i in range(logical.children().size()):
        yield from _stages(logical.children().apply(i))


def metric(node: Any, name: str) -> int:
    return int(node.metrics().apply(name).value())


class Readers:
    """The readers in one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def jar(self, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
        options.pop("caseSensitive", None)  # the jar uses the session's setting
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
        rows_per_group: int | None = None,
        by_python: bool = False,
        read_whole: int = 0,
        **options: Any,
    ) -> Ran:
        """Query the rows of `path` for which `where` is true with the jar, and compare them with the other readers.

        `by_python`: also by the Python data source, which reads all rows. If all row groups have `rows_per_group` rows,
        the rows that leave the scan are counted. Spark reads `read_whole` files whole.
        """

        oracle = self.oracle(path, schema, **options).where(where).selectExpr(*select)
        with conf(self.spark, UNPRUNED):
            rows = texts(oracle.collect())
        if by_python:
            frame = self.python(path, schema, **options).where(where).selectExpr(*select)
            assert (frame.schema, texts(frame.collect())) == (oracle.schema, rows)

        # Without filters, Spark's reader returns all rows of the planned row groups, so they can be counted.
        pushdown = "true" if rows_per_group is None else "false"
        with conf(self.spark, {"spark.sql.parquet.filterPushdown": pushdown}):
            frame = self.jar(path, schema, **options).where(where).selectExpr(*select)
            assert frame.schema == oracle.schema
            ran = run(frame)
            assert ran.rows == rows
            for plan in ran.plans:  # no plans if Spark knows without reading that there are no rows
                _check_counts(ran, plan, read_whole)
                if rows_per_group is not None and plan.planned:
                    assert ran.scanned == plan.kept * rows_per_group
            return ran

    def answers(self, path: Paths, wheres: Iterable[str]) -> dict[str, list[str]]:
        """The oracle's rows for each of many predicates.

        The predicates are columns of one query. It has no filter, so no row group can be skipped.
        """
        wheres = list(wheres)
        verdicts = (f"({where}) AS `{i}`" for i, where in enumerate(wheres))
        with conf(self.spark, UNPRUNED):
            rows = self.oracle(path).selectExpr("struct(*) AS row", *verdicts).collect()
        return {where: texts([row[0] for row in rows if row[i + 1]]) for i, where in enumerate(wheres)}


def _check_counts(ran: Ran, plan: ScanSummary, read_whole: int) -> None:
    if plan.planned:
        assert plan.total == plan.kept + plan.skipped.total()
        read = plan.kept + read_whole
        if plan.skipped.total():  # a plan that keeps all leaves the files to Spark, which splits them by size
            # If nothing is kept, one task checks that the skipped files are unchanged.
            assert ran.tasks <= max(read, 1), "a task with nothing to read"
        assert ran.tasks > 0 or read == 0
