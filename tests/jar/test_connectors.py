"""A URL for which Hadoop has no connector is an error that names the package to add."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

PACKAGES = {
    "s3a://bucket/t": r"hadoop-aws:3\.\d+\.\d+ \(",
    "s3://bucket/t*/x.parquet": r"hadoop-aws:3\.\d+\.\d+ and write the URL as s3a://",
    "gs://bucket/t": "gcs-connector",
    "abfss://container@account.dfs.core.windows.net/t": r"hadoop-azure:3\.\d+\.\d+ \(",
    "foo://x/t": "the package of its Hadoop connector",
}


STATEMENTS = (
    "SELECT * FROM {source}.`{url}` WHERE id = 1",
    "SELECT (SELECT max(id) FROM {source}.`{url}`)",
    "WITH t AS (SELECT * FROM {source}.`{url}`) SELECT * FROM t",
    "CREATE TABLE connected (id BIGINT) USING {source} LOCATION '{url}'",
    "CREATE TABLE connected USING {source} LOCATION '{url}' AS SELECT 1 AS id",
    "INSERT OVERWRITE DIRECTORY '{url}' USING {source} SELECT 1 AS id",
)


@pytest.mark.parametrize("source", ["bloomparquet", "bloomorc"])
def test_a_missing_connector_is_named_in_statements(source: str, jar_spark: SparkSession) -> None:
    """In sessions that had the jar before their first query."""
    session = jar_spark.newSession()
    for statement in STATEMENTS:
        with pytest.raises(IllegalArgumentException, match=r"hadoop-aws:3\.\d+\.\d+ \("):
            session.sql(statement.format(source=source, url="s3a://bucket/t")).collect()


@pytest.mark.parametrize(
    ("source", "instead"),
    [("bloomparquet", 'Without bloomparquet\'s jar, spark.read.format("bloomparquet")'), ("bloomorc", "read_table")],
)
def test_a_missing_connector_is_named(source: str, instead: str, jar_spark: SparkSession) -> None:
    for url, package in PACKAGES.items():
        with pytest.raises(IllegalArgumentException, match=package) as raised:
            jar_spark.read.format(source).load(url)
        text = str(raised.value)
        assert text.startswith(f"{url}: Spark has no file system for {url.partition(':')[0]}://. ")
        assert instead in text
        assert "--packages" in text
