"""Several queries over loads with the option ``where``: each scan is planned by its own predicate only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import ORACLE, PYTHON, Readers, read, run
from tests.support.spark import conf


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files of one row each; both columns have filters."""
    root = tmp_path_factory.mktemp("reuse")
    for i in (1, 2, 3, 4):
        files.write(root / f"{i}.parquet", {"id": [i], "name": [f"n{i}"]}, ["id", "name"])
    return str(root)


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not-adaptive"])
def adaptive(request: pytest.FixtureRequest, jar_spark: SparkSession) -> Iterator[None]:
    with conf(jar_spark, {"spark.sql.adaptive.enabled": request.param}):
        yield


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def kept(frame: DataFrame) -> list[int]:
    return [plan.kept if plan.planned else plan.total for plan in last_plan(frame)]


def test_a_view_of_sql(jar_spark: SparkSession, data: str, adaptive: None) -> None:
    jar_spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW all_of_it USING bloomparquet OPTIONS (path '{data}')")
    jar_spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW some USING bloomparquet OPTIONS (path '{data}', where 'id IN (1, 4)')"
    )
    joined = jar_spark.sql("SELECT s.id FROM some s JOIN all_of_it a ON s.name = a.name WHERE a.id > 1")
    assert ids(joined) == [4]
    assert run(jar_spark.sql("SELECT id FROM some")).scanned == 2
    assert jar_spark.sql("SELECT id FROM all_of_it").count() == 4


def test_queries_over_a_load_with_where(readers: Readers, data: str, adaptive: None) -> None:
    bound = readers.jar(data, where="id IN (1, 2, 3)")
    one = bound.where("id = 1")
    assert (ids(one), kept(one)) == ([1], [1])
    assert bound.count() == 3
    assert ids(bound.where("id = 1").union(bound.where("id >= 3"))) == [1, 3]
    assert ids(bound.where("id = 4")) == []
    assert ids(bound.join(bound.where("name = 'n2'").select("id"), "id")) == [2]
    assert run(bound.selectExpr("count(*)", "min(name)", "max(id)")).rows == ["(3, 'n1', 3)"]
    assert ids(bound) == [1, 2, 3]


def test_two_sessions_share_no_views_and_predicates(readers: Readers, data: str) -> None:
    other = readers.spark.newSession()
    readers.jar(data, where="id = 1").createOrReplaceTempView("mine")
    Readers(other).jar(data, where="id = 2").createOrReplaceTempView("mine")
    assert run(readers.spark.sql("SELECT id FROM mine")).rows == ["(1,)"]
    assert run(other.sql("SELECT id FROM mine")).rows == ["(2,)"]


def test_three_readers_in_one_query(readers: Readers, data: str, adaptive: None) -> None:
    python = read(readers.spark, PYTHON, data, where="id < 4")
    oracle = read(readers.spark, ORACLE, data).where("id > 1")
    ours = readers.jar(data).where("name IN ('n2', 'n3', 'n9')")
    assert ids(python.join(oracle, ["id", "name"]).join(ours, ["id", "name"])) == [2, 3]
