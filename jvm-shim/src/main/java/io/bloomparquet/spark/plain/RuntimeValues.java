package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.ScalarSubquery;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;

/** Predicates on data columns, with the values that subqueries have returned. */
final class RuntimeValues {
  private RuntimeValues() {}

  /** {@code filters} with a literal for each scalar subquery, which must have run. */
  static List<Expression> ofSubqueries(List<Expression> filters) {
    return filters.stream().filter(RuntimeValues::isOfData).map(RuntimeValues::ofSubqueries).toList();
  }

  /**
   * Whether a filter is on data columns alone. A filter on a field of {@code _metadata}, such as {@code file_name},
   * looks like one on a data column of that name.
   */
  static boolean isOfData(Expression filter) {
    return Scala.list(filter.references().toSeq()).stream()
        .noneMatch(column -> MetadataAttribute.isValid(column.metadata()));
  }

  private static Expression ofSubqueries(Expression expression) {
    if (expression instanceof ScalarSubquery subquery) {
      return new Literal(subquery.eval(null), subquery.dataType());
    }
    List<Expression> children = new ArrayList<>();
    boolean changed = false;
    for (Expression child : Scala.list(expression.children())) {
      Expression other = ofSubqueries(child);
      changed |= other != child;
      children.add(other);
    }
    return changed ? expression.withNewChildren(Scala.seq(children)) : expression;
  }

  /** {@code column IN (keys)} for each predicate by the keys of a join that has keys. */
  static Predicate[] ofKeys(List<Expression> runtime) {
    List<Predicate> predicates = new ArrayList<>();
    for (Expression each : runtime) {
      if (isOfData(each)
          && each instanceof DynamicPruningExpression dynamic
          && dynamic.child() instanceof InSubqueryExec) {
        var translated = DataSourceV2Strategy$.MODULE$.translateRuntimeFilterV2(dynamic.child());
        if (translated.isDefined()) {
          predicates.add(translated.get());
        }
      }
    }
    return predicates.toArray(Predicate[]::new);
  }
}
