package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Contains;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;

/**
 * All conditions of a scan, for an explanation: {@link PlannerPredicate}'s JSON, with a leaf of the op {@code opaque}
 * for each condition that the planner cannot judge, which names the reason.
 */
public final class ExplainedPredicate {
  private static final int MAX_TEXT = 200;

  /** Conditions and values that EXPLAIN looks at: Spark makes its text for every query. */
  private static final int MAX_CONDITIONS = 1000;

  private static final int MAX_VALUES = 100;

  /** Names of Python's {@code WhyNot}, with a short text for EXPLAIN. */
  public enum Reason {
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

    private final String text;

    Reason(String text) {
      this.text = text;
    }
  }

  private final PlannerPredicate predicates;

  private ExplainedPredicate(PlannerPredicate predicates) {
    this.predicates = predicates;
  }

  /**
   * @param conjuncts on data columns, and perhaps on partition columns. Those on partition columns are left out: Spark
   *     applies them itself.
   * @param joins the equalities of joins, and why their keys do not prune; null if they do
   */
  public static JsonNode of(PlannerPredicate predicates, List<Expression> conjuncts, Map<Expression, Reason> joins) {
    List<JsonNode> parts = new ArrayList<>();
    List<Expression> all = new ArrayList<>(conjuncts);
    all.addAll(joins.keySet());
    for (Expression conjunct : conjuncts) {
      if (!isImplied(conjunct, all) && !predicates.isOfPartitions(names(conjunct))) {
        parts.add(new ExplainedPredicate(predicates).of(conjunct));
      }
    }
    joins.forEach((join, reason) -> parts.add(reason == null ? null : opaque(join, reason)));
    return PlannerPredicate.join("and", parts, true);
  }

  /** The joins whose keys do not prune, each with the reason; empty if there are none. */
  public static String describe(Map<Expression, Reason> joins) {
    return joins.entrySet().stream()
        .filter(each -> each.getValue() != null)
        .map(each -> "; join on " + sql(each.getKey()) + ": " + each.getValue().text)
        .collect(Collectors.joining());
  }

  /** The conditions that the planner cannot judge, for EXPLAIN; empty if there are none. */
  public static String notUsed(PlannerPredicate predicates, List<Expression> conjuncts) {
    List<String> texts = new ArrayList<>();
    try {
      int looked = 0;
      for (Expression conjunct : conjuncts) {
        if (isImplied(conjunct, conjuncts) || predicates.isOfPartitions(names(conjunct))) {
          continue;
        }
        for (Expression condition : operands(conjunct, each -> each instanceof And || each instanceof Or)) {
          if (++looked <= MAX_CONDITIONS && !isLongList(condition) && predicates.ofAll(List.of(condition)) == null) {
            texts.add(sql(condition) + " (" + reason(condition).text + ")");
          }
        }
      }
    } catch (RuntimeException error) {
      return ""; // a query must not fail because of what EXPLAIN shows
    }
    return String.join(", ", texts);
  }

  private static boolean isLongList(Expression condition) {
    return condition instanceof In in && in.list().size() > MAX_VALUES
        || condition instanceof InSet set && set.hset().size() > MAX_VALUES;
  }

  /** Whether Spark derived {@code conjunct}, an IS NOT NULL, from another one. */
  private static boolean isImplied(Expression conjunct, List<Expression> conjuncts) {
    return conjunct instanceof IsNotNull
        && conjuncts.stream().anyMatch(each -> each != conjunct && names(each).containsAll(names(conjunct)));
  }

  private static Set<String> names(Expression expression) {
    return Scala.list(expression.references().toSeq()).stream().map(Attribute::name).collect(Collectors.toSet());
  }

  private JsonNode of(Expression expression) {
    if (expression instanceof And || expression instanceof Or) {
      Class<?> kind = expression.getClass();
      List<JsonNode> parts = new ArrayList<>();
      operands(expression, kind::isInstance).forEach(operand -> parts.add(of(operand)));
      return PlannerPredicate.join(expression instanceof And ? "and" : "or", parts, true);
    }
    JsonNode translated = predicates.ofAll(List.of(expression));
    return translated != null ? translated : opaque(expression, reason(expression));
  }

  private static JsonNode opaque(Expression expression, Reason reason) {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("op", "opaque");
    return node.put("sql", sql(expression)).put("reason", reason.name());
  }

  /** The operands of {@code isJunction} expressions, in order. Not recursive: a long chain of ORs is as deep. */
  private static List<Expression> operands(Expression expression, Predicate<Expression> isJunction) {
    List<Expression> operands = new ArrayList<>();
    Deque<Expression> pending = new ArrayDeque<>(List.of(expression));
    while (!pending.isEmpty()) {
      Expression next = pending.pop();
      if (isJunction.test(next)) {
        pending.push(next.children().apply(1));
        pending.push(next.children().apply(0));
      } else {
        operands.add(next);
      }
    }
    return operands;
  }

  private static String sql(Expression expression) {
    String sql = expression.sql();
    if (expression instanceof BinaryComparison && sql.startsWith("(") && sql.endsWith(")")) {
      sql = sql.substring(1, sql.length() - 1);
    }
    return sql.length() > MAX_TEXT ? sql.substring(0, MAX_TEXT) + "…" : sql;
  }

  private static Reason reason(Expression expression) {
    if (expression instanceof EndsWith || expression instanceof Contains || expression instanceof Like) {
      return isColumn(expression.children().apply(0)) ? Reason.LEADING_WILDCARD : Reason.FUNCTION;
    }
    List<Expression> sides = Scala.list(expression.children());
    boolean isComparison = expression instanceof BinaryComparison;
    if (isComparison && sides.stream().allMatch(ExplainedPredicate::isColumn)) {
      return Reason.TWO_COLUMNS;
    }
    if (names(expression).isEmpty() || hasSubquery(expression)) {
      return Reason.NOT_A_COMPARISON;
    }
    boolean isPlain = sides.stream().allMatch(side -> isColumn(side) || side instanceof Literal);
    return isPlain && (isComparison || sides.stream().anyMatch(ExplainedPredicate::isColumn)) && !isFunction(expression)
        ? Reason.TYPE
        : Reason.FUNCTION;
  }

  /** Whether {@code expression} computes something of a column, instead of comparing it. */
  private static boolean isFunction(Expression expression) {
    return !(expression instanceof BinaryComparison || expression instanceof In || expression instanceof InSet);
  }

  private static boolean hasSubquery(Expression expression) {
    return expression instanceof PlanExpression
        || Scala.list(expression.children()).stream().anyMatch(ExplainedPredicate::hasSubquery);
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || expression instanceof GetStructField field && isColumn(field.child());
  }
}
