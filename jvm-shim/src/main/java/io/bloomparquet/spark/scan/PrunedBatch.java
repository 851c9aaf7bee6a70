package io.bloomparquet.spark.scan;

import java.util.Arrays;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** One execution of a scan: its partitions hold kept row groups only. */
final class PrunedBatch implements Batch {
  private final PrunedScan scan;
  private final Predicate[] runtime;
  private PlannedFiles planned;

  PrunedBatch(PrunedScan scan, Predicate[] runtime) {
    this.scan = scan;
    this.runtime = runtime;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return planned().partitions();
  }

  private synchronized PlannedFiles planned() {
    if (planned == null) {
      planned = scan.planned(runtime);
    }
    return planned;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    // Of whichever batch the partitions are: Spark may take the reader of one, and the partitions of another.
    PartitionReaderFactory files = UnchangedFiles.of(scan.files().createReaderFactory(), scan.session());
    return scan.adapter() == null ? files : scan.adapter().applyTo(files);
  }

  // Spark runs one of two equal scans, and gives its rows to both.
  @Override
  public boolean equals(Object other) {
    return other instanceof PrunedBatch that && scan.equals(that.scan) && Arrays.equals(runtime, that.runtime);
  }

  @Override
  public int hashCode() {
    return scan.hashCode();
  }
}
