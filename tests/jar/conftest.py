"""Fixtures: a session with the jar, and the Python data source under another name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("tests.support.scenarios")  # its helpers assert

from tests.support.scenarios import PYTHON, Readers  # noqa: E402
from tests.support.spark import application_conf  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def jar_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the jar attached, which lasts for the rest of the process."""
    from pyspark_bloomparquet import DefaultSource, attach

    class PythonSource(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return PYTHON

    spark.dataSource.register(PythonSource)
    with application_conf(spark, {"spark.bloomparquet.cacheDirectory": str(tmp_path_factory.mktemp("cache"))}):
        yield attach(spark)


@pytest.fixture(scope="session")
def readers(jar_spark: SparkSession) -> Readers:
    return Readers(jar_spark)
