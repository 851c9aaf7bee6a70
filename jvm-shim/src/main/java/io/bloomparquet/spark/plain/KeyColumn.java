package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.ConditionTranslator;
import io.bloomparquet.spark.planner.LosslessCast;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.PredicateTranslator;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import scala.Option;

/**
 * The column that a join key compares. The key is the column, perhaps widened to the type of the other side's key.
 *
 * @param type of the column
 * @param keyType of the key
 */
record KeyColumn(List<String> path, DataType type, DataType keyType) {

  /** The column of {@code key}; null if the key is not a column, or is cast so that values change. */
  static KeyColumn of(Expression key) {
    Expression column = key;
    if (column instanceof KnownFloatingPointNormalized known && known.child() instanceof NormalizeNaNAndZero normal) {
      column = normal.child(); // the planner looks up 0.0 and -0.0, and never skips for NaN
    }
    if (column instanceof Cast cast && LosslessCast.isLossless(cast.child().dataType(), cast.dataType())) {
      column = cast.child();
    }
    List<String> path = ConditionTranslator.path(column);
    return path == null ? null : new KeyColumn(path, column.dataType(), key.dataType());
  }

  /** {@code column IN (keys)}, without the keys that no value of the column equals; null if it cannot be planned. */
  PlannerPredicate in(Object[] keys, PredicateTranslator predicates) {
    return predicates.in(path, type, Arrays.stream(keys).map(this::narrowed).filter(Objects::nonNull).toList());
  }

  /** The value of the column that equals {@code key}; null if none does. */
  private Object narrowed(Object key) {
    if (key == null || type.equals(keyType)) {
      return key;
    }
    Literal wide = new Literal(key, keyType);
    Object value = new Cast(wide, type, Option.empty(), EvalMode.TRY()).eval(null);
    if (value == null) {
      return null;
    }
    Expression back = new Cast(new Literal(value, type), keyType, Option.empty(), EvalMode.TRY());
    return Boolean.TRUE.equals(new EqualTo(wide, back).eval(null)) ? value : null;
  }
}
