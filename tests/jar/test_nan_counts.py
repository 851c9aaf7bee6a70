"""Spark's rows of files with NaN counts and bounds in the total order of IEEE 754."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import nan_counts
from tests.support.nan_counts import IEEE_754_TOTAL_ORDER, TYPE_ORDER
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

NAN = float("nan")
GROUPS: list[list[float | None]] = [[1.0, 2.0], [1.0, NAN], [NAN, NAN], [7.0, 7.0], [-0.0, 0.0], [None, 9.0]]
KEPT = [("x > 5", 4), ("x >= 7", 4), ("x <> 7", 5), ("x NOT IN (7, 8)", 5), ("x = double('NaN')", 2), ("x < 0", 1)]


@pytest.mark.parametrize("order", [TYPE_ORDER, IEEE_754_TOTAL_ORDER])
def test_rows_equal_sparks_and_groups_without_nan_are_skipped(
    jar_spark: SparkSession, tmp_path: Path, order: int
) -> None:
    path = nan_counts.write(tmp_path / "x.parquet", GROUPS, pa.float64(), order)
    for where, kept in KEPT:
        with conf(jar_spark, UNPRUNED):
            expected = texts(jar_spark.read.parquet(path).where(where).collect())
        with conf(jar_spark, PRUNED):
            frame = jar_spark.read.parquet(path).where(where)
            assert texts(frame.collect()) == expected, where
            assert last_plan(frame)[0].kept == kept, where
