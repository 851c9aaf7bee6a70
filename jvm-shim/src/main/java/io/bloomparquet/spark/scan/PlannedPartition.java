package io.bloomparquet.spark.scan;

import java.io.Serial;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/**
 * The first partition of a plan that skips files. Its task also checks the skipped files, whenever the plan may be older
 * than the query that runs it.
 *
 * <p>Spark serializes a partition whenever it starts a task for it, also for every later query over the same DataFrame;
 * it plans no second time. So what the task has to check is decided while the partition is serialized.
 */
final class PlannedPartition extends FilePartition {
  @Serial private static final long serialVersionUID = 1;

  private final transient PlannedFiles planned;
  private final SkippedFiles skipped;

  PlannedPartition(int index, PartitionedFile[] files, PlannedFiles planned) {
    this(index, files, planned, null);
  }

  private PlannedPartition(int index, PartitionedFile[] files, PlannedFiles planned, SkippedFiles skipped) {
    super(index, files);
    this.planned = planned;
    this.skipped = skipped;
  }

  /** In a task: what to check; null if nothing. */
  SkippedFiles skipped() {
    return skipped;
  }

  @Serial
  private Object writeReplace() {
    return planned == null ? this : new PlannedPartition(index(), files(), null, planned.skippedToCheck());
  }
}
