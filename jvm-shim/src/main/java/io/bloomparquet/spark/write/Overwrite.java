package io.bloomparquet.spark.write;

import org.apache.hadoop.fs.Path;

/**
 * How a write overwrites.
 *
 * @param replaced the directory whose files are deleted when the job commits; null if Spark deletes before the job
 * @param table the table whose partitions the catalog knows; null for another
 */
public record Overwrite(Path replaced, String table) {}
