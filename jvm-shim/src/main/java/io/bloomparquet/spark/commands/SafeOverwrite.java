package io.bloomparquet.spark.commands;

import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Turns an overwrite into an append that deletes the old files when it is committed. Spark deletes first, and loses all
 * rows when the job fails after that. An option tells {@link ReplacingCommitter} which files are old.
 *
 * <p>Applies only where Spark's default protocol commits; where the user configured another one, Spark overwrites.
 */
public final class SafeOverwrite {
  private static final String OPTION = "bloomparquet.overwritten";

  /** The option's value for: all partitions that are written. */
  private static final String PARTITIONS = "partitions";

  /** Starts the option's value, so that a value that a user set has no effect. */
  private static final String TOKEN = UUID.randomUUID() + " ";

  private static final String ALGORITHM = "mapreduce.fileoutputcommitter.algorithm.version";

  private SafeOverwrite() {}

  /** {@code write} as an append, if it is an overwrite that can be turned into one. */
  static InsertIntoHadoopFsRelationCommand apply(InsertIntoHadoopFsRelationCommand write, FileSource source) {
    SparkSession session = SparkSession.active();
    Configuration conf = session.sessionState().newHadoopConfWithOptions(write.options());
    boolean tracked =
        write.catalogTable().isDefined() && write.catalogTable().get().tracksPartitionsInCatalog();
    if (write.mode() != SaveMode.Overwrite
        || tracked
        || write.ifPartitionNotExists()
        || !isApplicable(session, source, conf)
        || !isDirectory(write.outputPath(), conf)) {
      return write;
    }
    String overwritten = write.dynamicPartitionOverwrite() ? PARTITIONS : target(write).toString();
    Map<String, String> options = OptionLayers.of(Scala.map(write.options()), Map.of(OPTION, TOKEN + overwritten));
    return copy(write, options, SaveMode.Append);
  }

  static InsertIntoHadoopFsRelationCommand copy(
      InsertIntoHadoopFsRelationCommand write, Map<String, String> options, SaveMode mode) {
    return new InsertIntoHadoopFsRelationCommand(
        write.outputPath(),
        write.staticPartitions(),
        write.ifPartitionNotExists(),
        write.partitionColumns(),
        write.bucketSpec(),
        write.fileFormat(),
        Scala.map(options),
        write.query(),
        mode,
        write.catalogTable(),
        write.fileIndex(),
        write.outputColumnNames());
  }

  /** Whether Spark's default protocol and Hadoop's default algorithm commit: file by file, when all tasks are done. */
  public static boolean isApplicable(SparkSession session, FileSource source, Configuration conf) {
    SQLConf settings = session.sessionState().conf();
    return settings.fileCommitProtocolClass().equals(SQLConf.FILE_COMMIT_PROTOCOL_CLASS().defaultValueString())
        && conf.get(SQLConf.OUTPUT_COMMITTER_CLASS().key()) == null
        && source.commitsPlainly(conf)
        && conf.getInt(ALGORITHM, 1) == 1;
  }

  private static boolean isDirectory(Path path, Configuration conf) {
    try {
      FileSystem files = path.getFileSystem(conf);
      return files.exists(path) && files.getFileStatus(path).isDirectory();
    } catch (IOException error) {
      return false; // Spark will report the error
    }
  }

  /** The directory that an overwrite empties: that of the static partitions, which come first, as Spark has them. */
  static Path target(InsertIntoHadoopFsRelationCommand write) {
    Map<String, String> partitions = Scala.map(write.staticPartitions());
    Path target = write.outputPath();
    for (Attribute column : Scala.list(write.partitionColumns())) {
      if (partitions.containsKey(column.name())) { // with null for NULL
        target =
            new Path(target, ExternalCatalogUtils.getPartitionPathString(column.name(), partitions.get(column.name())));
      }
    }
    return target;
  }

  /** Sets the committer of a job for which {@link #isApplicable} is true. */
  public static void prepare(Map<String, String> options, Configuration job) {
    String value = options.getOrDefault(OPTION, "");
    boolean partitions = value.equals(TOKEN + PARTITIONS);
    ReplacingCommitter.prepare(
        job, partitions, value.startsWith(TOKEN) && !partitions ? value.substring(TOKEN.length()) : null);
  }
}
