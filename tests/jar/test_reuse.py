"""Several queries over one load: each scan is planned by its own predicate only."""

from __future__ import annotations

from collections import Counter
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


@pytest.fixture
def frame(readers: Readers, data: str, adaptive: None) -> DataFrame:
    return readers.jar(data)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def kept(frame: DataFrame) -> list[int]:
    return [plan.kept if plan.planned else plan.total for plan in last_plan(frame)]


def test_filtered_and_unfiltered_queries_of_one_load_differ(frame: DataFrame) -> None:
    one, two = frame.where("id = 1"), frame.where("id IN (2, 3)")
    assert one.count() == 1
    assert frame.count() == 4
    assert (ids(two), ids(frame), ids(one)) == ([2, 3], [1, 2, 3, 4], [1])
    assert (kept(two), kept(one)) == ([2], [1])
    assert not last_plan(frame)[0].planned


def test_each_side_of_a_union_has_its_own_plan(frame: DataFrame) -> None:
    both = frame.where("id = 1").union(frame.where("id IN (3, 4)")).union(frame.where("name = 'n9'"))
    ran = run(both)
    assert ran.rows == ["(1, 'n1')", "(3, 'n3')", "(4, 'n4')"]
    assert Counter(plan.kept for plan in ran.plans) == {0: 1, 1: 1, 2: 1}
    assert ran.scanned == 3
    assert ids(frame.where("id = 2").union(frame)) == [1, 2, 2, 3, 4]


def test_each_side_of_a_join_has_its_own_plan(frame: DataFrame) -> None:
    left, right = frame.where("id >= 3").alias("l"), frame.where("id <= 3").alias("r")
    joined = left.join(right, "id").select("id", "r.name")
    assert run(joined).rows == ["(3, 'n3')"]
    assert all(plan.planned and plan.kept <= 2 for plan in last_plan(joined))
    every = frame.where("id IN (1, 2)").alias("l").join(frame.alias("r"), "id", "right").select("id", "l.name")
    assert run(every).rows == ["(1, 'n1')", "(2, 'n2')", "(3, None)", "(4, None)"]


def test_a_view_used_twice(frame: DataFrame, jar_spark: SparkSession) -> None:
    frame.createOrReplaceTempView("reused")
    query = jar_spark.sql("SELECT id FROM reused WHERE id = 1 UNION ALL SELECT id FROM reused WHERE id = 2")
    assert (ids(query), kept(query)) == ([1, 2], [1, 1])
    assert ids(jar_spark.sql("SELECT id FROM reused WHERE id IN (SELECT id + 1 FROM reused WHERE name = 'n2')")) == [3]
    assert ids(jar_spark.sql("SELECT id FROM reused WHERE id = (SELECT max(id) FROM reused WHERE id < 3)")) == [2]
    assert run(jar_spark.sql("SELECT count(*), sum(id) FROM reused")).rows == ["(4, 10)"]


def test_a_view_of_sql(jar_spark: SparkSession, data: str, adaptive: None) -> None:
    jar_spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW all_of_it USING bloomparquet OPTIONS (path '{data}')")
    jar_spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW some USING bloomparquet OPTIONS (path '{data}', where 'id IN (1, 4)')"
    )
    joined = jar_spark.sql("SELECT s.id FROM some s JOIN all_of_it a ON s.name = a.name WHERE a.id > 1")
    assert ids(joined) == [4]
    assert run(jar_spark.sql("SELECT id FROM some")).scanned == 2
    assert jar_spark.sql("SELECT id FROM all_of_it").count() == 4


def test_a_cached_frame_is_not_pruned_by_later_filters(frame: DataFrame) -> None:
    cached = frame.where("id > 1").cache()
    try:
        assert ids(cached.where("id = 3")) == [3]
        assert ids(cached) == [2, 3, 4]
        assert ids(frame.where("id = 1")) == [1]
        assert ids(frame) == [1, 2, 3, 4]
    finally:
        cached.unpersist()


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


def test_exchanges_of_other_predicates_are_not_reused(frame: DataFrame) -> None:
    left = frame.where("id IN (1, 2)").groupBy("name").count()
    right = frame.where("id IN (2, 3)").groupBy("name").count()
    assert run(left.union(right)).rows == ["('n1', 1)", "('n2', 1)", "('n2', 1)", "('n3', 1)"]
    twice = left.union(left)
    assert run(twice).rows == ["('n1', 1)", "('n1', 1)", "('n2', 1)", "('n2', 1)"]


def test_a_repeated_query_has_the_same_rows_and_plan(frame: DataFrame) -> None:
    query = frame.where("id IN (1, 2)")
    assert [(ids(query), kept(query)) for _ in range(3)] == [([1, 2], [2])] * 3


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
