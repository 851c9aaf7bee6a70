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

  /** Whether the predicate is on a partition column. */
  static boolean concerns(Predicate predicate, StructType partitions) {
    return column(predicate, partitions) != null;
  }

  /** The translations of {@code predicates}, which are all on partition columns. Drops a predicate with a value of another type. */
  static List<Expression> translate(List<Predicate> predicates, StructType partitions) {
    List<Expression> translated = new ArrayList<>();
    for (Predicate predicate : predicates) {
      StructField field = column(predicate, partitions);
      List<Literal<?>> literals = new ArrayList<>();
      Arrays.stream(predicate.children()).skip(1).forEach(each -> literals.add(each instanceof Literal<?> it ? it : null));
      if (field != null && literals.stream().allMatch(each -> each != null && each.dataType().equals(field.dataType()))) {
        List<Expression> values = new ArrayList<>();
        literals.forEach(
            each ->
                values.add(
                    org.apache.spark.sql.catalyst.expressions.Literal.create(each.value(), field.dataType())));
        translated.add(new In(DataTypeUtils.toAttribute(field), Scala.seq(values)));
      }
    }
    return translated;
  }

  private static StructField column(Predicate predicate, StructType partitions) {
    if (!predicate.name().equals("IN")
        || !(predicate.children()[0] instanceof NamedReference column)
        || column.fieldNames().length != 1) {
      return null;
    }
    return Arrays.stream(partitions.fields())
        .filter(field -> field.name().equals(column.fieldNames()[0]))
        .findFirst()
        .orElse(null);
  }
}
