package io.bloomparquet.spark.filters;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;

/** Which Bloom filters a write makes; its options are checked. */
public interface FilterOptions {

  /** Sets what the format's own writer is to do of itself. {@link IllegalArgumentException} where it cannot. */
  void applyTo(Configuration conf);

  /** Has filters made as planned in the files that {@code sparks} would write. */
  default OutputWriterFactory writers(OutputWriterFactory sparks, Configuration conf) {
    return sparks;
  }
}
