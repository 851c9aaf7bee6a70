package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.PredicateTranslator;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.tables.DeltaTable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.ScalarSubquery;
import org.apache.spark.sql.execution.SubqueryAdaptiveBroadcastExec;

/** Predicates on data columns, with the values that subqueries have returned. */
final class RuntimeValues {
  /** More keys are not looked up: asking for them takes longer, and each file is more likely to hold one. */
  static final int MAX_KEYS = 10_000;

  private RuntimeValues() {}

  /** {@code filters} with a literal for each scalar subquery, which must have run. */
  static List<Expression> ofSubqueries(List<Expression> filters) {
    return filters.stream().filter(RuntimeValues::isOfData).map(RuntimeValues::ofSubqueries).toList();
  }

  /**
   * Whether a filter is on data columns alone. A filter on a field of {@code _metadata}, such as {@code file_name},
   * looks like one on a data column of that name, and so does Delta's on deleted rows.
   */
  static boolean isOfData(Expression filter) {
    return Scala.list(filter.references().toSeq()).stream()
        .noneMatch(column -> MetadataAttribute.isValid(column.metadata()) || DeltaTable.isInternal(column));
  }

  private static Expression ofSubqueries(Expression expression) {
    if (expression instanceof ScalarSubquery subquery) {
      return new Literal(subquery.eval(null), subquery.dataType());
    }
    Expression known = expression.mapChildren(RuntimeValues::ofSubqueries);
    return known.fastEquals(expression) ? expression : folded(known);
  }

  /** The literal that {@code expression} is, such as the cast of one. An error is left to Spark, for the first row. */
  private static Expression folded(Expression expression) {
    try {
      return expression.foldable() ? new Literal(expression.eval(null), expression.dataType()) : expression;
    } catch (Exception error) { // Scala throws checked ones too
      return expression;
    }
  }

  /** Whether a subquery must run before {@code expression} has a value. */
  static boolean hasSubquery(Expression expression) {
    return expression instanceof PlanExpression
        || Scala.list(expression.children()).stream().anyMatch(RuntimeValues::hasSubquery);
  }

  /** Whether adaptive execution has still to replace the subquery of a predicate by the keys of a join. */
  static boolean isUnplanned(Expression predicate) {
    return predicate instanceof DynamicPruningExpression dynamic
        && dynamic.child() instanceof InSubqueryExec in
        && in.plan() instanceof SubqueryAdaptiveBroadcastExec;
  }

  /** {@code column IN (keys)} for each predicate by the keys of a join that has keys, but not too many; null if none. */
  static PlannerPredicate ofKeys(List<Expression> runtime, PredicateTranslator predicates) {
    List<PlannerPredicate> known = new ArrayList<>();
    for (Expression each : runtime) {
      if (isOfData(each)
          && each instanceof DynamicPruningExpression dynamic
          && dynamic.child() instanceof InSubqueryExec in) {
        KeyColumn column = KeyColumn.of(in.child());
        if (column != null && in.values().isDefined() && in.values().get().length <= MAX_KEYS) {
          known.add(column.in(in.values().get(), predicates));
        }
      }
    }
    return PlannerPredicate.and(known.stream());
  }
}
