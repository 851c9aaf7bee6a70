"""A fixed part of what ``python -m tests.connectors.random_tables delta`` compares."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connectors.delta_tables import one_round
from tests.connectors.pairs import Counts

pytestmark = pytest.mark.slow
SEEDS, PARTS = (3, 5), 6


def test_random_tables_have_their_rows(table_spark: SparkSession, tmp_path: Path) -> None:
    total = Counts()
    for seed in SEEDS:
        for counts in islice(one_round(table_spark, tmp_path, seed), PARTS):
            total += counts
    assert not total.differences, "\n".join(total.differences)
    assert total.statements > 0
    assert total.pairs > 40
    assert total.pruned >= total.pairs / 2, total
