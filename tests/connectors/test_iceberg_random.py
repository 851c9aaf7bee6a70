"""A fixed part of what ``python -m tests.connectors.random_tables iceberg`` compares."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connectors.iceberg_tables import rounds
from tests.connectors.pairs import Counts
from tests.support import connectors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("iceberg" not in connectors.TABLES, reason="Iceberg has no connector for this Spark"),
]
SEED, PARTS = 1, 30


def test_random_tables_have_their_rows(table_spark: SparkSession, tmp_path: Path) -> None:
    total = sum(islice(rounds(table_spark, tmp_path, SEED), PARTS), Counts())
    assert not total.differences, "\n".join(total.differences)
    assert total.pruned_statements > 0
    assert total.pruned >= total.pairs / 2 > 50, total
