"""Fixtures: a session with the jar, the Python data source under another name, and a planner without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import connectors, credentials, files, python_source, s3a, vault
from tests.support.hadoop import Connectors
from tests.support.java import compile_jar
from tests.support.planner_process import Planner, started
from tests.support.s3a import Lake
from tests.support.scenarios import PRUNED, Readers
from tests.support.spark import COMPILED, application_conf, conf

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


@pytest.fixture(scope="session")
def _connectors(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Connectors:
    jars = connectors.jars("s3a")
    classes = {"OurProvider": credentials.JAVA, "Vault": vault.JAVA}
    own = compile_jar(tmp_path_factory.mktemp("connectors"), "test.jar", classes, jars)
    return Connectors(jar_spark, [*jars, own, *connectors.jars("gcs")])


@pytest.fixture(scope="module")
def s3a_lake(
    jar_spark: SparkSession, _connectors: Connectors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """Tables in buckets. Spark has the connectors for S3 and Google Cloud Storage, and for ``vault://``."""
    with _connectors, s3a.lake(jar_spark, tmp_path_factory.mktemp("s3a")) as made:
        yield made


@pytest.fixture
def lake(s3a_lake: Lake) -> Iterator[Lake]:
    """The buckets of `s3a_lake`. Their server has its faults and its list of keys for one test."""
    yield s3a_lake
    s3a_lake.server.fault = lambda method, path: None
    s3a_lake.server.allowed = None


@pytest.fixture
def transparent(jar_spark: SparkSession) -> Iterator[None]:
    """Spark's own scans are pruned, as they are by default."""
    with conf(jar_spark, PRUNED):
        yield


@pytest.fixture
def compiled(jar_spark: SparkSession) -> Iterator[None]:
    """Queries are compiled, as they are by default: whole-stage code reads the scans in another way.

    Spark cannot interpret casts of VARIANT values and the listing of a catalog.
    """
    with conf(jar_spark, COMPILED):
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


@pytest.fixture(scope="module")
def five_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five files of two row groups each, which share no id. Statistics cannot tell them apart."""
    root = tmp_path_factory.mktemp("worker")
    paths = []
    for i in range(5):
        ids = [i + 5 * (row * 7 % 40) for row in range(40)]
        path = files.write(root / f"{i}.parquet", {"id": ids}, {"id": {"ndv": 20, "fpp": 1e-4}}, rows_per_group=20)
        paths.append(Path(path))
    return paths


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    with started(tmp_path_factory.mktemp("cache")) as process:
        yield process
