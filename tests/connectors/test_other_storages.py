"""Tables on a storage that only Hadoop opens: their files never change, so nothing is looked at twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import connectors
from tests.support.hadoop import Connectors, configuration
from tests.support.java import compile_jar
from tests.support.plain import compare
from tests.support.spark import conf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("iceberg" not in connectors.TABLES, reason="no connector of Iceberg"),
]

DISK = """
package io.bloomparquet.test;

import java.io.IOException;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files under another scheme. */
public final class Disk extends RawLocalFileSystem {
  public static final Set<String> TOUCHED = ConcurrentHashMap.newKeySet();

  @Override
  public URI getUri() {
    return URI.create("disk:///");
  }

  @Override
  public String getScheme() {
    return "disk";
  }

  @Override
  public FSDataInputStream open(Path path, int size) throws IOException {
    TOUCHED.add(path.getName());
    return super.open(path, size);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    TOUCHED.add(path.getName());
    return super.getFileStatus(path);
  }
}
"""


@pytest.fixture(scope="module")
def touched(table_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The names of the files that ``disk:`` has opened or looked at; a set of the JVM."""
    jar = compile_jar(tmp_path_factory.mktemp("disk"), "disk.jar", {"Disk": DISK})
    with Connectors(table_spark, [jar]):
        loaded = configuration(table_spark).getClassByName("io.bloomparquet.test.Disk")
        yield loaded.getField("TOUCHED").get(None)


def data_files(touched: Any) -> list[str]:
    return [name for name in touched if name.endswith(".parquet")]


def test_an_iceberg_table(table_spark: SparkSession, touched: Any, tmp_path: Path) -> None:
    spark, name = table_spark.newSession(), "spark.sql.catalog.disks"
    settings = {  # the setting of Hadoop is the catalog's own
        name: "org.apache.iceberg.spark.SparkCatalog", f"{name}.type": "hadoop",
        f"{name}.warehouse": f"disk://{tmp_path}", f"{name}.hadoop.fs.disk.impl": "io.bloomparquet.test.Disk",
        "spark.bloomparquet.transparent": "true",
    }  # fmt: skip
    with conf(spark, settings):
        spark.sql(
            "CREATE TABLE disks.db.t (id bigint, v string) USING iceberg TBLPROPERTIES "
            "('write.parquet.bloom-filter-enabled.column.id' = 'true', 'write.parquet.bloom-filter-max-bytes' = '4096')"
        )
        rows = spark.range(800).selectExpr("id * 7919 % 809 AS id", "string(id) AS v").repartition(8)
        rows.writeTo("disks.db.t").append()
        pruned = compare(spark, lambda: spark.sql("SELECT * FROM disks.db.t WHERE id = 77"))
        assert pruned.kept == [1]
        touched.clear()
        second = spark.sql("SELECT * FROM disks.db.t WHERE id = 78")
        assert len(second.collect()) == 1
        (plan,) = last_plan(second)
        assert plan.kept < plan.total == 8
        assert len(data_files(touched)) == plan.kept  # by Iceberg's reader


def test_a_delta_table(table_spark: SparkSession, touched: Any, tmp_path: Path) -> None:
    settings = {
        "fs.disk.impl": "io.bloomparquet.test.Disk", "parquet.bloom.filter.enabled#id": "true",
        "parquet.bloom.filter.expected.ndv#id": "100", "spark.bloomparquet.transparent": "true",
    }  # fmt: skip
    spark = table_spark.newSession()
    with conf(spark, settings):
        rows = spark.range(800).selectExpr("id * 7919 % 809 AS id", "string(id) AS v").repartition(8)
        rows.write.format("delta").save(f"{tmp_path}/t")
        table = f"delta.`disk://{tmp_path}/t`"
        assert compare(spark, lambda: spark.sql(f"SELECT * FROM {table} WHERE id = 77")).kept == [1]
        touched.clear()
        second = spark.sql(f"SELECT * FROM {table} WHERE id = 78")
        assert len(second.collect()) == 1
        (plan,) = last_plan(second)
        assert plan.kept < plan.total == 8
        assert len(data_files(touched)) <= plan.kept + 1  # a checkpoint of the log is no data file
