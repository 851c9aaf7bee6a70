package io.bloomparquet.spark;

import io.bloomparquet.spark.commands.KeyProviderRule;
import io.bloomparquet.spark.filters.BloomWriteOptions;
import io.bloomparquet.spark.filters.FilterOptions;
import io.bloomparquet.spark.scan.BloomParquetTable;
import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.scan.TableDefinition;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.Scala;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.parquet.hadoop.ParquetOutputCommitter;
import org.apache.parquet.hadoop.ParquetOutputFormat;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** The data source {@code bloomparquet}. */
public final class BloomParquetSource extends ParquetFileFormat implements BloomSource {
  private static final long serialVersionUID = 1L;

  /** parquet-java's older name for {@link ParquetOutputFormat#JOB_SUMMARY_LEVEL}. */
  private static final String SUMMARY = "parquet.enable.summary-metadata";

  private final transient Load load = new Load();

  public BloomParquetSource() {
    BloomSource.prepareSession();
  }

  @Override
  public FileFormat format() {
    return FileFormat.PARQUET;
  }

  @Override
  public Load load() {
    return load;
  }

  @Override
  public String shortName() {
    return format().source();
  }

  @Override
  public String toString() {
    return format().source();
  }

  @Override
  public PrunedTable newTable(TableDefinition definition) {
    return new BloomParquetTable(definition);
  }

  @Override
  public FilterOptions newFilterOptions(Map<String, String> options, StructType schema) {
    return new BloomWriteOptions(options, schema);
  }

  @Override
  public boolean commitsPlainly(Configuration conf) {
    return ParquetOutputCommitter.class
            .getName()
            .equals(conf.get(SQLConf.PARQUET_OUTPUT_COMMITTER_CLASS().key(), ParquetOutputCommitter.class.getName()))
        && !summarizes(conf);
  }

  /** Whether the committer writes a summary of all files in the directory. It would cover the old files too. */
  private static boolean summarizes(Configuration conf) {
    String level = conf.get(ParquetOutputFormat.JOB_SUMMARY_LEVEL);
    return level == null
        ? conf.getBoolean(SUMMARY, false)
        : !level.equalsIgnoreCase(ParquetOutputFormat.JobSummaryLevel.NONE.name());
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session,
      Job job,
      scala.collection.immutable.Map<String, String> options,
      StructType schema) {
    Configuration conf = job.getConfiguration();
    KeyProviderRule.check(OptionLayers.of(Scala.map(options)), sessionOptions(session), conf);
    return prepareWrite(session, conf, options, schema, () -> super.prepareWrite(session, job, options, schema));
  }

  @Override
  public scala.Function1<PartitionedFile, scala.collection.Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      scala.collection.immutable.Seq<Filter> filters,
      scala.collection.immutable.Map<String, String> options,
      Configuration conf) {
    checkPlainRead(options);
    return super.buildReaderWithPartitionValues(
        session, dataSchema, partitionSchema, requiredSchema, filters, options, conf);
  }
}
