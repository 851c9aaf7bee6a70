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
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Overwriting, for our files, is to append and then to delete what was there: Spark deletes first, and all is lost when
 * the job fails after that. What is to be deleted, the committer of the job is told by an option ({@link
 * ReplacingCommitter}).
 *
 * <p>Where the user has chosen another way to commit, this stays Spark's.
 */
public final class OverwriteRule extends Rule<LogicalPlan> {
  private static final String OPTION = "bloomparquet.overwritten";

  /** Of all partitions that are written, what was in them. */
  private static final String PARTITIONS = "partitions";

  /** What a user may have set by that name is none of ours. */
  private static final String TOKEN = UUID.randomUUID() + " ";

  private static final String ALGORITHM = "mapreduce.fileoutputcommitter.algorithm.version";

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof InsertIntoHadoopFsRelationCommand write) {
      return write.mode() == SaveMode.Overwrite && write.fileFormat() instanceof FileSource source
          ? appended(write, source)
          : write;
    }
    // The parts of an INSERT into several tables.
    boolean several = Scala.list(plan.children()).stream().anyMatch(Command.class::isInstance);
    return several ? plan.mapChildren(this::apply) : plan;
  }

  private static LogicalPlan appended(InsertIntoHadoopFsRelationCommand write, FileSource source) {
    SparkSession session = SparkSession.active();
    Configuration conf = session.sessionState().newHadoopConfWithOptions(write.options());
    boolean tracked =
        write.catalogTable().isDefined() && write.catalogTable().get().tracksPartitionsInCatalog();
    if (tracked
        || write.ifPartitionNotExists()
        || !isSparksOwn(session, source, conf)
        || !isDirectory(write.outputPath(), conf)) {
      return write;
    }
    String overwritten = write.dynamicPartitionOverwrite() ? PARTITIONS : target(write).toString();
    return new InsertIntoHadoopFsRelationCommand(
        write.outputPath(),
        write.staticPartitions(),
        write.ifPartitionNotExists(),
        write.partitionColumns(),
        write.bucketSpec(),
        write.fileFormat(),
        Scala.map(OptionLayers.of(Scala.map(write.options()), Map.of(OPTION, TOKEN + overwritten))),
        write.query(),
        SaveMode.Append,
        write.catalogTable(),
        write.fileIndex(),
        write.outputColumnNames());
  }

  /** Whether Spark's own protocol commits, file by file when all tasks are done. */
  public static boolean isSparksOwn(SparkSession session, FileSource source, Configuration conf) {
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
      return false; // Spark will meet it as well, and tell it its own way.
    }
  }

  /** As Spark has it: what an INSERT says of partitions comes first among them. */
  static Path target(InsertIntoHadoopFsRelationCommand write) {
    Map<String, String> said = Scala.map(write.staticPartitions());
    Path found = write.outputPath();
    for (Attribute column : Scala.list(write.partitionColumns())) {
      if (said.containsKey(column.name())) { // with null for NULL
        found = new Path(found, ExternalCatalogUtils.getPartitionPathString(column.name(), said.get(column.name())));
      }
    }
    return found;
  }

  /** Has a job, of which {@link #isSparksOwn} is true, commit as the options say, which may be those of a user. */
  public static void prepare(Map<String, String> options, Configuration job) {
    String told = options.getOrDefault(OPTION, "");
    boolean partitions = told.equals(TOKEN + PARTITIONS);
    ReplacingCommitter.prepare(
        job, partitions, told.startsWith(TOKEN) && !partitions ? told.substring(TOKEN.length()) : null);
  }
}
