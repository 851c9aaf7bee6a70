"""Spark holds a node's monitor while it waits for subqueries, whose threads ask for the metrics of all nodes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support import files, plain
from tests.support.java import compile_jar
from tests.support.scenarios import PRUNED
from tests.support.spark import conf

JAVA = """
package io.bloomparquet.test;

public final class Monitor {
  public boolean hasMetrics(org.apache.spark.sql.execution.SparkPlan node) throws InterruptedException {
    Thread other = new Thread(node::metrics);
    other.setDaemon(true);
    synchronized (node) {
      other.start();
      long end = System.nanoTime() + 30_000_000_000L;
      while (other.isAlive() && System.nanoTime() < end) {
        Thread.sleep(5);
      }
      return !other.isAlive();
    }
  }
}
"""


def test_metrics_need_no_monitor_of_the_node(jar_spark: SparkSession, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": [1, 2, 3]}, ["id"])
    jar = compile_jar(tmp_path / "classes", "monitor.jar", {"Monitor": JAVA})
    jar_spark.sql(f"ADD JAR '{jar}'")
    loader = jar_spark._jsparkSession.sharedState().jarClassLoader()
    monitor = loader.loadClass("io.bloomparquet.test.Monitor").newInstance()
    with conf(jar_spark, PRUNED):
        execution = jar_spark.read.parquet(path).where("id = 2")._jdf.queryExecution()
        (node,) = plain.nodes(execution.executedPlan())
        assert monitor.hasMetrics(node)
