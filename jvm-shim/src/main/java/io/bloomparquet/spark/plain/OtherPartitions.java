package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.support.Scala;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** The rows (or batches) of a scan's RDD over other partitions than its own, which it reads as if they were. */
class OtherPartitions<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  private final RDD<T> scan;
  private final transient Partition[] partitions;

  OtherPartitions(RDD<T> scan, Partition[] partitions) {
    super(scan.context(), Scala.seq(List.<Dependency<?>>of(new NoParents<>(scan))), scan.elementClassTag());
    this.scan = scan;
    this.partitions = partitions;
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
    RDD<?> reader = scan;
    while (reader.dependencies().size() == 1) {
      reader = reader.dependencies().head().rdd();
    }
    return reader.getPreferredLocations(partition);
  }

  @Override
  public Iterator<T> compute(Partition partition, TaskContext context) {
    return scan.compute(partition, context);
  }
}
