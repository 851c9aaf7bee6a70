package io.bloomparquet.spark.filters;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;

/** The Bloom filters of a write, from options that were checked. */
public interface FilterOptions {

  /** Configures the format's own writer. {@link IllegalArgumentException} if {@code conf} contradicts the options. */
  void applyTo(Configuration conf);

  /** Adds our own filters to the files of Spark's {@code writers}, if there are any. */
  default OutputWriterFactory withFilters(OutputWriterFactory writers, Configuration conf) {
    return writers;
  }
}
