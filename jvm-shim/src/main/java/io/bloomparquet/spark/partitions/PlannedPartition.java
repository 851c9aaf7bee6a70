package io.bloomparquet.spark.partitions;

import java.io.Serial;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/**
 * The first partition of a plan that skips files. If the plan may be older than the running query, its task also checks
 * that the skipped files have not changed.
 *
 * <p>Spark keeps the partitions of a DataFrame for later queries, and serializes them for each task. So the list of
 * files to check is made when the partition is serialized. Only the task knows which query it is of: two threads may
 * run one DataFrame, and the later query may start its task first.
 */
final class PlannedPartition extends FilePartition {
  @Serial private static final long serialVersionUID = 1;

  private final transient KeptParts parts;
  private final SkippedFiles skipped;
  private final KeptParts.Id unchecked;

  PlannedPartition(int index, PartitionedFile[] files, KeptParts parts) {
    this(index, files, parts, null, null);
  }

  /** @param unchecked the plan, if the query that made it need not check {@code skipped}; else null */
  private PlannedPartition(
      int index, PartitionedFile[] files, KeptParts parts, SkippedFiles skipped, KeptParts.Id unchecked) {
    super(index, files);
    this.parts = parts;
    this.skipped = skipped;
    this.unchecked = unchecked;
  }

  /** The files that the task must check; null if none. */
  SkippedFiles skipped() {
    if (unchecked == null || unchecked.execution().equals(execution())) {
      return skipped;
    }
    SkippedFiles files = KeptParts.skippedBy(unchecked);
    if (files == null) {
      throw new IllegalStateException(
          "another query runs the same DataFrame, so it is unknown whether files changed after the query was planned; "
              + "Spark repeats the task, which then checks them");
    }
    return files;
  }

  private static String execution() {
    TaskContext task = TaskContext.get();
    return task == null ? null : task.getLocalProperty(KeptParts.EXECUTION_ID);
  }

  @Serial
  private Object writeReplace() {
    if (parts == null) {
      return this;
    }
    SkippedFiles toCheck = parts.skippedToCheck();
    return new PlannedPartition(index(), files(), null, toCheck, toCheck == null ? parts.id() : null);
  }
}
