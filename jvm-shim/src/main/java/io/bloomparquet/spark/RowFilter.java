package io.bloomparquet.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/**
 * Lets through the rows of a reader for which a condition is TRUE, without the columns that only the condition needed.
 *
 * @param condition over {@code input}
 * @param input the columns that are read
 * @param output those of them that come out, in the same order
 */
record RowFilter(Expression condition, List<Attribute> input, StructType output) implements Serializable {

  PartitionReaderFactory applyTo(PartitionReaderFactory files) {
    return new Factory(files, this);
  }

  private UnsafeProjection projection() {
    Map<String, Integer> places = new HashMap<>();
    for (int i = 0; i < input.size(); i++) {
      places.put(input.get(i).name(), i);
    }
    List<Expression> columns = new ArrayList<>();
    Arrays.stream(output.fields())
        .forEach(
            field ->
                columns.add(new BoundReference(places.get(field.name()), field.dataType(), field.nullable())));
    return UnsafeProjection.create(Scala.seq(columns));
  }

  private record Factory(PartitionReaderFactory files, RowFilter filter) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new Reader(files.createReader(partition), filter);
    }
  }

  private static final class Reader implements PartitionReader<InternalRow> {
    private final PartitionReader<InternalRow> rows;
    private final BasePredicate matches;
    private final UnsafeProjection projection;

    Reader(PartitionReader<InternalRow> rows, RowFilter filter) {
      this.rows = rows;
      matches = Predicate$.MODULE$.create(filter.condition(), Scala.seq(filter.input()));
      matches.initialize(0);
      projection = filter.projection();
    }

    @Override
    public boolean next() throws IOException {
      while (rows.next()) {
        if (matches.eval(rows.get())) {
          return true;
        }
      }
      return false;
    }

    @Override
    public InternalRow get() {
      return projection.apply(rows.get());
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return rows.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      rows.close();
    }
  }
}
