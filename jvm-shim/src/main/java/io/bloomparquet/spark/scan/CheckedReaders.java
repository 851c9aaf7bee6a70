package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.partitions.UnchangedFiles;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/** Spark's readers, which check that the files of their partition are unchanged. */
record CheckedReaders(PartitionReaderFactory files, UnchangedFiles unchanged) implements PartitionReaderFactory {

  static CheckedReaders of(PartitionReaderFactory files, SparkSession session) {
    boolean ignoreMissing =
        files instanceof FilePartitionReaderFactory known && known.options().ignoreMissingFiles();
    return new CheckedReaders(files, new UnchangedFiles(configuration(files, session), ignoreMissing));
  }

  /** The configuration that Spark broadcast for the reader; a new broadcast for an unknown reader. */
  private static Broadcast<SerializableConfiguration> configuration(
      PartitionReaderFactory files, SparkSession session) {
    if (files instanceof ParquetPartitionReaderFactory parquet) {
      return parquet.broadcastedConf();
    }
    return files instanceof OrcPartitionReaderFactory orc
        ? orc.broadcastedConf()
        : SparkVersions.broadcast(session.sparkContext(), session.sessionState().newHadoopConf());
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return files.supportColumnarReads(partition);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader<>(files.createReader(partition), (FilePartition) partition, unchanged);
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader<>(files.createColumnarReader(partition), (FilePartition) partition, unchanged);
  }

  private static final class Reader<T> implements PartitionReader<T> {
    private final PartitionReader<T> rows;
    private final FilePartition partition;
    private final UnchangedFiles unchanged;

    Reader(PartitionReader<T> rows, FilePartition partition, UnchangedFiles unchanged) {
      this.rows = rows;
      this.partition = partition;
      this.unchanged = unchanged;
    }

    @Override
    public boolean next() throws IOException {
      try {
        if (rows.next()) {
          return true;
        }
      } catch (IOException | RuntimeException error) {
        throw Thrown.unchecked(unchanged.explain(error, partition));
      }
      unchanged.check(partition);
      return false;
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
