"""Settings and sessions of Spark's own scans: the reader goes by the session that made a relation."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.plain import NODE, compare, executed
from tests.support.scenarios import PRUNED, UNPRUNED
from tests.support.spark import conf, rows


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four row groups; a third of the ids is in each."""
    folder = tmp_path_factory.mktemp("sessions")
    files.write(folder / "t.parquet", {"ID": list(range(400))}, ["ID"], rows_per_group=100)
    return str(folder)


@pytest.fixture
def other(jar_spark: SparkSession) -> SparkSession:
    session = jar_spark.newSession()
    session.conf.set("spark.bloomparquet.transparent", "true")
    return session


def test_a_view_of_a_case_sensitive_session(jar_spark: SparkSession, other: SparkSession, path: str) -> None:
    """The reader of the view finds no column `id` in the file, so all values are NULL in every session."""
    with conf(jar_spark, {"spark.sql.caseSensitive": "true"}):
        jar_spark.read.schema("id BIGINT").parquet(path).createOrReplaceGlobalTempView("of_another_session")
        try:
            query = "SELECT count(*) FROM global_temp.of_another_session WHERE id IS NULL OR id = 777"
            assert rows(other.sql(query)) == [(400,)]
        finally:
            jar_spark.catalog.dropGlobalTempView("of_another_session")


def test_clones_and_new_sessions_go_by_their_own_settings(jar_spark: SparkSession, path: str) -> None:
    with conf(jar_spark, PRUNED):
        clone = SparkSession(jar_spark.sparkContext, jar_spark._jsparkSession.cloneSession())
        for session in (clone, jar_spark.newSession()):
            for setting, pruned in (("false", False), ("true", True)):
                session.conf.set("spark.bloomparquet.transparent", setting)
                assert (NODE in executed(session.read.parquet(path).where("ID = 250"))) is pruned
                assert NODE in executed(jar_spark.read.parquet(path).where("ID = 250"))


def test_a_wrong_setting_fails_no_plain_query(jar_spark: SparkSession, path: str) -> None:
    with conf(jar_spark, {**PRUNED, "spark.datasource.bloomparquet.planing": "off"}):
        frame = jar_spark.read.parquet(path).where("id = 250")
        assert rows(frame) == [(250,)]
        assert "planing" in str(last_plan(frame)[0].reason)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("phase", ["optimizedPlan", "executedPlan"])
def test_a_join_that_is_planned_before_dynamic_pruning_is_off(
    jar_spark: SparkSession, path: str, adaptive: str, phase: str
) -> None:
    keys = "SELECT /*+ BROADCAST(k) */ t.id FROM t JOIN (VALUES (250L), (251L)) k(id) ON t.id = k.id WHERE k.id > 0"
    jar_spark.read.parquet(path).createOrReplaceTempView("t")
    with conf(jar_spark, {**PRUNED, "spark.sql.adaptive.enabled": adaptive}):
        frame = jar_spark.sql(keys)
        assert "dynamicpruning" in str(frame._jdf.queryExecution().optimizedPlan().toString())
        getattr(frame._jdf.queryExecution(), phase)()
        with conf(jar_spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
            assert rows(frame) == [(250,), (251,)]
    jar_spark.catalog.dropTempView("t")


@pytest.mark.usefixtures("compiled")
def test_a_query_that_is_planned_before_it_reads_batches(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Spark chose rows or batches when it planned the query. For batches it refuses the other way."""
    vectorized = "spark.sql.parquet.enableVectorizedReader"
    jar_spark.range(0, 40, 1, 4).write.parquet(str(tmp_path / "t"))
    for setting in (UNPRUNED, PRUNED):
        with conf(jar_spark, {**setting, vectorized: "false"}):
            frame = jar_spark.read.parquet(str(tmp_path / "t")).where("id = 25")
            assert (NODE in executed(frame)) == (setting == PRUNED)
        with conf(jar_spark, {**setting, vectorized: "true"}):
            assert rows(frame) == [(25,)]


@pytest.mark.parametrize(
    ("source", "phase"), [("parquet", "optimizedPlan"), ("parquet", "executedPlan"), ("bloomparquet", "executedPlan")]
)
def test_a_query_that_is_planned_before_names_change(
    jar_spark: SparkSession, path: str, source: str, phase: str
) -> None:
    """The file has `ID`. Spark makes its readers when it reads."""
    frames = {}
    for sensitive in ("true", "false"):
        with conf(jar_spark, {**PRUNED, "spark.sql.caseSensitive": sensitive}):
            frame = jar_spark.read.schema("id BIGINT").format(source).load(path)
            for where in ("id = 250", "id IS NULL OR id = 777"):
                frames[sensitive, where] = frame.where(where)
                getattr(frames[sensitive, where]._jdf.queryExecution(), phase)()
    for sensitive, found in (("true", [0, 400]), ("false", [1, 0])):
        other = "false" if sensitive == "true" else "true"
        with conf(jar_spark, {**PRUNED, "spark.sql.caseSensitive": sensitive}):
            assert [len(rows(frames[other, where])) for where in ("id = 250", "id IS NULL OR id = 777")] == found


@pytest.mark.usefixtures("compiled")
def test_fields_of_variants_in_files_of_two_writers(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Files with and without Parquet's annotation of a VARIANT. Spark 4.1 and later shred both."""
    path, annotated = str(tmp_path / "t"), "spark.sql.parquet.variant.annotateLogicalType.enabled"
    frame = jar_spark.range(100).selectExpr("id", "parse_json(concat('{\"x\":', id, '}')) AS v")
    for setting, part in (("false", "id < 50"), ("true", "id >= 50")):
        with conf(jar_spark, {annotated: setting}):
            frame.where(part).write.mode("append").parquet(path)
    shreds = jar_spark.version >= "4.1"
    for where, count, skipped in (("= 5", 1, 1), ("= 77", 1, 1), ("< 60", 60, 0)):
        query = f"variant_get(v, '$.x', 'int') {where}"
        pruned = compare(jar_spark, lambda query=query: jar_spark.read.parquet(path).where(query).select("id"))
        assert (len(pruned.rows), pruned.skipped > 0) == (count, bool(skipped and shreds))
