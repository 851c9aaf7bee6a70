package io.bloomparquet.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Fails a task of which a file is no longer the one that was planned. A plan is byte ranges, and Spark keeps the plan of a
 * DataFrame that is asked again: where a file was replaced by one whose row groups lie elsewhere, rows would be missing
 * without a word. (Spark's own ranges cover all of a file, so each row group falls into one of them wherever it lies.)
 *
 * <p>Looked at when all rows were read: a file that is unchanged then was so before.
 *
 * @param whole files that are read as Spark's own ranges have it
 */
record UnchangedFiles(
    PartitionReaderFactory files, Broadcast<SerializableConfiguration> configuration, HashSet<Path> whole)
    implements PartitionReaderFactory {
  private static final long SECOND = 1000;

  static UnchangedFiles of(PartitionReaderFactory files, SparkSession session, Set<Path> whole) {
    return new UnchangedFiles(files, configuration(files, session), new HashSet<>(whole));
  }

  /** The one that the files are read with; broadcast anew where it is not known. */
  private static Broadcast<SerializableConfiguration> configuration(PartitionReaderFactory files, SparkSession session) {
    if (files instanceof ParquetPartitionReaderFactory parquet) {
      return parquet.broadcastedConf();
    }
    return files instanceof OrcPartitionReaderFactory orc
        ? orc.broadcastedConf()
        : SerializableConfiguration.broadcast(session.sparkContext(), session.sessionState().newHadoopConf());
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return files.supportColumnarReads(partition);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader<>(files.createReader(partition), (FilePartition) partition, this);
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader<>(files.createColumnarReader(partition), (FilePartition) partition, this);
  }

  private static final class Reader<T> implements PartitionReader<T> {
    private final PartitionReader<T> rows;
    private final FilePartition partition;
    private final UnchangedFiles planned;

    Reader(PartitionReader<T> rows, FilePartition partition, UnchangedFiles planned) {
      this.rows = rows;
      this.partition = partition;
      this.planned = planned;
    }

    @Override
    public boolean next() throws IOException {
      if (rows.next()) {
        return true;
      }
      Path last = null;
      for (PartitionedFile file : partition.files()) {
        Path path = file.toPath();
        if (!path.equals(last) && !planned.whole().contains(path)) {
          check(file, path);
          last = path;
        }
      }
      return false;
    }

    private void check(PartitionedFile file, Path path) throws IOException {
      FileStatus found;
      try {
        found = path.getFileSystem(planned.configuration().value().value()).getFileStatus(path);
      } catch (FileNotFoundException gone) {
        return; // after it was read, or reading it would have failed
      }
      if (found.getLen() != file.fileSize() || !sameTime(found.getModificationTime(), file.modificationTime())) {
        throw new IllegalStateException(
            path
                + " was replaced after this query was planned, so that its rows would not be all there are; "
                + "load the DataFrame anew, or REFRESH TABLE, and run it again");
      }
    }

    /** Listings of object stores may know milliseconds where the status of one file knows seconds. */
    private static boolean sameTime(long one, long other) {
      return one == other || ((one % SECOND == 0 || other % SECOND == 0) && one / SECOND == other / SECOND);
    }

    @Override
    public T get() {
      return rows.get();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return rows.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      rows.close();
    }
  }
}
