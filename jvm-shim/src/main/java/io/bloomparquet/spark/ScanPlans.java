package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.plain.PrunedScanExec;
import io.bloomparquet.spark.plain.UnprunedScan;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ReusedSubqueryExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;

/** The plans of all scans of Parquet and ORC files in one query, each once. */
final class ScanPlans {
  private final Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
  private final ArrayNode plans = JsonNodeFactory.instance.arrayNode();
  private final LogicalPlan query;
  private final boolean explain;

  private ScanPlans(LogicalPlan query, boolean explain) {
    this.query = query;
    this.explain = explain;
  }

  /** @param explain whether each plan is explained */
  static ArrayNode of(QueryExecution query, boolean explain) {
    ScanPlans scans = new ScanPlans(query.optimizedPlan(), explain);
    scans.collect(query.executedPlan());
    return scans.plans;
  }

  private void collect(SparkPlan plan) {
    if (!seen.add(plan)) {
      return;
    }
    ObjectNode scan = scan(plan);
    if (scan != null) {
      plans.add(scan);
    }
    heldPlans(plan).forEach(this::collect);
    Scala.list(plan.children())
        .forEach(child -> {
          if (plan instanceof PrunedScanExec<?>) {
            Scala.list(child.subqueries()).forEach(this::collect);
          } else {
            collect(child);
          }
        });
    Scala.list(plan.subqueries()).forEach(this::collect);
  }

  /** The plan of one scan; null for other nodes. */
  private ObjectNode scan(SparkPlan plan) {
    if (plan instanceof PrunedScanExec<?> pruned) {
      return explain ? pruned.explain(query) : pruned.toJson();
    }
    return heldPlans(plan).isEmpty() ? UnprunedScan.toJson(plan, query) : null;
  }

  /** The plans that a node holds, and that are not its children. */
  private static List<SparkPlan> heldPlans(SparkPlan plan) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      return List.of(adaptive.executedPlan());
    }
    if (plan instanceof QueryStageExec stage) {
      return List.of(stage.plan());
    }
    if (plan instanceof InMemoryTableScanExec cached) {
      return List.of(cached.relation().cachedPlan());
    }
    if (plan instanceof CommandResultExec command) {
      return List.of(command.commandPhysicalPlan());
    }
    if (plan instanceof ReusedExchangeExec reused) {
      return List.of(reused.child());
    }
    if (plan instanceof ReusedSubqueryExec reused) {
      return List.of(reused.child());
    }
    List<SparkPlan> stages = new ArrayList<>();
    LogicalPlan emptied = SparkVersions.emptied(plan);
    if (emptied != null) {
      stages(emptied, stages);
    }
    return stages;
  }

  /** Adds the stages that ran before adaptive execution replaced {@code plan}, which has no rows. */
  private static void stages(LogicalPlan plan, List<SparkPlan> stages) {
    if (plan instanceof LogicalQueryStage stage) {
      stages.add(stage.physicalPlan());
    } else if (SparkVersions.emptied(plan) != null) {
      stages(SparkVersions.emptied(plan), stages);
    }
    Scala.list(plan.children()).forEach(child -> stages(child, stages));
  }
}
