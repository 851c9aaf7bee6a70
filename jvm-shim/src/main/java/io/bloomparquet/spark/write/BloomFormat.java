package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.filters.FilterOptions;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.StructType;

/**
 * One of Spark's file formats, which also writes filters. It reads like Spark's own. Spark uses it for tables, streams,
 * path queries, and all writes.
 */
public interface BloomFormat {

  FileFormat format();

  /** The filters of a write. Checks the values of its options, and throws {@link IllegalArgumentException}. */
  FilterOptions newFilterOptions(Map<String, String> options, StructType schema);

  /**
   * Checks the options of a write, and throws {@link IllegalArgumentException}.
   *
   * @param schema of the files
   * @param conf of the writer
   */
  default FilterOptions filters(
      SparkSession session,
      scala.collection.immutable.Map<String, String> options,
      StructType schema,
      Configuration conf) {
    Map<String, String> ofSession = SessionOptions.of(session, format());
    OptionNames.check(format(), Scala.map(options));
    SessionOptions.refuseWhere(
        Scala.map(options),
        "belongs to a load, and this is a write; filter the DataFrame instead, or write to a path or table without "
            + "this option");
    KeyProviderRule.check(Scala.map(options), ofSession, conf);
    return newFilterOptions(OptionNames.merge(ofSession, Scala.map(options)), schema);
  }

  /**
   * Prepares a job to write filters.
   *
   * @param superPrepareWrite Spark's own preparation
   */
  default OutputWriterFactory prepareWrite(
      SparkSession session,
      Job job,
      scala.collection.immutable.Map<String, String> options,
      StructType schema,
      Supplier<OutputWriterFactory> superPrepareWrite) {
    Configuration conf = job.getConfiguration();
    TableLog.refuseWriting(FileOutputFormat.getOutputPath(job), false, conf);
    FilterOptions filters = filters(session, options, schema, conf);
    filters.applyTo(conf);
    return filters.withFilters(superPrepareWrite.get(), conf);
  }

  /** Checks the options of a read that has no {@code where}: of a table, a stream, or a path query. */
  default void checkRead(scala.collection.immutable.Map<String, String> options) {
    OptionNames.check(format(), Scala.map(options));
    SessionOptions.refuseWhere(
        Scala.map(options),
        "belongs to spark.read.format(…).load(path) and to temporary views; use .where(…) or WHERE for tables, streams "
            + "and path queries");
  }
}
