package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Adds the session's options to a write by one of our formats, checks it, and turns an overwrite into an append whose
 * {@link ReplacingCommitter} deletes the old files last. Spark deletes first, and loses all rows when the job fails
 * after that.
 *
 * <p>Spark's own order remains where it is safe (dynamic partition overwrites, which replace partitions at the end),
 * where partitions lie outside the table's directory, and where the user configured another committer.
 */
public final class WriteRule extends Rule<LogicalPlan> {
  private static final String ALGORITHM = "mapreduce.fileoutputcommitter.algorithm.version";

  private final SparkSession session;

  public WriteRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof InsertIntoHadoopFsRelationCommand write) {
      return write.fileFormat() instanceof BloomFormat format && format.overwrite() == null
          ? prepared(write, format)
          : plan;
    }
    // INSERT into several tables has a command for each
    boolean several = Scala.list(plan.children()).stream().anyMatch(Command.class::isInstance);
    return several ? plan.mapChildren(this::apply) : plan;
  }

  /** The write as Spark runs it. Throws for a wrong one, before Spark deletes anything. */
  private LogicalPlan prepared(InsertIntoHadoopFsRelationCommand given, BloomFormat format) {
    Map<String, String> options =
        OptionLayers.of(SessionOptions.of(session, format.format()), Scala.map(given.options()));
    InsertIntoHadoopFsRelationCommand write =
        with(given, format.with(Overwrite.NONE), Scala.map(options), given.mode());
    if (write.mode() != SaveMode.Overwrite) {
      return write;
    }
    Configuration conf = session.sessionState().newHadoopConfWithOptions(write.options());
    Path target = target(write);
    TableLog.refuseWriting(target, true, conf);
    format.filters(session, write.options(), fileSchema(write), conf);
    if (!isReplaceable(write, format, conf)) {
      return write;
    }
    Overwrite overwrite = new Overwrite(target, tracksPartitions(write) ? name(write) : null);
    return with(write, format.with(overwrite), write.options(), SaveMode.Append);
  }

  private static InsertIntoHadoopFsRelationCommand with(
      InsertIntoHadoopFsRelationCommand write,
      FileFormat format,
      scala.collection.immutable.Map<String, String> options,
      SaveMode mode) {
    return new InsertIntoHadoopFsRelationCommand(
        write.outputPath(),
        write.staticPartitions(),
        write.ifPartitionNotExists(),
        write.partitionColumns(),
        write.bucketSpec(),
        format,
        options,
        write.query(),
        mode,
        write.catalogTable(),
        write.fileIndex(),
        write.outputColumnNames());
  }

  private static StructType fileSchema(InsertIntoHadoopFsRelationCommand write) {
    Set<String> partitions =
        Scala.list(write.partitionColumns()).stream().map(Attribute::name).collect(Collectors.toSet());
    return new StructType(
        Arrays.stream(write.query().schema().fields())
            .filter(field -> !partitions.contains(field.name()))
            .toArray(StructField[]::new));
  }

  /** The directory that an overwrite empties: the table's, or below it the directory of the static partitions. */
  public static Path target(InsertIntoHadoopFsRelationCommand write) {
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

  /** Whether Spark's default protocol and Hadoop's default algorithm commit: file by file, when all tasks are done. */
  private boolean isReplaceable(InsertIntoHadoopFsRelationCommand write, BloomFormat format, Configuration conf) {
    SQLConf settings = session.sessionState().conf();
    try {
      FileSystem files = write.outputPath().getFileSystem(conf);
      return !write.dynamicPartitionOverwrite()
          && !write.ifPartitionNotExists()
          && settings.fileCommitProtocolClass().equals(SQLConf.FILE_COMMIT_PROTOCOL_CLASS().defaultValueString())
          && conf.get(SQLConf.OUTPUT_COMMITTER_CLASS().key()) == null
          && format.hasDefaultCommitter(conf)
          && conf.getInt(ALGORITHM, 1) == 1
          && files.exists(write.outputPath())
          && files.getFileStatus(write.outputPath()).isDirectory()
          && partitions(write).stream().allMatch(each -> isInTable(each, write, files));
    } catch (IOException error) {
      return false; // Spark will report the error
    }
  }

  private boolean tracksPartitions(InsertIntoHadoopFsRelationCommand write) {
    CatalogTable table = write.catalogTable().isDefined() ? write.catalogTable().get() : null;
    return table != null
        && session.sessionState().conf().manageFilesourcePartitions()
        && !table.partitionColumnNames().isEmpty()
        && table.tracksPartitionsInCatalog();
  }

  /** The name of the table, without the catalog: only Spark's session catalog has tables of files. */
  private static String name(InsertIntoHadoopFsRelationCommand write) {
    TableIdentifier name = write.catalogTable().get().identifier();
    return new TableIdentifier(name.table(), name.database()).quotedString();
  }

  /** The partitions in the catalog that the write replaces. */
  private List<CatalogTablePartition> partitions(InsertIntoHadoopFsRelationCommand write) {
    return tracksPartitions(write)
        ? Scala.list(
            session
                .sessionState()
                .catalog()
                .listPartitions(
                    write.catalogTable().get().identifier(), scala.Option.apply(write.staticPartitions())))
        : List.of();
  }

  private static boolean isInTable(
      CatalogTablePartition partition, InsertIntoHadoopFsRelationCommand write, FileSystem files) {
    var columns = write.catalogTable().get().partitionColumnNames();
    Path usual = ExternalCatalogUtils.generatePartitionPath(partition.spec(), columns, write.outputPath());
    return files.makeQualified(usual).equals(files.makeQualified(new Path(partition.location())));
  }
}
