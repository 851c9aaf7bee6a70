package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.Scala;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Contains;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;

/** Why the planner cannot judge a condition: names of Python's {@code WhyNot}, with a short text for EXPLAIN. */
public enum WhyNot {
  FUNCTION("a function around the column"),
  LEADING_WILDCARD("a pattern without text at its beginning"),
  TWO_COLUMNS("two columns"),
  TYPE("a type without evidence"),
  NOT_A_COMPARISON("no comparison of a column with literals"),
  JOIN_NOT_BROADCAST("Spark has no broadcast of the other side"),
  JOIN_BROADCASTS_THIS("the join broadcasts this side"),
  JOIN_KEEPS_ROWS("the join keeps rows of this side without a match"),
  JOIN_KEY("the type of the key, or an expression around the column"),
  JOIN_MANY_KEYS("more than 10,000 keys"),
  JOIN_NOT_PUSHED("the keys do not reach the scan");

  private static final int MAX_TEXT = 200;

  private final String text;

  WhyNot(String text) {
    this.text = text;
  }

  String text() {
    return text;
  }

  /** The reason of a condition that {@link PredicateTranslator} does not translate. */
  static WhyNot of(Expression condition) {
    List<Expression> sides = Scala.list(condition.children());
    if (condition instanceof EndsWith || condition instanceof Contains || condition instanceof Like) {
      return isColumn(sides.get(0)) ? LEADING_WILDCARD : FUNCTION;
    }
    boolean isComparison = condition instanceof BinaryComparison;
    if (isComparison && sides.stream().allMatch(WhyNot::isColumn)) {
      return TWO_COLUMNS;
    }
    if (names(condition).isEmpty() || hasSubquery(condition)) {
      return NOT_A_COMPARISON;
    }
    boolean isPlain = sides.stream().allMatch(side -> isColumn(side) || side instanceof Literal);
    return isPlain && (isComparison || condition instanceof In || condition instanceof InSet) ? TYPE : FUNCTION;
  }

  /** The joins whose keys do not prune, each with the reason; empty if there are none. */
  public static String describe(Map<Expression, WhyNot> joins) {
    return joins.entrySet().stream()
        .filter(each -> each.getValue() != null)
        .map(each -> "; join on " + sql(each.getKey()) + ": " + each.getValue().text)
        .collect(Collectors.joining());
  }

  /** The text of a condition, shortened. */
  static String sql(Expression condition) {
    String sql = condition.sql();
    if (condition instanceof BinaryComparison && sql.startsWith("(") && sql.endsWith(")")) {
      sql = sql.substring(1, sql.length() - 1);
    }
    return sql.length() > MAX_TEXT ? sql.substring(0, MAX_TEXT) + "…" : sql;
  }

  /** The names of the columns that {@code expression} refers to. */
  static Set<String> names(Expression expression) {
    return Scala.list(expression.references().toSeq()).stream().map(Attribute::name).collect(Collectors.toSet());
  }

  private static boolean hasSubquery(Expression expression) {
    return expression instanceof PlanExpression
        || Scala.list(expression.children()).stream().anyMatch(WhyNot::hasSubquery);
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || expression instanceof GetStructField field && isColumn(field.child());
  }
}
