package io.bloomparquet.spark.write;

import org.apache.hadoop.fs.Path;

/**
 * What a write replaces when its job commits.
 *
 * @param replaced the directory whose files are deleted; null for none
 * @param table the table whose partitions the catalog knows; null for another
 */
public record Overwrite(Path replaced, String table) {

  /** Of a write that replaces nothing, or for which Spark deletes the files before the job. */
  static final Overwrite NONE = new Overwrite(null, null);
}
