package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import io.bloomparquet.spark.plain.PrunedFileScanExec;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.scan.PrunedScan;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.Scala;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
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
    BloomParquetExtensions.install(session);
  }

  /** The plan of each of a query's scans, as a JSON list of objects. Plans a scan that was not planned yet. */
  public String plans(QueryExecution query) {
    ArrayNode plans = JsonNodeFactory.instance.arrayNode();
    Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    collect(query.executedPlan(), seen, plans);
    return plans.toString();
  }

  private static void collect(SparkPlan plan, Set<Object> seen, ArrayNode plans) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      collect(adaptive.executedPlan(), seen, plans);
    } else if (plan instanceof QueryStageExec stage) {
      collect(stage.plan(), seen, plans);
    } else if (plan instanceof InMemoryTableScanExec cached) {
      collect(cached.relation().cachedPlan(), seen, plans);
    } else if (plan instanceof CommandResultExec command) {
      collect(command.commandPhysicalPlan(), seen, plans);
    } else if (plan instanceof ReusedExchangeExec) {
      return; // another part of the plan has the scan
    } else if (plan instanceof BatchScanExec exec && exec.scan() instanceof PrunedScan scan) {
      if (seen.add(scan)) {
        plans.add(scan.toJson());
      }
    } else if (plan instanceof PrunedFileScanExec exec && seen.add(exec)) {
      plans.add(exec.toJson());
    }
    Scala.list(plan.children()).forEach(child -> collect(child, seen, plans));
    Scala.list(plan.subqueries()).forEach(child -> collect(child, seen, plans));
  }
}
