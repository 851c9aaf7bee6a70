package io.bloomparquet.spark.write;

import org.apache.hadoop.fs.Path;

/**
 * The files that a write replaces when its job commits.
 *
 * @param replaced the directory whose old files are deleted; null if the job deletes nothing
 * @param table the name of the table whose partitions are in the catalog; null if there is none
 */
public record Overwrite(Path replaced, String table) {

  /** The job deletes nothing: the write is an append, or Spark deletes the old files before the job. */
  static final Overwrite NONE = new Overwrite(null, null);
}
