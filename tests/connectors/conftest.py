"""One session for the process, with the connectors of Delta Lake and Iceberg that there are for this PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pyspark_bloomparquet import attach
from tests.connectors.session import application
from tests.support import connectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def table_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the jar attached. Iceberg's catalog is ``lake``, and Delta's is Spark's own.

    Tests change the configuration with `support.spark.conf` only.
    """
    for name in connectors.TABLES or ["delta"]:
        connectors.jars(name)  # or skip
    with application(tmp_path_factory.mktemp("tables")) as session:
        yield attach(session)
