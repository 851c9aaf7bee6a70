package io.bloomparquet.spark.filters;

import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.parquet.hadoop.ParquetOutputFormat;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.StructType;

/** Writers of files as Spark makes them, with filters of our own in the files. */
final class BloomWriterFactory extends OutputWriterFactory {
  private static final long serialVersionUID = 1L;

  private final OutputWriterFactory sparks;
  private final FilterPlan plan;
  private final Map<String, String> substitute;

  /** @param substitute what to set for parquet-java to make the filters, where we cannot */
  BloomWriterFactory(OutputWriterFactory sparks, FilterPlan plan, Map<String, String> substitute) {
    this.sparks = sparks;
    this.plan = plan;
    this.substitute = substitute;
  }

  @Override
  public String getFileExtension(TaskAttemptContext context) {
    return sparks.getFileExtension(context);
  }

  @Override
  public OutputWriter newInstance(String path, StructType dataSchema, TaskAttemptContext context) {
    if (!RowGroupFilters.areReachable()) {
      substitute.forEach(context.getConfiguration()::set);
      return sparks.newInstance(path, dataSchema, context);
    }
    return new Writer(path, context, plan);
  }

  /** As Spark's own, but for who turns rows into records. */
  private static final class Writer extends OutputWriter {
    private final String path;
    private final TaskAttemptContext context;
    private final RecordWriter<Void, InternalRow> records;

    Writer(String path, TaskAttemptContext context, FilterPlan plan) {
      this.path = path;
      this.context = context;
      BloomWriteSupport support = new BloomWriteSupport(path, plan);
      try {
        records = new ParquetOutputFormat<InternalRow>(support).getRecordWriter(context, new Path(path));
      } catch (IOException | InterruptedException error) {
        throw Thrown.unchecked(error);
      }
      support.writeTo(new RowGroupFilters(records));
    }

    @Override
    public void write(InternalRow row) {
      try {
        records.write(null, row);
      } catch (IOException | InterruptedException error) {
        throw Thrown.unchecked(error);
      }
    }

    @Override
    public void close() {
      try {
        records.close(context);
      } catch (IOException | InterruptedException error) {
        throw Thrown.unchecked(error);
      }
    }

    @Override
    public String path() {
      return path;
    }
  }
}
