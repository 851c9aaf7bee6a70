package io.bloomparquet.spark.partitions;

import java.io.Serial;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/**
 * The first partition of a plan that skips files. If the plan may be older than the running query, its task also checks
 * that the skipped files have not changed.
 *
 * <p>Spark keeps the partitions of a DataFrame for later queries, and serializes them for each task. So the list of
 * files to check is made when the partition is serialized.
 */
final class PlannedPartition extends FilePartition {
  @Serial private static final long serialVersionUID = 1;

  private final transient KeptParts parts;
  private final SkippedFiles skipped;

  PlannedPartition(int index, PartitionedFile[] files, KeptParts parts) {
    this(index, files, parts, null);
  }

  private PlannedPartition(int index, PartitionedFile[] files, KeptParts parts, SkippedFiles skipped) {
    super(index, files);
    this.parts = parts;
    this.skipped = skipped;
  }

  /** The files that the task must check; null if none. */
  SkippedFiles skipped() {
    return skipped;
  }

  @Serial
  private Object writeReplace() {
    return parts == null ? this : new PlannedPartition(index(), files(), null, parts.skippedToCheck());
  }
}
