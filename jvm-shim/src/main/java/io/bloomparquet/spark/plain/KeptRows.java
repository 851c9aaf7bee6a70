package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.partitions.UnchangedFiles;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FilePartition;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The rows (or batches) of one of Spark's scans, over the kept byte ranges only. Spark's own RDDs read each of our
 * partitions: they take any {@link FilePartition}.
 */
final class KeptRows<T> extends OtherPartitions<T> {
  private static final long serialVersionUID = 1L;

  private final UnchangedFiles unchanged;
  private final ScanMetrics metrics;
  private final boolean isSorted;

  /**
   * @param metrics of the scan in the query's plan; {@code scan} may be of a copy of it
   * @param isSorted whether Spark relies on the order of the rows. It may then stop before the last row, as a merge join
   *     does, and take missing rows for absent ones
   */
  KeptRows(
      RDD<T> scan, FilePartition[] partitions, UnchangedFiles unchanged, ScanMetrics metrics, boolean isSorted) {
    super(scan, partitions);
    this.unchanged = unchanged;
    this.metrics = metrics;
    this.isSorted = isSorted;
  }

  @Override
  public Iterator<T> compute(Partition partition, TaskContext context) {
    Iterator<T> rows = super.compute(partition, context);
    if (isSorted) {
      context.addTaskCompletionListener(
          task -> {
            if (!task.isFailed()) {
              check((FilePartition) partition);
            }
          });
    }
    return new AbstractIterator<>() {
      private boolean isChecked;

      @Override
      public boolean hasNext() {
        boolean more;
        try {
          more = metrics.timed(rows);
        } catch (Exception error) { // not RuntimeException: Scala throws undeclared checked exceptions
          throw Scala.unchecked(unchanged.explain(error, (FilePartition) partition));
        }
        if (!more && !isChecked) {
          isChecked = true;
          check((FilePartition) partition);
        }
        return more;
      }

      @Override
      public T next() {
        return metrics.counted(rows.next());
      }
    };
  }

  private void check(FilePartition partition) {
    try {
      unchanged.check(partition);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
