package io.bloomparquet.spark.partitions;

import io.bloomparquet.spark.files.FileCheck;
import io.bloomparquet.spark.files.FileVersion;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.deploy.SparkHadoopUtil;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Fails a task if one of its files is no longer the planned version. A partition is byte ranges, and Spark keeps the
 * partitions of a DataFrame: in a replaced file the ranges would miss rows silently.
 *
 * <p>A reader checks after its last row, and when it fails: a file that is unchanged then was unchanged before.
 *
 * @param configuration finds the files; null for local files, which need no settings
 * @param host the driver's host
 * @param ignoreMissing whether missing files are ignored, as Spark's option {@code ignoreMissingFiles} says
 */
public record UnchangedFiles(Broadcast<SerializableConfiguration> configuration, String host, boolean ignoreMissing)
    implements Serializable {

  public UnchangedFiles(Broadcast<SerializableConfiguration> configuration, boolean ignoreMissing) {
    this(configuration, currentHost(), ignoreMissing);
  }

  private static String currentHost() {
    return SparkEnv.get().blockManager().blockManagerId().host();
  }

  /** Throws {@link IllegalStateException} if a file of the partition, or a skipped file, has changed. */
  public void check(FilePartition partition) throws IOException {
    Configuration settings = configuration == null ? SparkHadoopUtil.get().conf() : configuration.value().value();
    FileCheck check = new FileCheck(settings, currentHost().equals(host), ignoreMissing);
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

  /** The exception to throw after {@code error}, which a replaced file may have caused. */
  public Exception explain(Exception error, FilePartition partition) {
    if (error instanceof FileNotFoundException) {
      return error;
    }
    try {
      check(partition);
    } catch (IllegalStateException changed) {
      changed.addSuppressed(error);
      return changed;
    } catch (IOException unreadable) {
      error.addSuppressed(unreadable);
    }
    return error;
  }
}
