package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.planner.PlannerPredicate.Junction;
import io.bloomparquet.spark.planner.PlannerPredicate.Leaf;
import io.bloomparquet.spark.planner.PlannerPredicate.Opaque;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;

/** Translates Spark's conditions for the planner. */
public final class PredicateTranslator {
  /** The planner accepts 100 levels of AND, OR and NOT. The AND of all conjuncts is one of them. */
  private static final int MAX_DEPTH = 99;

  /** The most conditions that EXPLAIN shows. */
  private static final int MAX_CONDITIONS = 1000;

  private final ReaderColumns columns;
  private final ConditionTranslator conditions;

  public PredicateTranslator(ReaderColumns columns) {
    this.columns = columns;
    this.conditions = new ConditionTranslator(columns);
  }

  public ReaderColumns columns() {
    return columns;
  }

  /** A predicate that is TRUE for at least the rows for which all {@code conjuncts} are; null if there is none. */
  public PlannerPredicate ofAll(List<Expression> conjuncts) {
    PlannerPredicate all = PlannerPredicate.and(conjuncts.stream().map(this::ofConjunct));
    return all == null ? null : all.weakened(true);
  }

  /** {@code path IN (keys)}; null if the planner cannot look them up. */
  public PlannerPredicate in(List<String> path, DataType type, List<Object> keys) {
    return conditions.in(path, type, keys);
  }

  /**
   * All conditions of a scan, for an explanation.
   *
   * @param conjuncts on data columns, and perhaps on partition columns, which are left out: Spark applies these itself
   * @param joins the equalities of joins, and why their keys do not prune; null if they do
   */
  public PlannerPredicate explained(List<Expression> conjuncts, Map<Expression, WhyNot> joins) {
    List<Expression> all = new ArrayList<>(conjuncts);
    all.addAll(joins.keySet());
    return PlannerPredicate.and(
        Stream.concat(
            conjuncts.stream()
                .filter(each -> !isImplied(each, all) && !columns.arePartitions(WhyNot.names(each)))
                .map(this::ofConjunct),
            joins.entrySet().stream()
                .filter(each -> each.getValue() != null)
                .map(each -> new Opaque(each.getKey(), each.getValue()))));
  }

  /** The conditions that the planner cannot judge, for EXPLAIN; empty if there are none. */
  public String notUsed(List<Expression> conjuncts) {
    try {
      PlannerPredicate all = explained(conjuncts, Map.of());
      return Stream.ofNullable(all)
          .flatMap(PlannerPredicate::leaves)
          .limit(MAX_CONDITIONS)
          .filter(Opaque.class::isInstance)
          .map(PlannerPredicate::toString)
          .collect(Collectors.joining(", "));
    } catch (RuntimeException error) {
      return ""; // a query must not fail because of what EXPLAIN shows
    }
  }

  /** Whether Spark derived {@code conjunct}, an IS NOT NULL, from another one. */
  private static boolean isImplied(Expression conjunct, List<Expression> conjuncts) {
    return conjunct instanceof IsNotNull
        && conjuncts.stream()
            .anyMatch(each -> each != conjunct && WhyNot.names(each).containsAll(WhyNot.names(conjunct)));
  }

  private PlannerPredicate ofConjunct(Expression conjunct) {
    PlannerPredicate translated = of(conjunct, false);
    return translated.depth() > MAX_DEPTH ? new Opaque(conjunct, null) : translated;
  }

  /** The translation of {@code expression}, or of a weaker condition if no NOT is above. */
  private PlannerPredicate of(Expression expression, boolean isUnderNot) {
    if (expression instanceof And || expression instanceof Or) {
      return Junction.of(
          expression instanceof And ? "and" : "or",
          operands(expression).stream().map(each -> of(each, isUnderNot)).toList());
    }
    if (expression instanceof Not not) {
      PlannerPredicate child = of(not.child(), true);
      return child instanceof Opaque ? new Opaque(expression, null) : new PlannerPredicate.Not(child);
    }
    PlannerPredicate translated = conditions.of(expression);
    return translated == null || isUnderNot && !isExact(expression, translated)
        ? new Opaque(expression, null)
        : translated;
  }

  /** Whether the translation is TRUE for the same rows. Casts, elements and VARIANT fields may become weaker. */
  private static boolean isExact(Expression expression, PlannerPredicate translated) {
    return translated instanceof Leaf leaf
        && leaf.column().part() == null
        && leaf.column().variant() == null
        && !expression.exists(Cast.class::isInstance);
  }

  /** The operands of a chain of AND or of OR, in order. Not recursive: a long chain is as deep. */
  private static List<Expression> operands(Expression chain) {
    List<Expression> operands = new ArrayList<>();
    Deque<Expression> pending = new ArrayDeque<>(List.of(chain));
    while (!pending.isEmpty()) {
      Expression next = pending.pop();
      if (next.getClass() == chain.getClass()) {
        pending.push(next.children().apply(1));
        pending.push(next.children().apply(0));
      } else {
        operands.add(next);
      }
    }
    return operands;
  }
}
