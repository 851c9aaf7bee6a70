package io.bloomparquet.spark.filters;

import io.bloomparquet.spark.support.Scala;
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

/** Creates Spark's writers of Parquet files, with our filters. */
final class BloomWriterFactory extends OutputWriterFactory {
  private static final long serialVersionUID = 1L;

  private final OutputWriterFactory writers;
  private final FilterPlan plan;
  private final Map<String, String> substitute;

  /** @param substitute settings for parquet-java's own filters, where ours cannot be written */
  BloomWriterFactory(OutputWriterFactory writers, FilterPlan plan, Map<String, String> substitute) {
    this.writers = writers;
    this.plan = plan;
    this.substitute = substitute;
  }

  @Override
  public String getFileExtension(TaskAttemptContext context) {
    return writers.getFileExtension(context);
  }

  @Override
  public OutputWriter newInstance(String path, StructType dataSchema, TaskAttemptContext context) {
    if (!RowGroupFilters.isSupported()) {
      substitute.forEach(context.getConfiguration()::set);
      return writers.newInstance(path, dataSchema, context);
    }
    return new Writer(path, context, plan);
  }

  /** Spark's ParquetOutputWriter, with another write support. */
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
        throw Scala.unchecked(error);
      }
      support.writeTo(new RowGroupFilters(records));
    }

    @Override
    public void write(InternalRow row) {
      try {
        records.write(null, row);
      } catch (IOException | InterruptedException error) {
        throw Scala.unchecked(error);
      }
    }

    @Override
    public void close() {
      try {
        records.close(context);
      } catch (IOException | InterruptedException error) {
        throw Scala.unchecked(error);
      }
    }

    @Override
    public String path() {
      return path;
    }
  }
}
