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

  private final transient KeptParts planned;
  private final SkippedFiles skipped;

  PlannedPartition(int index, PartitionedFile[] files, KeptParts planned) {
    this(index, files, planned, null);
  }

  private PlannedPartition(int index, PartitionedFile[] files, KeptParts planned, SkippedFiles skipped) {
    super(index, files);
    this.planned = planned;
    this.skipped = skipped;
  }

  /** The files that the task must check; null if none. */
  SkippedFiles skipped() {
    return skipped;
  }

  @Serial
  private Object writeReplace() {
    return planned == null ? this : new PlannedPartition(index(), files(), null, planned.skippedToCheck());
  }
}
