"""Random SQL under random Spark settings, by every way in: rows equal those of plain Spark; see `make random-sql`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.differential.pairs import JAR, PLAIN, PYTHON_WHERE, READ_TABLE, WHERE
from tests.differential.random_run import differences, summary

pytestmark = pytest.mark.slow

DATA_SET = 32


def test_rows_equal_sparks_under_random_settings(jar_spark: SparkSession, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    difference = next(differences(jar_spark, "1", iter([DATA_SET]), tmp_path, tally), None)
    print(f"\n{summary(tally)}")
    assert difference is None, str(difference)
    assert tally["pairs"] > 25
    assert tally["with rows"] > tally["pairs"] / 4
    assert tally["statistics"] > tally["row groups"] / 10
    assert tally["bloom"] > tally["row groups"] / 400
    for way in (PLAIN, JAR, READ_TABLE):
        assert tally[f"{way}: scans that skipped"] > tally[way] / 8, way
    assert tally[WHERE] > 2
    assert tally[PYTHON_WHERE] > 2
