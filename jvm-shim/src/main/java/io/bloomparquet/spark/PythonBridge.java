package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.scan.PrunedScan;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;

/** The methods that Python calls. */
public final class PythonBridge {

  /**
   * Sets the planner's interpreter, unless the application's settings name one. Starts the planner, so that the first
   * query does not wait for its imports; that query reports a planner that did not start.
   */
  public void attach(SparkSession session, String python, String pythonPath) {
    DriverSettings.makeStatic();
    DriverSettings.attach(session.sparkContext(), python, pythonPath);
    Planner.start(session);
  }

  /** The plan of each of a query's scans, as a JSON list of objects. Plans a scan that was not planned yet. */
  public String plans(QueryExecution query) {
    ArrayNode plans = JsonNodeFactory.instance.arrayNode();
    for (PrunedScan scan : scans(query.executedPlan())) {
      plans.add(scan.toJson());
    }
    return plans.toString();
  }

  private static List<PrunedScan> scans(SparkPlan plan) {
    List<PrunedScan> scans = new ArrayList<>();
    collect(plan, scans);
    return scans;
  }

  private static void collect(SparkPlan plan, List<PrunedScan> scans) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      collect(adaptive.executedPlan(), scans);
    } else if (plan instanceof QueryStageExec stage) {
      collect(stage.plan(), scans);
    } else if (plan instanceof InMemoryTableScanExec cached) {
      collect(cached.relation().cachedPlan(), scans);
    } else if (plan instanceof CommandResultExec command) {
      collect(command.commandPhysicalPlan(), scans);
    } else if (plan instanceof ReusedExchangeExec) {
      return; // another part of the plan has the scan
    } else if (plan instanceof BatchScanExec exec && exec.scan() instanceof PrunedScan scan) {
      if (scans.stream().noneMatch(each -> each == scan)) {
        scans.add(scan);
      }
    }
    Scala.list(plan.children()).forEach(child -> collect(child, scans));
    Scala.list(plan.subqueries()).forEach(child -> collect(child, scans));
  }
}
