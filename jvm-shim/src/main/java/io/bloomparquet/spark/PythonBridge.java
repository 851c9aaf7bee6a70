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

/** What Python calls. */
public final class PythonBridge {

  /**
   * Names the interpreter that plans, unless the application's settings do, and starts the planner, so that the first query
   * does not wait for its imports. A planner that fails to start is reported by that query.
   */
  public void attach(SparkSession session, String python, String pythonPath) {
    DriverSettings.makeStatic();
    DriverSettings.attach(session.sparkContext(), python, pythonPath);
    Planner.start(session);
  }

  /**
   * What the planner found out for each of a query's scans, as a JSON list of objects. A scan that was not planned yet is
   * planned now.
   */
  public String plans(QueryExecution query) {
    ArrayNode found = JsonNodeFactory.instance.arrayNode();
    for (PrunedScan scan : scans(query.executedPlan())) {
      found.add(scan.toJson());
    }
    return found.toString();
  }

  private static List<PrunedScan> scans(SparkPlan plan) {
    List<PrunedScan> found = new ArrayList<>();
    collect(plan, found);
    return found;
  }

  private static void collect(SparkPlan plan, List<PrunedScan> found) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      collect(adaptive.executedPlan(), found);
    } else if (plan instanceof QueryStageExec stage) {
      collect(stage.plan(), found);
    } else if (plan instanceof InMemoryTableScanExec cached) {
      collect(cached.relation().cachedPlan(), found);
    } else if (plan instanceof CommandResultExec command) {
      collect(command.commandPhysicalPlan(), found);
    } else if (plan instanceof ReusedExchangeExec) {
      return; // its rows are those of another part of the plan
    } else if (plan instanceof BatchScanExec exec && exec.scan() instanceof PrunedScan scan) {
      if (found.stream().noneMatch(each -> each == scan)) {
        found.add(scan);
      }
    }
    Scala.list(plan.children()).forEach(child -> collect(child, found));
    Scala.list(plan.subqueries()).forEach(child -> collect(child, found));
  }
}
