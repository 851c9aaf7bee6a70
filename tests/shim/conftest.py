"""A session with the jar, and the Python data source under a name of its own beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("tests.support.scenarios")  # the mechanism asserts, too

from tests.support.scenarios import PYTHON, Readers  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def shim(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """For the rest of this process, ``bloomparquet`` is the jar's."""
    from pyspark_bloomparquet import DefaultSource, attach

    class PythonSource(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return PYTHON

    spark.dataSource.register(PythonSource)
    spark.conf.set("spark.datasource.bloomparquet.cacheDirectory", str(tmp_path_factory.mktemp("cache")))
    return attach(spark)


@pytest.fixture(scope="session")
def readers(shim: SparkSession) -> Readers:
    return Readers(shim)
