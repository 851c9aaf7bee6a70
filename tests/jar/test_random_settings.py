"""Random SQL under random Spark settings: rows equal those of Spark's own readers.

`BLOOMPARQUET_PAIRS` is how many pairs to run, `BLOOMPARQUET_SEED` chooses others, `BLOOMPARQUET_PAIR` runs one again.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.differential.pairs import PER_DATA_SET, attack

pytestmark = pytest.mark.slow

PAIRS = int(os.environ.get("BLOOMPARQUET_PAIRS", "48"))


def test_rows_equal_sparks_under_random_settings(jar_spark: SparkSession, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    again = os.environ.get("BLOOMPARQUET_PAIR")
    if again:
        seed, number, only = again.split(":")
        data_sets = range(int(number), int(number) + 1)
        differences = list(attack(jar_spark, seed, data_sets, tmp_path, tally, int(only)))
    else:
        seed = os.environ.get("BLOOMPARQUET_SEED", "1")
        differences = list(attack(jar_spark, seed, range(-(-PAIRS // PER_DATA_SET)), tmp_path, tally))
    print(f"\n{dict(tally)}")
    assert not differences, f"{len(differences)} differences\n\n" + "\n".join(differences)
    if not again:
        assert tally["pairs"] >= PAIRS
        assert tally["with rows"] > PAIRS / 5
        assert tally["statistics"] > 0
        assert tally["bloom"] > 0
        assert tally["parquet"] + tally["orc"] > PAIRS / 6, "pairs through Spark's own source"
