"""Queries over ORC files through the jar: joins, partitions, metadata, streams, settings, metrics and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.orc_spark import OrcReaders, write_stripes
from tests.support.scenarios import scans
from tests.support.spark import conf, rows
from tests.support.spark_log import explained

REFUSALS = (PySparkException, Py4JJavaError)


@pytest.fixture(scope="module")
def readers(jar_spark: SparkSession) -> OrcReaders:
    return OrcReaders(jar_spark)


@pytest.fixture(scope="module")
def lake(readers: OrcReaders, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two partitions of three files with ten stripes of two rows. Statistics of `k` exclude nothing."""
    root = tmp_path_factory.mktemp("orc") / "a b%20c"
    for p in (1, 2):
        frame = readers.spark.range(p * 1000, p * 1000 + 60, 1, 3).selectExpr(
            "id AS n", "xxhash64(id) AS k", "named_struct('x', id, 'y', array(id)) AS st", "concat('s', id) AS s"
        )
        write_stripes(frame, root / f"p={p}", "k,s")
    return str(root)


def key(readers: OrcReaders, n: int) -> int:
    hashed: int = readers.spark.range(n, n + 1).selectExpr("xxhash64(id)").first()[0]  # type: ignore[index]
    return hashed


def test_explain_metrics_and_summary_count_stripes(readers: OrcReaders, lake: str) -> None:
    frame = readers.jar(lake).where(f"k = {key(readers, 2059)} AND n > 1010").select("s")
    assert rows(frame) == [("s2059",)]
    (plan,) = last_plan(frame)
    assert (plan.unit, plan.total, plan.kept, plan.whole_files) == ("stripe", 60, 1, 0)
    by_statistics, by_bloom = plan.skipped["statistics"], plan.skipped["bloom"]
    assert by_statistics + by_bloom == 59
    assert by_statistics >= 5
    assert by_bloom > 5
    assert plan.row_group_counts == (60, 1, by_statistics, by_bloom)
    assert str(plan) == f"1 of 60 stripes kept; {by_statistics} skipped by statistics, {by_bloom} by Bloom filter"
    with conf(readers.spark, {"spark.sql.maxMetadataStringLength": "2000"}):
        text = explained(frame)
    assert f"1 of 60 stripes ({by_statistics} skipped by statistics, {by_bloom} by Bloom filter)" in text
    assert f"k = {key(readers, 2059)}" in text
    (node,) = scans(frame._jdf.queryExecution().executedPlan())
    expected = {"numStripesTotal": 60, "numStripesRead": 1, "numStripesSkippedByStatistics": by_statistics}
    expected |= {"numStripesSkippedByBloomFilter": by_bloom, "numRowGroupsTotal": 60, "numPlanningFailures": 0}
    expected |= {"numRowGroupsExcludedByStatistics": by_statistics, "numRowGroupsExcludedByBloomFilter": by_bloom}
    metrics = {name: node.metrics().apply(name) for name in [*expected, "bloomFilterBytes", "planningTimeMs"]}
    assert {name: int(metrics[name].value()) for name in expected} == expected
    assert int(metrics["bloomFilterBytes"].value()) == plan.bloom_bytes_read > 0
    assert all("stripe" in metrics[name].name().get() for name in metrics if "Stripes" in name)


def test_unsupported_files_are_left_to_spark(readers: OrcReaders, lake: str, tmp_path: Path) -> None:
    write_stripes(readers.spark.range(0, 8, 1, 1), tmp_path / "t", "id")
    (tmp_path / "t" / "no.orc").write_bytes(b"ORC" + b"no file of ORC" * 20)
    frame = readers.jar(tmp_path / "t", "id BIGINT", ignoreCorruptFiles="true").where("id = 5")
    assert rows(frame) == [(5,)]
    (plan,) = last_plan(frame)
    assert (plan.total, plan.kept, plan.whole_files) == (4, 1, 1)
    with pytest.raises(REFUSALS):
        readers.jar(tmp_path / "t", "id BIGINT").where("id = 5").collect()
    frame = readers.jar(tmp_path / "t", "id BIGINT", planning="off", ignoreCorruptFiles="true").where("id = 5")
    assert rows(frame) == [(5,)]
    assert str(last_plan(frame)[0]) == "not planned: planning is off"


def test_the_zone_of_remote_executors_comes_from_their_options(readers: OrcReaders) -> None:
    jvm: Any = readers.spark._jvm
    loader = readers.spark._jsparkSession.sharedState().jarClassLoader()
    settings = jvm.org.apache.spark.SparkConf
    kinds = readers.spark.sparkContext._gateway.new_array(jvm.java.lang.Class, 1)  # type: ignore[union-attr]
    kinds[0] = settings(False).getClass()
    method = loader.loadClass("io.bloomparquet.spark.planner.ReaderZone").getDeclaredMethod("ofExecutors", kinds)
    method.setAccessible(True)

    def zone(**options: str) -> str | None:
        given = settings(False)
        for name, value in options.items():
            given.set(f"spark.executor.{name}JavaOptions", value)
        values = readers.spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]
        values[0] = given
        executor_zone = method.invoke(None, values)
        return None if executor_zone is None else executor_zone.getID()

    assert zone() is None
    assert zone(extra="-Xmx1g -Dmy.user.timezone=UTC") is None
    assert zone(default="-Duser.timezone=UTC", extra="-Duser.timezone=Asia/Tokyo -ea") == "Asia/Tokyo"
