package io.bloomparquet.spark.planner;

import org.apache.hadoop.fs.Path;

/**
 * A file as Spark listed it.
 *
 * @param size in bytes
 * @param modified modification time, in milliseconds
 */
public record ListedFile(Path path, long size, long modified) {}
