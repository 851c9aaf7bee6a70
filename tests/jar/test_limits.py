"""A file whose footer exceeds the planner's limits is read whole by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support import files
from tests.support.scenarios import Readers, run

IDS = [i * 7919 % 1009 for i in range(1009)]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two files with equal rows. The second has far more key-value metadata than any real file."""
    pairs = {f"key {i}": "x" for i in range(60_000)}
    files.write(tmp_path / "t" / "a.parquet", {"id": IDS}, ["id"], rows_per_group=100)
    table = pa.table({"id": IDS}).replace_schema_metadata(pairs)
    files.write(tmp_path / "t" / "b.parquet", table, ["id"], rows_per_group=100)
    return tmp_path / "t"


def test_a_huge_footer_is_read_whole_and_others_pruned(readers: Readers, lake: Path) -> None:
    ran = run(readers.jar(lake).where("id = 7"))
    assert ran.rows == ["(7,)", "(7,)"]
    assert (ran.plan.planned, ran.plan.total, ran.plan.kept, ran.plan.whole_files) == (True, 11, 1, 1)


def test_without_the_jar_a_huge_footer_is_an_error(jar_spark: SparkSession, lake: Path) -> None:
    for ignore in ("false", "true"):
        reader = jar_spark.read.format("bloomparquet_python").option("ignoreCorruptFiles", ignore).schema("id BIGINT")
        with pytest.raises(Exception, match=r"b\.parquet: the footer .* more than 65,540 values"):
            reader.option("where", "id = 7").load(str(lake)).collect()
