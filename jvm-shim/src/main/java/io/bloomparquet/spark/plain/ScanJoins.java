package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.WhyNot;
import io.bloomparquet.spark.support.Scala;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.collection.immutable.Seq;

/** The joins of one scan, for an explanation: each equality on a column of the scan, and why its keys do not prune. */
final class ScanJoins {
  private final SparkPlan scan;
  private final List<Expression> runtime;
  private final Map<Expression, WhyNot> joins = new LinkedHashMap<>();

  private ScanJoins(SparkPlan scan, List<Expression> runtime) {
    this.scan = scan;
    this.runtime = runtime;
  }

  /**
   * The reason is null where the keys prune, or where the query has not run yet.
   *
   * @param query the optimized plan
   * @param runtime the predicates by keys that arrived at the scan
   */
  static Map<Expression, WhyNot> of(LogicalPlan query, SparkPlan scan, List<Expression> runtime) {
    ScanJoins found = new ScanJoins(scan, runtime);
    found.collect(query);
    return found.joins;
  }

  private void collect(LogicalPlan plan) {
    var equal = plan instanceof Join join ? ExtractEquiJoinKeys$.MODULE$.unapply(join) : null;
    if (equal != null && equal.isDefined()) {
      Seq<Expression> leftKeys = equal.get()._2();
      Seq<Expression> rightKeys = equal.get()._3();
      for (int i = 0; i < leftKeys.size(); i++) {
        add((Join) plan, true, leftKeys.apply(i), rightKeys.apply(i));
        add((Join) plan, false, rightKeys.apply(i), leftKeys.apply(i));
      }
    }
    Scala.list(plan.children()).forEach(this::collect);
    Scala.list(plan.subqueries()).forEach(this::collect);
  }

  private void add(Join join, boolean isLeft, Expression key, Expression other) {
    LogicalPlan side = isLeft ? join.left() : join.right();
    var origin = PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(key, side);
    if (origin.isDefined()
        && origin.get()._1().references().nonEmpty()
        && origin.get()._1().references().subsetOf(scan.outputSet())) {
      WhyNot obstacle = JoinKeys.obstacle(join, isLeft, scan.session().sessionState().conf());
      Expression column = origin.get()._1();
      PrunableKey pruned = PrunableKey.of(key, side);
      boolean hasKeys = pruned != null && pruned.isPrunedIn(side); // those of a broadcast, or of a subquery
      joins.put(new EqualTo(column, other), obstacle == null || hasKeys ? reason(pruned, side) : obstacle);
    }
  }

  private WhyNot reason(PrunableKey key, LogicalPlan side) {
    if (key == null) {
      return WhyNot.JOIN_KEY;
    }
    if (!key.isPrunedIn(side)) {
      return WhyNot.JOIN_NOT_PUSHED;
    }
    for (Expression each : runtime) {
      if (each instanceof DynamicPruningExpression dynamic
          && dynamic.child() instanceof InSubqueryExec in
          && in.child().semanticEquals(key.column())) {
        boolean isTooMany = in.values().isDefined() && in.values().get().length > RuntimeValues.MAX_KEYS;
        return isTooMany ? WhyNot.JOIN_MANY_KEYS : null;
      }
    }
    return WhyNot.JOIN_NOT_BROADCAST; // Spark replaced the keys by TRUE
  }
}
