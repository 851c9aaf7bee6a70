"""One session for the process, with the connectors of Delta Lake and Iceberg that there are for this PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.connectors.session import start_with_tables
from tests.support import connectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def table_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Iceberg's catalog is ``lake``, and Delta's is Spark's own. Tests change the configuration with
    `support.spark.conf` only."""
    for name in connectors.TABLES or ["delta"]:
        connectors.jars(name)  # or skip
    session = start_with_tables(tmp_path_factory.mktemp("tables"))
    yield session
    session.stop()
