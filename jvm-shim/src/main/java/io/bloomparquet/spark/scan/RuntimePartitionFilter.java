package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What arrives while a query runs and concerns a partition column, as Spark's file index takes it: col IN (values). */
final class RuntimePartitionFilter {
  private RuntimePartitionFilter() {}

  static boolean concerns(Predicate predicate, StructType partitions) {
    return columnOf(predicate, partitions) != null;
  }

  static List<org.apache.spark.sql.catalyst.expressions.Expression> all(
      List<Predicate> predicates, StructType partitions) {
    List<org.apache.spark.sql.catalyst.expressions.Expression> found = new ArrayList<>();
    for (Predicate predicate : predicates) {
      StructField field = columnOf(predicate, partitions);
      List<org.apache.spark.sql.catalyst.expressions.Expression> values = new ArrayList<>();
      boolean sure = field != null;
      for (Expression child : Arrays.asList(predicate.children()).subList(1, predicate.children().length)) {
        sure = sure && child instanceof Literal<?> literal && literal.dataType().equals(field.dataType());
        if (sure) {
          values.add(
              org.apache.spark.sql.catalyst.expressions.Literal.create(((Literal<?>) child).value(), field.dataType()));
        }
      }
      if (sure) {
        AttributeReference column = DataTypeUtils.toAttribute(field);
        found.add(new In(column, Scala.seq(values)));
      }
    }
    return found;
  }

  private static StructField columnOf(Predicate predicate, StructType partitions) {
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
