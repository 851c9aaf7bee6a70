package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.ReaderColumns;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;

/**
 * A join key whose values the planner can look up in the files of a relation.
 *
 * @param column the key as an expression of the relation's columns
 */
record PrunableKey(Expression column, LogicalPlan relation) {
  /** The columns by which Spark's MERGE tells the rows of its target apart. */
  private static final Set<String> OF_MERGE = Set.of("__row_from_target", "__row_id");

  /** {@code key} as an expression of the columns of {@code plan}'s relation; null if it cannot be looked up there. */
  static PrunableKey of(Expression key, LogicalPlan plan) {
    var origin = PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(key, plan);
    return origin.isDefined() && isPlannable(origin.get()._1(), origin.get()._2())
        ? new PrunableKey(origin.get()._1(), origin.get()._2())
        : null;
  }

  private static boolean isPlannable(Expression key, LogicalPlan plan) {
    ReaderColumns columns = columns(plan);
    KeyColumn column = columns == null ? null : KeyColumn.of(key);
    return column != null && columns.canLookUp(column.path());
  }

  /** The columns that can be planned of a relation; null for other plans. */
  private static ReaderColumns columns(LogicalPlan plan) {
    if (plan instanceof DataSourceV2ScanRelation table) {
      return IcebergScans.columns(table);
    }
    return plan instanceof LogicalRelation relation
            && !relation.isStreaming()
            && relation.relation() instanceof HadoopFsRelation files
            && PlainScans.format(files) != null
            && PlainScans.isEnabled(SQLConf.get(), files)
        ? PlainScans.predicates(files).columns()
        : null;
  }

  boolean isOfTable() {
    return relation instanceof DataSourceV2ScanRelation;
  }

  /**
   * {@code plan} with a filter right above the relation, if only filters and projections lie between. Spark moves no filter
   * below the numbers that MERGE gives to the rows of its target. But they only tell rows apart.
   */
  LogicalPlan aboveTable(LogicalPlan plan, DynamicPruningSubquery keys) {
    if (plan == relation) {
      return new Filter(keys.withNewChildren(Scala.seq(List.of(column))), plan);
    }
    boolean isPassed =
        plan instanceof Filter filter && filter.condition().deterministic()
            || plan instanceof Project project
                && Scala.list(project.projectList()).stream()
                    .allMatch(each -> ((Expression) each).deterministic() || OF_MERGE.contains(each.name()));
    return isPassed
        ? plan.withNewChildren(Scala.seq(List.of(aboveTable(plan.children().apply(0), keys))))
        : plan;
  }

  /** Whether the keys of {@code build} prune this key already. Spark applies the rule several times. */
  boolean isPrunedBy(LogicalPlan build, LogicalPlan plan) {
    return subqueries(plan).stream()
        .anyMatch(each -> each.pruningKey().semanticEquals(column) && each.buildQuery().sameResult(build));
  }

  /**
   * Whether {@code keys} arrived in {@code plan}, and only in filters right above relations that {@link PlainScans}
   * prunes. A filter that keeps the expression would evaluate it for each row.
   */
  static boolean isAtScans(DynamicPruningSubquery keys, LogicalPlan plan) {
    long all = subqueries(plan).stream().filter(each -> each.exprId().equals(keys.exprId())).count();
    return all > 0 && all == countAtScans(keys, plan);
  }

  private static long countAtScans(DynamicPruningSubquery keys, LogicalPlan plan) {
    if (plan instanceof Filter filter && filter.child().children().isEmpty()) {
      return Scala.list(PartitionPruning$.MODULE$.splitConjunctivePredicates(filter.condition())).stream()
          .filter(each -> each instanceof DynamicPruningSubquery other && other.exprId().equals(keys.exprId()))
          .filter(each -> isPlannable(((DynamicPruningSubquery) each).pruningKey(), filter.child()))
          .count();
    }
    return Scala.list(plan.children()).stream().mapToLong(child -> countAtScans(keys, child)).sum();
  }

  /** The number of expressions by keys in {@code plan}, and in the build sides within them. */
  static long countNested(LogicalPlan plan) {
    return subqueries(plan).stream().mapToLong(each -> 1 + countNested(each.buildQuery())).sum();
  }

  /** Whether the keys of a join arrived at this key's relation in {@code plan}. */
  boolean isPrunedIn(LogicalPlan plan) {
    return subqueries(plan).stream().anyMatch(each -> each.pruningKey().semanticEquals(column));
  }

  private static List<DynamicPruningSubquery> subqueries(LogicalPlan plan) {
    List<DynamicPruningSubquery> subqueries = new ArrayList<>();
    Scala.list(plan.expressions()).forEach(each -> collect(each, subqueries));
    Scala.list(plan.children()).forEach(child -> subqueries.addAll(subqueries(child)));
    return subqueries;
  }

  private static void collect(Expression expression, List<DynamicPruningSubquery> subqueries) {
    if (expression instanceof DynamicPruningSubquery subquery) {
      subqueries.add(subquery);
    }
    Scala.list(expression.children()).forEach(child -> collect(child, subqueries));
  }
}
