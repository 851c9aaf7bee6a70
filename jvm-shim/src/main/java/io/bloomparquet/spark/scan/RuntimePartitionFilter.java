package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Translates runtime predicates on partition columns, {@code column IN (values)}, for Spark's file index. */
final class RuntimePartitionFilter {
  private RuntimePartitionFilter() {}

  /** The predicates that are on a partition column, with values of its type. Drops all others. */
  static List<Expression> translate(Predicate[] predicates, StructType partitions) {
    List<Expression> translated = new ArrayList<>();
    for (Predicate predicate : predicates) {
      if (!predicate.name().equals("IN")
          || !(predicate.children()[0] instanceof NamedReference column)
          || column.fieldNames().length != 1
          || !Arrays.asList(partitions.fieldNames()).contains(column.fieldNames()[0])) {
        continue;
      }
      StructField field = partitions.apply(column.fieldNames()[0]);
      List<Expression> values = new ArrayList<>();
      for (var child : predicate.children()) {
        if (child instanceof Literal<?> literal && literal.dataType().equals(field.dataType())) {
          values.add(
              org.apache.spark.sql.catalyst.expressions.Literal.create(literal.value(), field.dataType()));
        }
      }
      if (values.size() == predicate.children().length - 1) {
        translated.add(new In(DataTypeUtils.toAttribute(field), Scala.seq(values)));
      }
    }
    return translated;
  }
}
