"""Fixtures: a session with the jar, and the Python data source under another name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import files, python_source
from tests.support.scenarios import PRUNED, Readers
from tests.support.spark import application_conf, conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def jar_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the jar attached, which lasts for the rest of the process.

    Spark's own scans are the oracle, so they are not pruned; see `transparent`.
    """
    from pyspark_bloomparquet import attach

    python_source.register(spark)
    with application_conf(spark, {"spark.bloomparquet.cacheDirectory": str(tmp_path_factory.mktemp("cache"))}):
        yield attach(spark, transparent=False)


@pytest.fixture
def transparent(jar_spark: SparkSession) -> Iterator[None]:
    """Spark's own scans are pruned, as they are by default."""
    with conf(jar_spark, PRUNED):
        yield


@pytest.fixture(scope="session")
def readers(jar_spark: SparkSession) -> Readers:
    return Readers(jar_spark)


@pytest.fixture(scope="module")
def four_files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files of one row group each. Only filters can tell them apart."""
    root = tmp_path_factory.mktemp("harm")
    for i in range(4):
        files.write(root / f"{i}.parquet", {"id": [i + 4 * (row * 7 % 20) for row in range(20)]}, ["id"], fpp=1e-4)
    return str(root)
