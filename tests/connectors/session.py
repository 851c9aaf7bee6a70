"""A session with the connectors of Delta Lake and Iceberg, and with the jar attached."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_bloomparquet import attach
from tests.support import connectors
from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED, forget_sources, remember_names, start

_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def connector_settings(home: Path) -> dict[str, str]:
    """Iceberg's catalog ``lake`` is a folder below `home`; Delta's catalog is ``spark_catalog``."""
    settings = {
        "spark.jars": ",".join(str(jar) for name in connectors.TABLES for jar in connectors.jars(name)),
        "spark.sql.extensions": ",".join(_EXTENSIONS[name] for name in connectors.TABLES),
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


def start_with_tables(home: Path, **conf: str) -> SparkSession:
    remember_names()
    session = start(home, **FOR_SMALL_QUERIES, **INTERPRETED, **connector_settings(home), **conf)
    forget_sources(session)
    return attach(session)
