"""Scans of another engine, such as Comet, which replaces Spark's after Spark has planned it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import explain_pruning, last_plan
from tests.support import files
from tests.support.java import compile_jar
from tests.support.spark import rows

ENGINE = """
package io.bloomparquet.test;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;

public final class Engine extends scala.runtime.AbstractFunction1<SparkSession, ColumnarRule> {
  private static final class Replace extends scala.runtime.AbstractPartialFunction<SparkPlan, SparkPlan> {
    public boolean isDefinedAt(SparkPlan plan) {
      return plan instanceof FileSourceScanExec;
    }

    public <A extends SparkPlan, B> B applyOrElse(A plan, scala.Function1<A, B> other) {
      return plan instanceof FileSourceScanExec scan ? (B) (Object) new EngineScan(scan) : other.apply(plan);
    }
  }

  public ColumnarRule apply(SparkSession session) {
    return new ColumnarRule() {
      public Rule<SparkPlan> preColumnarTransitions() {
        return new Rule<>() {
          public SparkPlan apply(SparkPlan plan) {
            boolean isOn = conf().getConfString("test.engine", "").equals("on");
            return isOn ? (SparkPlan) plan.transform(new Replace()) : plan;
          }
        };
      }
    };
  }
}
"""
SCAN = """
package io.bloomparquet.test;

import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;

public final class EngineScan extends SparkPlan {
  private final FileSourceScanExec scan;

  public EngineScan(FileSourceScanExec scan) {
    this.scan = scan;
  }

  public org.apache.spark.rdd.RDD<org.apache.spark.sql.catalyst.InternalRow> doExecute() {
    return scan.execute();
  }

  public Seq<org.apache.spark.sql.catalyst.expressions.Attribute> output() {
    return scan.output();
  }

  public Seq<SparkPlan> children() {
    return (Seq<SparkPlan>) (Object) scala.collection.immutable.Nil$.MODULE$;
  }

  public SparkPlan withNewChildrenInternal(scala.collection.immutable.IndexedSeq<SparkPlan> children) {
    return this;
  }

  public boolean canEqual(Object other) {
    return other == this;
  }

  public int productArity() {
    return 1;
  }

  public Object productElement(int position) {
    return scan;
  }
}
"""


@pytest.fixture(scope="module")
def engine(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session in which the other engine reads files."""
    jar = compile_jar(tmp_path_factory.mktemp("engine"), "engine.jar", {"EngineScan": SCAN, "Engine": ENGINE})
    jar_spark.sql(f"ADD JAR '{jar}'")
    session = jar_spark._jsparkSession
    loader = session.sharedState().jarClassLoader()
    session.extensions().injectColumnar(loader.loadClass("io.bloomparquet.test.Engine").newInstance())
    new = jar_spark.newSession()
    new.conf.set("test.engine", "on")
    return new


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_last_plan_names_the_scan_of_another_engine(engine: SparkSession, tmp_path: Path, adaptive: str) -> None:
    engine.conf.set("spark.sql.adaptive.enabled", adaptive)
    path = files.write(tmp_path / "t.parquet", {"id": list(range(10))}, ["id"])
    engine.read.parquet(path).createOrReplaceTempView("t")
    frame = engine.sql("SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.id = 7 AND b.id > 3")
    assert rows(frame) == [(7,)]
    plans = last_plan(frame)
    assert [(plan.planned, [Path(each).name for each in plan.paths]) for plan in plans] == [(False, ["t.parquet"])] * 2
    for said in (str(plans[0]), str(explain_pruning(frame)[0])):
        assert "another engine's scan (EngineScan) replaces Spark's" in said
