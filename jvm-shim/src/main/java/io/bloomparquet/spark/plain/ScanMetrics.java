package io.bloomparquet.spark.plain;

import java.io.Serializable;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.Iterator;

/**
 * The metrics of one of Spark's scans, for rows that a copy of it reads. The copy counts the rows in metrics of its own,
 * which no query shows.
 */
final class ScanMetrics implements Serializable {
  private static final long serialVersionUID = 1L;

  private final SQLMetric rows;
  private final SQLMetric time; // null: Spark measures it for batches only

  ScanMetrics(FileSourceScanExec scan) {
    rows = scan.longMetric("numOutputRows");
    Option<SQLMetric> scanTime = scan.metrics().get("scanTime");
    time = scanTime.isDefined() ? scanTime.get() : null;
  }

  <T> T counted(T item) {
    rows.add(item instanceof ColumnarBatch batch ? batch.numRows() : 1);
    return item;
  }

  /** Whether there are more rows. Spark's scan reads the next batch when it is asked this. */
  boolean timed(Iterator<?> items) {
    if (time == null) {
      return items.hasNext();
    }
    long began = System.nanoTime();
    boolean more = items.hasNext();
    time.add(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
    return more;
  }
}
