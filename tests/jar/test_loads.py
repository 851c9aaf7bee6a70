"""A load by the jar's data sources is a DataSource V2 relation that the optimizer replaces by Spark's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.scenarios import read
from tests.support.spark import conf, rows

RULE = "io.bloomparquet.spark.load.LoadRule"
EXCLUDED = "spark.sql.optimizer.excludedRules"


@pytest.fixture(params=["bloomparquet", "bloomorc"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(jar_spark: SparkSession, source: str, tmp_path: Path) -> str:
    frame = jar_spark.range(0, 90, 1, 3).selectExpr("id", "id % 2 AS p")
    frame.write.format(source).option("bloomColumns", "id").partitionBy("p").save(str(tmp_path / "t"))
    return str(tmp_path / "t")


def leaf(plan: Any) -> str:
    return str(plan.collectLeaves().apply(0).getClass().getSimpleName())


@pytest.mark.parametrize("where", [None, "id BETWEEN 7 AND 8"])
def test_a_load_is_planned_like_sparks_own_files(
    jar_spark: SparkSession, path: str, source: str, where: str | None
) -> None:
    options = {} if where is None else {"where": where}
    loaded = read(jar_spark, source, path, **options).where("id > 7 AND p = 0").select("id")
    query = loaded._jdf.queryExecution()
    assert (leaf(query.analyzed()), leaf(query.optimizedPlan())) == ("DataSourceV2Relation", "LogicalRelation")
    assert rows(loaded) == [(8,)] if where else len(rows(loaded)) == 41
    assert "PrunedFileScan" in query.executedPlan().toString()
    (plan,) = last_plan(loaded)
    assert (plan.planned, plan.total) == (True, 3)


def test_a_load_is_an_error_without_the_rule(jar_spark: SparkSession, path: str, source: str) -> None:
    """Spark's V2 scan of the files would return all rows of a load with ``where``."""
    loads = [read(jar_spark, source, path), read(jar_spark, source, path, where="id = 7")]
    with conf(jar_spark, {EXCLUDED: RULE}):
        for load in loads:
            with pytest.raises(Exception, match=f"expected its rule {RULE} to run"):
                load.where("p = 1").collect()
    assert [row["id"] for row in loads[1].collect()] == [7]


def test_metadata_of_a_load_is_sparks(jar_spark: SparkSession, path: str, source: str, tmp_path: Path) -> None:
    plain = source.removeprefix("bloom")
    names = ["id", "p", *(f"_metadata.{name}" for name in ("file_path", "file_size", "file_modification_time"))]
    bound = read(jar_spark, source, path, where="id BETWEEN 7 AND 50").where("_metadata.file_name LIKE 'part-00001%'")
    expected = read(jar_spark, plain, path).where("id BETWEEN 7 AND 50 AND _metadata.file_name LIKE 'part-00001%'")
    assert rows(bound.select(*names)) == rows(expected.select(*names)) != []
    assert bound.select(*names).schema == expected.select(*names).schema
    if plain == "parquet":
        looked_up = read(jar_spark, source, path).where("id = 47").select("_metadata.*")
        (row,) = looked_up.collect()
        assert (row.row_index, last_plan(looked_up)[0].kept) == (8, 1)
        assert 4 <= row.file_block_start < row.file_block_start + row.file_block_length <= row.file_size
    jar_spark.range(3).selectExpr("id", "id * 2 AS _metadata").write.format(plain).save(str(tmp_path / "own"))
    assert rows(read(jar_spark, source, tmp_path / "own").select("_metadata", "id")) == [(0, 0), (2, 1), (4, 2)]
