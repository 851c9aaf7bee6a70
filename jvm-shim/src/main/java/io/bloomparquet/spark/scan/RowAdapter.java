package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Turns the rows of Spark's reader into the rows of the scan: applies the load's predicate, and adds {@code _metadata}.
 *
 * @param condition over {@code input}; rows for which it is not TRUE are dropped
 * @param input the columns that are read
 * @param metadata the metadata to append; null for none
 * @param output the columns of {@code input} that are returned, in the same order, and the metadata
 */
record RowAdapter(Expression condition, List<Attribute> input, FileMetadata metadata, StructType output)
    implements Serializable {

  PartitionReaderFactory applyTo(PartitionReaderFactory files) {
    return new Factory(files, this);
  }

  /** From a row of the input, joined with the values that depend on its file. */
  private UnsafeProjection projection() {
    Map<String, Integer> positions = new HashMap<>();
    for (Attribute column : input) {
      positions.put(column.name(), positions.size());
    }
    List<Expression> columns = new ArrayList<>();
    for (StructField field : output.fields()) {
      columns.add(
          metadata != null && field.name().equals(FileMetadata.NAME)
              ? metadataOf(positions)
              : new BoundReference(positions.get(field.name()), field.dataType(), field.nullable()));
    }
    return UnsafeProjection.create(Scala.seq(columns));
  }

  private Expression metadataOf(Map<String, Integer> positions) {
    List<Expression> parts = new ArrayList<>();
    int position = input.size();
    for (StructField field : metadata.fields().fields()) {
      String read = metadata.readAs(field.name());
      parts.add(new Literal(UTF8String.fromString(field.name()), DataTypes.StringType));
      parts.add(new BoundReference(read == null ? position : positions.get(read), field.dataType(), field.nullable()));
      position++;
    }
    return new CreateNamedStruct(Scala.seq(parts));
  }

  private record Factory(PartitionReaderFactory files, RowAdapter adapter) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new Reader(files.createReader(partition), (FilePartition) partition, adapter);
    }
  }

  private static final class Reader implements PartitionReader<InternalRow> {
    private final PartitionReader<InternalRow> rows;
    private final FilePartition partition;
    private final FileMetadata metadata;
    private final BasePredicate matches;
    private final UnsafeProjection projection;
    private final JoinedRow joined = new JoinedRow();
    private PartitionedFile file;
    private InternalRow fileValues;

    Reader(PartitionReader<InternalRow> rows, FilePartition partition, RowAdapter adapter) {
      this.rows = rows;
      this.partition = partition;
      metadata = adapter.metadata();
      matches = Predicate$.MODULE$.create(adapter.condition(), Scala.seq(adapter.input()));
      matches.initialize(partition.index());
      projection = adapter.projection();
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
      return projection.apply(metadata == null ? rows.get() : joined.apply(rows.get(), fileValues()));
    }

    private InternalRow fileValues() {
      PartitionedFile current = FileMetadata.current(partition, file);
      if (current != file) {
        file = current;
        fileValues = metadata.valuesOf(current);
      }
      return fileValues;
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
