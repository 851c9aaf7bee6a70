package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.FileCheck;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.support.SparkVersions;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Fails a task if one of its files is no longer the planned version. A partition is byte ranges, and Spark keeps the
 * partitions of a DataFrame: in a replaced file the ranges would miss rows silently.
 *
 * <p>Checks after the last row: a file that is unchanged then was unchanged before.
 *
 * @param host the driver's host
 */
record UnchangedFiles(
    PartitionReaderFactory files, Broadcast<SerializableConfiguration> configuration, String host)
    implements PartitionReaderFactory {

  static UnchangedFiles of(PartitionReaderFactory files, SparkSession session) {
    return new UnchangedFiles(files, configuration(files, session), currentHost());
  }

  private static String currentHost() {
    return SparkEnv.get().blockManager().blockManagerId().host();
  }

  /** The configuration that Spark broadcast for the reader; a new broadcast for an unknown reader. */
  private static Broadcast<SerializableConfiguration> configuration(PartitionReaderFactory files, SparkSession session) {
    if (files instanceof ParquetPartitionReaderFactory parquet) {
      return parquet.broadcastedConf();
    }
    return files instanceof OrcPartitionReaderFactory orc
        ? orc.broadcastedConf()
        : SparkVersions.broadcast(session.sparkContext(), session.sessionState().newHadoopConf());
  }

  private FileCheck newCheck() {
    boolean ignoreMissing =
        files instanceof FilePartitionReaderFactory known && known.options().ignoreMissingFiles();
    return new FileCheck(configuration.value().value(), currentHost().equals(host), ignoreMissing);
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return files.supportColumnarReads(partition);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader<>(files.createReader(partition), (FilePartition) partition, newCheck());
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader<>(files.createColumnarReader(partition), (FilePartition) partition, newCheck());
  }

  private static final class Reader<T> implements PartitionReader<T> {
    private final PartitionReader<T> rows;
    private final FilePartition partition;
    private final FileCheck check;

    Reader(PartitionReader<T> rows, FilePartition partition, FileCheck check) {
      this.rows = rows;
      this.partition = partition;
      this.check = check;
    }

    @Override
    public boolean next() throws IOException {
      try {
        if (rows.next()) {
          return true;
        }
      } catch (FileNotFoundException error) {
        throw error;
      } catch (IOException | RuntimeException error) {
        // The reader may have failed because the file was replaced.
        try {
          checkFiles();
        } catch (IllegalStateException changed) {
          changed.addSuppressed(error);
          throw changed;
        }
        throw error;
      }
      checkFiles();
      return false;
    }

    private void checkFiles() throws IOException {
      Path last = null;
      for (PartitionedFile file : partition.files()) {
        Path path = file.toPath();
        if (!path.equals(last)) {
          check.require(path, FileVersion.of(file));
          last = path;
        }
      }
      if (partition instanceof PlannedPartition first && first.skipped() != null) {
        first.skipped().check(check);
      }
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
