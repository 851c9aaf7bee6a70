package io.bloomparquet.spark.commands;

import io.bloomparquet.spark.filters.FilterOptions;
import io.bloomparquet.spark.support.FileFormat;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/** One of our data sources, as the rules for commands need it. */
public interface FileSource {

  FileFormat format();

  /** The options that the session's settings give to each load and write. Checks their names. */
  Map<String, String> sessionOptions(SparkSession session);

  /**
   * The filters of a write. Checks the names and values of its options, and throws {@link IllegalArgumentException}.
   */
  FilterOptions filterOptions(Map<String, String> options, StructType schema);

  /** Whether the format's settings in {@code conf} allow that a committer of ours commits. */
  boolean commitsPlainly(Configuration conf);
}
