package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.DataWritingCommandExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Plans writes by our formats as Spark does, with the session's options. An overwrite deletes the old files before it
 * writes the new ones, so it is checked here: its options, the logs of tables, and that it does not delete what it reads.
 */
public final class WriteStrategy extends SparkStrategy {
  private final SparkSession session;

  public WriteStrategy(SparkSession session) {
    this.session = session;
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (!(plan instanceof InsertIntoHadoopFsRelationCommand write)) {
      return Scala.seq(List.of());
    }
    if (!(write.fileFormat() instanceof BloomFormat format)) {
      List<FileIndex> read = ReadFiles.byOurFormats(write.query());
      if (write.mode() == SaveMode.Overwrite && !read.isEmpty()) {
        refuseOverwriting(read, write, deleted(write));
      }
      return Scala.seq(List.of());
    }
    InsertIntoHadoopFsRelationCommand planned = withOptionsOfSession(write, format);
    if (planned.mode() == SaveMode.Overwrite) {
      checkOverwrite(planned, format);
    }
    return Scala.seq(List.of(new DataWritingCommandExec(planned, planLater(planned.query()))));
  }

  private void checkOverwrite(InsertIntoHadoopFsRelationCommand write, BloomFormat format) {
    Configuration conf = session.sessionState().newHadoopConfWithOptions(write.options());
    List<Path> deleted = deleted(write);
    deleted.forEach(path -> TableLog.refuseWriting(path, true, conf));
    format.filters(session, write.options(), fileSchema(write), conf);
    refuseOverwriting(ReadFiles.all(write.query()), write, deleted);
  }

  /** Throws if Spark would delete files before it reads them. It replaces dynamic partitions afterwards. */
  private static void refuseOverwriting(
      List<FileIndex> read, InsertIntoHadoopFsRelationCommand write, List<Path> deleted) {
    if (!write.dynamicPartitionOverwrite() && ReadFiles.anyIn(deleted, read)) {
      throw Scala.unchecked(
          QueryCompilationErrors$.MODULE$.cannotOverwritePathBeingReadFromError(write.outputPath().toString()));
    }
  }

  private InsertIntoHadoopFsRelationCommand withOptionsOfSession(
      InsertIntoHadoopFsRelationCommand write, BloomFormat format) {
    return new InsertIntoHadoopFsRelationCommand(
        write.outputPath(),
        write.staticPartitions(),
        write.ifPartitionNotExists(),
        write.partitionColumns(),
        write.bucketSpec(),
        write.fileFormat(),
        Scala.map(OptionNames.merge(SessionOptions.of(session, format.format()), Scala.map(write.options()))),
        write.query(),
        write.mode(),
        write.catalogTable(),
        write.fileIndex(),
        write.outputColumnNames());
  }

  private static StructType fileSchema(InsertIntoHadoopFsRelationCommand write) {
    Set<String> partitions =
        Scala.list(write.partitionColumns()).stream().map(Attribute::name).collect(Collectors.toSet());
    List<Attribute> columns = new ArrayList<>(Scala.list(write.outputColumns()));
    columns.removeIf(column -> partitions.contains(column.name()));
    return DataTypeUtils.fromAttributes(Scala.seq(columns));
  }

  /** The paths that an overwrite empties: {@link #target}, and the partitions of the table that lie elsewhere. */
  private List<Path> deleted(InsertIntoHadoopFsRelationCommand write) {
    Path target = target(write);
    List<Path> deleted = new ArrayList<>(List.of(target));
    for (CatalogTablePartition partition : partitions(write)) {
      Path location = new Path(partition.location()).makeQualified(target.toUri(), target);
      if (!LocalPaths.isIn(target, location)) {
        deleted.add(location);
      }
    }
    return deleted;
  }

  /** The table's directory, or below it the directory of the static partitions. */
  private static Path target(InsertIntoHadoopFsRelationCommand write) {
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

  /** The partitions in the catalog that the write replaces. */
  private List<CatalogTablePartition> partitions(InsertIntoHadoopFsRelationCommand write) {
    CatalogTable table = write.catalogTable().isDefined() ? write.catalogTable().get() : null;
    boolean hasPartitions =
        table != null
            && session.sessionState().conf().manageFilesourcePartitions()
            && !table.partitionColumnNames().isEmpty()
            && table.tracksPartitionsInCatalog();
    return hasPartitions
        ? Scala.list(
            session
                .sessionState()
                .catalog()
                .listPartitions(table.identifier(), Option.apply(write.staticPartitions())))
        : List.of();
  }
}
