"""Applications with the connectors of Delta Lake and Iceberg, one after the other in the JVM of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support import connectors
from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED, forget_sources, remember_names, start

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
HAS_COMET = pyspark.__version__.startswith("4.1.")


def connector_settings(home: Path) -> dict[str, str]:
    """Iceberg's catalog ``lake`` is a folder below `home`; Delta's catalog is ``spark_catalog``."""
    settings = {
        "spark.jars": ",".join(str(jar) for name in connectors.TABLES for jar in connectors.jars(name)),
        "spark.sql.extensions": ",".join(EXTENSIONS[name] for name in connectors.TABLES),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.retainedStages": "100000",  # tests ask how many rows a stage has read
        "spark.bloomparquet.cacheDirectory": str(home / "cache"),
    }
    if "iceberg" in connectors.TABLES:
        settings |= {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(home / "lake"),
        }
    return settings


@contextmanager
def application(home: Path, **settings: str) -> Iterator[SparkSession]:
    """Start an application with the connectors. `settings`: more of them, or others.

    The JVM outlives it, and has the jars of all connectors from its start. It forgets the settings.
    """
    given = {**FOR_SMALL_QUERIES, **INTERPRETED, **connector_settings(home), **settings}
    if SparkContext._gateway is not None:
        del given["spark.jars"]  # an executor would copy them, and this one is in the JVM
    elif HAS_COMET:
        given["spark.jars"] += "," + ",".join(map(str, connectors.jars("comet")))
    remember_names()
    session = start(home, **given)
    forget_sources(session)
    system: Any = session._jvm.java.lang.System
    try:
        yield session
    finally:
        session.stop()
        for name in given:
            system.clearProperty(name)
