package io.bloomparquet.spark.write;

import io.bloomparquet.spark.filters.FilterOptions;
import io.bloomparquet.spark.filters.BloomWriteOptions;
import io.bloomparquet.spark.support.FileFormat;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** Spark's Parquet format, with Bloom filters. */
public final class BloomParquetFormat extends ParquetFileFormat implements BloomFormat {
  private static final long serialVersionUID = 1L;

  @Override
  public FileFormat format() {
    return FileFormat.PARQUET;
  }

  @Override
  public FilterOptions newFilterOptions(Map<String, String> options, StructType schema) {
    return new BloomWriteOptions(options, schema);
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session,
      Job job,
      scala.collection.immutable.Map<String, String> options,
      StructType schema) {
    return prepareWrite(session, job, options, schema, () -> super.prepareWrite(session, job, options, schema));
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
    checkRead(options);
    return super.buildReaderWithPartitionValues(
        session, dataSchema, partitionSchema, requiredSchema, filters, options, conf);
  }
}
