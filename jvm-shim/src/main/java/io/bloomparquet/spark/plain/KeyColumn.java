package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.LosslessCast;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
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
    List<String> path = path(column);
    return path == null ? null : new KeyColumn(path, column.dataType(), key.dataType());
  }

  private static List<String> path(Expression column) {
    if (column instanceof AttributeReference attribute) {
      return List.of(attribute.name());
    }
    if (column instanceof GetStructField field && field.child().dataType() instanceof StructType struct) {
      List<String> parent = path(field.child());
      if (parent != null) {
        List<String> path = new ArrayList<>(parent);
        path.add(struct.fields()[field.ordinal()].name());
        return path;
      }
    }
    return null;
  }

  /** {@code column IN (keys)}, without the keys that no value of the column equals. */
  Predicate in(Object[] keys) {
    List<org.apache.spark.sql.connector.expressions.Expression> children = new ArrayList<>();
    children.add(new FieldReference(Scala.seq(path)));
    for (Object key : keys) {
      Object value = narrowed(key);
      if (value != null) {
        children.add(new LiteralValue<>(value, type));
      }
    }
    return new Predicate("IN", children.toArray(org.apache.spark.sql.connector.expressions.Expression[]::new));
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
