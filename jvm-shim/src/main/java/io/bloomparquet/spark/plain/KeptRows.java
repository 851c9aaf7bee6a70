package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.partitions.UnchangedFiles;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FilePartition;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * The rows (or batches) of one of Spark's scans, over the kept byte ranges only. Spark's own RDDs read each of our
 * partitions: they take any {@link FilePartition}.
 */
final class KeptRows<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  private final RDD<T> scan;
  private final transient FilePartition[] partitions;
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
    super(scan.context(), Scala.seq(List.<Dependency<?>>of(new NoParents<>(scan))), scan.elementClassTag());
    this.scan = scan;
    this.partitions = partitions;
    this.unchanged = unchanged;
    this.metrics = metrics;
    this.isSorted = isSorted;
  }

  /** Whether {@code rdd} hands each of its partitions down to {@code files} as it is. */
  static boolean passesPartitions(RDD<?> rdd, RDD<?> files) {
    for (RDD<?> each = rdd; each != files; ) {
      List<Dependency<?>> dependencies = Scala.list(each.dependencies());
      if (dependencies.size() != 1 || !(dependencies.get(0) instanceof OneToOneDependency<?> parent)) {
        return false;
      }
      each = parent.rdd();
    }
    return true;
  }

  /** The dependency on the scan's RDD. Our partitions have no parent partitions: compute passes them straight to it. */
  private static final class NoParents<T> extends NarrowDependency<T> {
    private static final long serialVersionUID = 1L;

    NoParents(RDD<T> scan) {
      super(scan);
    }

    @Override
    public Seq<Object> getParents(int partition) {
      return Scala.seq(List.of());
    }
  }

  @Override
  public Partition[] getPartitions() {
    return partitions;
  }

  @Override
  public Seq<String> getPreferredLocations(Partition partition) {
    return Scala.seq(Arrays.asList(((FilePartition) partition).preferredLocations()));
  }

  @Override
  public Iterator<T> compute(Partition partition, TaskContext context) {
    Iterator<T> rows = scan.compute(partition, context);
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
          throw Thrown.unchecked(unchanged.explain(error, (FilePartition) partition));
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
