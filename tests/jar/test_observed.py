"""The reports about Spark's own scans: ``last_plan``, EXPLAIN, and the metrics of Spark's UI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support import files, plain
from tests.support.java import compile_jar
from tests.support.spark import conf, rows
from tests.support.spark_log import explained

pytestmark = pytest.mark.usefixtures("transparent")

FILES = 8
SIX = ("id IS NOT NULL AND id = 6", FILES, 1, 4, 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files of one row group. Four have ids below 1000, so statistics exclude the others."""
    root = tmp_path_factory.mktemp("observed")
    for i in range(FILES):
        ids = [(i >= 4) * 1000 + i % 4 + 4 * (row * 7 % 100) for row in range(100)]
        files.write(root / f"{i}.parquet", {"id": ids, "s": [f"s{i}" for i in ids]}, {"id": {"ndv": 100, "fpp": 1e-4}})
    return str(root)


@pytest.fixture
def t(jar_spark: SparkSession, path: str) -> Iterator[DataFrame]:
    frame = jar_spark.read.parquet(path)
    frame.createOrReplaceTempView("t")
    yield frame
    jar_spark.catalog.dropTempView("t")


def counts(plan: ScanSummary) -> tuple[str | None, int, int, int, int]:
    return plan.where, plan.total, plan.kept, plan.skipped["statistics"], plan.skipped["bloom"]


def planned(frame: Any) -> list[tuple[str | None, int, int, int, int]]:
    plans = last_plan(frame)
    assert all(plan.planned for plan in plans), plans
    return [counts(plan) for plan in plans]


# ---- last_plan


def test_the_plan_is_the_same_before_and_after_the_query(t: DataFrame, path: str) -> None:
    frame = t.where("id = 6").select("s")
    before = last_plan(frame)
    assert rows(frame) == [("s6",)]
    (plan,) = last_plan(frame)
    assert [counts(each) for each in before] == [counts(plan)] == [SIX]
    assert plan.paths == (f"file:{path}",)
    (scan,) = plain.nodes(frame._jdf.queryExecution().executedPlan(), "Scan parquet")
    assert scan.metrics().apply("numFiles").value() == FILES, "Spark's own metrics are reported when the query runs"


SEVEN, NONE = ("id IS NOT NULL AND id = 7", *SIX[1:]), ("id IS NOT NULL AND id = -6", FILES, 0, FILES, 0)
SIXES = "(SELECT s FROM t WHERE id = 6 GROUP BY s)"
QUERIES: dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "SELECT s, (SELECT max(s) FROM t WHERE id = 6) m FROM t WHERE id = 7": ([("s7", "s6")], [SEVEN, SIX]),
    "SELECT s FROM t WHERE id = (SELECT max(id) FROM t WHERE id = 6)": ([("s6",)], [SIX, SIX]),
    f"SELECT /*+ MERGE(a) */ a.s FROM {SIXES} a JOIN {SIXES} b ON a.s = b.s": ([("s6",)], [SIX]),
    f"SELECT /*+ MERGE(a) */ t.s FROM {SIXES} a JOIN t ON a.s = t.s WHERE t.id = -6": ([], [NONE, SIX]),
}


@pytest.mark.parametrize("query", QUERIES)
def test_every_scan_of_a_query_is_listed(jar_spark: SparkSession, t: DataFrame, query: str) -> None:
    expected, plans = QUERIES[query]
    frame = jar_spark.sql(query)
    assert rows(frame) == expected
    shown = [(str(where).replace(" AND s IS NOT NULL", ""), *rest) for where, *rest in planned(frame)]
    assert sorted(shown) == sorted(plans)


def test_a_scan_that_waits_for_a_subquery_says_so(jar_spark: SparkSession, t: DataFrame) -> None:
    frame = jar_spark.sql("SELECT s FROM t WHERE id = (SELECT max(id) FROM t WHERE id = 6)")
    reasons = [plan.reason for plan in last_plan(frame)]
    assert sorted(map(str, reasons)) == [
        "None",
        "the query has not run yet, and a subquery or the keys of a join decide what is read",
    ]
    assert rows(frame) == [("s6",)]
    assert [plan.kept for plan in last_plan(frame)] == [1, 1]


def test_a_stream_has_the_plans_of_its_latest_batch(jar_spark: SparkSession, path: str) -> None:
    stream = jar_spark.readStream.schema("id BIGINT, s STRING").parquet(path).where("id = 6")
    query = stream.writeStream.format("memory").queryName("observed").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert planned(query) == [SIX]
    assert rows(jar_spark.table("observed")) == [(6, "s6")]


def test_a_stream_without_a_micro_batch_is_an_error(jar_spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    stream = jar_spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "empty"))
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    with pytest.raises(UnsupportedError, match="no micro batch"):
        last_plan(query)


def reason(frame: DataFrame) -> str | None:
    (plan,) = last_plan(frame)
    assert (plan.planned, plan.where, plan.total) == (False, None, 0)
    assert len(plan.paths) == 1
    return plan.reason


def test_scans_that_are_not_pruned_have_a_reason(jar_spark: SparkSession, t: DataFrame, path: str) -> None:
    assert reason(t.select("id")) == "the query has no filter that can skip row groups"
    with conf(jar_spark, {"spark.bloomparquet.transparent": "false"}):
        frame = t.where("id = 6")
        assert reason(frame) == "spark.bloomparquet.transparent is false"
    assert (
        reason(frame) == "the query was planned before attach(spark), or while spark.bloomparquet.transparent was false"
    )
    with conf(jar_spark, {"spark.sql.sources.useV1SourceList": "orc"}):
        v2 = jar_spark.read.parquet(path).where("id = 6")
        assert "useV1SourceList does not name parquet" in str(reason(v2))
    with conf(jar_spark, {"spark.datasource.bloomparquet.planning": "off"}):
        (plan,) = last_plan(t.where("id = 6"))
        assert (plan.planned, plan.reason) == (False, "planning is off")


def test_scans_of_orc_are_counted_in_stripes(jar_spark: SparkSession, tmp_path: Path) -> None:
    jar_spark.range(0, 100, 1, 2).write.orc(str(tmp_path / "orc"))
    frame = jar_spark.read.orc(str(tmp_path / "orc"))
    (plan,) = last_plan(frame.where("id = 6"))
    assert (plan.unit, plan.total, plan.kept) == ("stripe", 2, 1)
    (plan,) = last_plan(frame)
    assert (plan.unit, plan.reason) == ("stripe", "the query has no filter that can skip stripes")


# ---- EXPLAIN


def test_explain_names_what_was_asked_and_kept(t: DataFrame) -> None:
    frame = t.where("id = 6 OR (id = 7 AND trim(s) = 'X')").groupBy("s").count()
    for mode in ("simple", "formatted"):
        text = explained(frame, mode)
        assert "id = 6 OR id = 7" in text
        assert "not planned yet" in text
    assert rows(frame) == [("s6", 1)]
    kept = "2 of 8 row groups (4 skipped by statistics, 2 by Bloom filter)"
    unused = "trim(s) = 'X' (a function around the column)"
    assert f"PrunedFileScan [id = 6 OR id = 7; not used: {unused}; {kept}]" in explained(frame, "simple")
    shown = f"PrunedFileScan\nAsked: id = 6 OR id = 7\nNot used: {unused}\nKept: {kept}\n"
    assert shown in explained(frame, "formatted")


def test_explain_shortens_long_lists(t: DataFrame) -> None:
    frame = t.where(f"id IN ({', '.join(map(str, range(500)))})")
    assert "495 more" in explained(frame, "formatted")


# ---- metrics


def shown(spark: SparkSession, action: Callable[[], Any]) -> list[dict[str, str]]:
    """The metrics of our nodes in Spark's UI, for each query that `action` ran."""
    store: Any = spark._jsparkSession.sharedState().statusStore()
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    before = executions(store)  # the store forgets the oldest of many
    action()
    context.listenerBus().waitUntilEmpty()
    scans = []
    for number in sorted(executions(store) - before):
        values = store.executionMetrics(number)
        graph = store.planGraph(number).allNodes()
        for node in (graph.apply(j) for j in range(graph.size())):
            if node.name() == "PrunedFileScan":
                metrics = (node.metrics().apply(j) for j in range(node.metrics().size()))
                pairs = ((each.name(), values.get(each.accumulatorId())) for each in metrics)
                scans.append({name: value.get() for name, value in pairs if value.isDefined()})
    return scans


def executions(store: Any) -> set[int]:
    listed = store.executionsList()
    return {listed.apply(i).executionId() for i in range(listed.size())}


def numbers(scan: dict[str, str]) -> tuple[str, ...]:
    names = ("in the files of the scan", "kept", "skipped by statistics", "skipped by Bloom filter")
    return tuple(scan[f"row groups {name}"] for name in names)


ONE = ("8", "1", "4", "3")


def test_a_plan_that_is_used_twice_is_counted_once(jar_spark: SparkSession, t: DataFrame) -> None:
    frame = t.where("id = 6").select("s")
    (scan,) = shown(jar_spark, frame.collect)
    assert numbers(scan) == ONE
    assert scan["failed plans (everything was read)"] == "0"
    assert scan["files read whole, as the planner could not read them"] == "0"
    assert shown(jar_spark, frame.collect) == [{}]  # Spark keeps the RDD, and shows no numFiles either
    assert planned(frame) == [SIX]


def test_a_plan_that_cannot_be_used_counts_nothing(jar_spark: SparkSession, t: DataFrame) -> None:
    """With this setting Spark splits a file into no parts, and returns no row. So its partitions do not show what to
    prune, and everything is left to it."""
    with conf(jar_spark, {"spark.sql.files.maxPartitionBytes": "-1"}):
        frame = t.where("id = 6").select("s")
        (scan,) = shown(jar_spark, frame.collect)
        assert rows(frame) == rows(t) == []
    assert scan == {}
    assert [plan.reason for plan in last_plan(frame)] == ["Spark reads the files in another way than usual"]


MONITOR = """
package io.bloomparquet.test;

public final class Monitor {
  public boolean hasMetrics(org.apache.spark.sql.execution.SparkPlan node) throws InterruptedException {
    Thread other = new Thread(node::metrics);
    other.setDaemon(true);
    synchronized (node) {
      other.start();
      long end = System.nanoTime() + 30_000_000_000L;
      while (other.isAlive() && System.nanoTime() < end) {
        Thread.sleep(5);
      }
      return !other.isAlive();
    }
  }
}
"""


def test_metrics_need_no_monitor_of_the_node(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Spark holds a node's monitor while it waits for subqueries, whose threads ask for the metrics of all nodes."""
    path = files.write(tmp_path / "t.parquet", {"id": [1, 2, 3]}, ["id"])
    jar = compile_jar(tmp_path / "classes", "monitor.jar", {"Monitor": MONITOR})
    jar_spark.sql(f"ADD JAR '{jar}'")
    loader = jar_spark._jsparkSession.sharedState().jarClassLoader()
    monitor = loader.loadClass("io.bloomparquet.test.Monitor").newInstance()
    (node,) = plain.nodes(jar_spark.read.parquet(path).where("id = 2")._jdf.queryExecution().executedPlan())
    assert monitor.hasMetrics(node)
