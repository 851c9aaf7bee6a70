package io.bloomparquet.spark.commands;

import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.files.WrittenPaths;
import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.scan.TableFiles;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.ResolvedFieldPosition;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.AddColumns;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.ColumnDefinition;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.QualifiedColType;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.TableSpec;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.command.DataWritingCommand$;
import org.apache.spark.sql.execution.command.RefreshTableCommand;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Commands on these tables, changed just before they run to do what they do on Spark's own tables of files. For
 * these, the code that Spark has for its own sees to it; tables of other providers, as ours are, do not get there.
 */
public final class CommandRules extends Rule<LogicalPlan> {

  private final Function<String, FileSource> sources;

  private CommandRules(Function<String, FileSource> sources) {
    this.sources = sources;
  }

  /**
   * Adds the rules to a session, once. {@link OverwriteRule} comes last: it turns the overwrites that this rule checks
   * into appends.
   *
   * @param sources from the name of a provider to our source; null for a provider that is not ours
   */
  public static void install(SparkSession session, Function<String, FileSource> sources) {
    if (session instanceof org.apache.spark.sql.classic.SparkSession classic) {
      var methods = classic.experimental();
      synchronized (CommandRules.class) {
        List<Rule<LogicalPlan>> rules = new ArrayList<>(Scala.list(methods.extraOptimizations()));
        if (rules.stream().noneMatch(CommandRules.class::isInstance)) {
          rules.add(new CommandRules(sources));
          rules.add(new OverwriteRule());
          methods.extraOptimizations_$eq(Scala.seq(rules));
        }
      }
    }
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof InsertIntoHadoopFsRelationCommand write) {
      return checked(write);
    } else if (plan instanceof CreateTable create && sourceOf(create.tableSpec()) != null) {
      return created(create);
    } else if (plan instanceof CreateTableAsSelect create && sourceOf(create.tableSpec()) != null) {
      return created(create);
    } else if (plan instanceof ReplaceTableAsSelect replace && sourceOf(replace.tableSpec()) != null) {
      return replaced(replace);
    } else if (plan instanceof AlterTableCommand command) {
      ColumnChanges.check(command);
      return command instanceof AddColumns add
              && add.table() instanceof ResolvedTable table
              && table.table() instanceof PrunedTable files
          ? added(add, files)
          : plan;
    }
    refuseTableLogs(plan);
    if (plan instanceof RefreshTableCommand refresh) {
      refresh(refresh);
    }
    // The parts of an INSERT into several tables.
    boolean several = Scala.list(plan.children()).stream().anyMatch(Command.class::isInstance);
    return several ? plan.mapChildren(this::apply) : plan;
  }

  /** A temporary view keeps its plan, and with it the files as they were listed. */
  private static void refresh(RefreshTableCommand command) {
    Option<View> view =
        SparkSession.active().sessionState().catalog().getLocalOrGlobalTempView(command.tableIdent());
    if (view.isDefined()) {
      for (LogicalPlan leaf : Scala.list(view.get().collectLeaves())) {
        if (leaf instanceof DataSourceV2Relation relation && relation.table() instanceof PrunedTable table) {
          table.refresh();
        }
      }
    }
  }

  /** Path queries and streams are read by Spark's own scan of files; tables of these sources look for themselves. */
  private static void refuseTableLogs(LogicalPlan plan) {
    for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
      if (leaf instanceof LogicalRelation relation
          && relation.relation() instanceof HadoopFsRelation files
          && files.fileFormat() instanceof FileSource source
          && files.location() instanceof PartitioningAwareFileIndex index) {
        Map<String, String> options =
            OptionLayers.of(source.sessionOptions(SparkSession.active()), Scala.map(files.options()));
        TableLog.refuseReading(index, options, hadoopConf(files.options()));
      }
    }
  }

  private static Configuration hadoopConf(scala.collection.immutable.Map<String, String> options) {
    return SparkSession.active().sessionState().newHadoopConfWithOptions(options);
  }

  /** Options of the session and of the table count as well; and wrong ones are told before anything is deleted. */
  private static LogicalPlan checked(InsertIntoHadoopFsRelationCommand write) {
    WrittenPaths.add(write.outputPath());
    boolean deletes = write.mode() == SaveMode.Overwrite && !write.dynamicPartitionOverwrite();
    if (write.fileFormat() instanceof FileSource) {
      Path target = deletes ? OverwriteRule.target(write) : write.outputPath();
      TableLog.refuseWriting(target, deletes, hadoopConf(write.options()));
    }
    if (deletes) {
      OverwriteGuard.check(write.query(), List.of(write.outputPath()), false, hadoopConf(write.options()));
    }
    if (!(write.fileFormat() instanceof FileSource source)) {
      return write;
    }
    OptionNames.check(source.format(), Scala.map(write.options()));
    Map<String, String> options =
        OptionLayers.of(
            source.sessionOptions(SparkSession.active()),
            write.fileIndex().isDefined() && write.fileIndex().get() instanceof TableFiles files
                ? files.options().asCaseSensitiveMap()
                : Map.of(),
            Scala.map(write.options()));
    checkOptions(
        source,
        options,
        write.query().schema(),
        Scala.list(write.partitionColumns()).stream().map(Attribute::name).collect(Collectors.toSet()));
    return new InsertIntoHadoopFsRelationCommand(
        write.outputPath(),
        write.staticPartitions(),
        write.ifPartitionNotExists(),
        write.partitionColumns(),
        write.bucketSpec(),
        write.fileFormat(),
        Scala.map(options),
        write.query(),
        write.mode(),
        write.catalogTable(),
        write.fileIndex(),
        write.outputColumnNames());
  }

  private static void checkOptions(
      FileSource source, Map<String, String> options, StructType schema, Set<String> partitions) {
    StructField[] inFiles =
        Arrays.stream(schema.fields()).filter(field -> !partitions.contains(field.name())).toArray(StructField[]::new);
    source.filterOptions(options, new StructType(inFiles));
  }

  private LogicalPlan created(CreateTable create) {
    if (create.tableSpec() instanceof TableSpec given) {
      // A table that is there is loaded whatever its options, so that it can be altered and dropped.
      OptionNames.check(sourceOf(given).format(), Scala.map(given.options()));
    }
    List<String> partitions = columns(create.partitioning(), create.tableSpec());
    List<ColumnDefinition> columns = last(Scala.list(create.columns()), ColumnDefinition::name, partitions);
    return new CreateTable(
        create.name(), Scala.seq(columns), create.partitioning(), create.tableSpec(), create.ignoreIfExists());
  }

  private LogicalPlan created(CreateTableAsSelect create) {
    ResolvedIdentifier name = (ResolvedIdentifier) create.name();
    boolean exists = ((TableCatalog) name.catalog()).tableExists(name.identifier());
    if (!exists && create.tableSpec().location().isDefined()) {
      Path location = new Path(create.tableSpec().location().get());
      TableLog.refuseWriting(location, false, hadoopConf(create.writeOptions()));
      // The rows of both would be the table's.
      DataWritingCommand$.MODULE$.assertEmptyRootPath(
          location.toUri(),
          SaveMode.ErrorIfExists,
          SparkSession.active().sessionState().newHadoopConf());
    }
    return new CreateTableAsSelect(
        create.name(),
        create.partitioning(),
        asInFiles(create.query(), create.partitioning(), create.tableSpec(), create.writeOptions()),
        create.tableSpec(),
        create.writeOptions(),
        create.ignoreIfExists(),
        create.isAnalyzed());
  }

  private LogicalPlan replaced(ReplaceTableAsSelect replace) {
    Configuration conf = hadoopConf(replace.writeOptions());
    List<Path> targets = targets(replace);
    targets.forEach(target -> TableLog.refuseWriting(target, true, conf));
    OverwriteGuard.check(replace.query(), targets, true, conf);
    // Spark drops the table and appends to a new one, which may be where files still lie.
    Map<String, String> options =
        OptionLayers.of(Scala.map(replace.writeOptions()), Map.of(PrunedTable.REPLACE, "true"));
    return new ReplaceTableAsSelect(
        replace.name(),
        replace.partitioning(),
        asInFiles(replace.query(), replace.partitioning(), replace.tableSpec(), replace.writeOptions()),
        replace.tableSpec(),
        Scala.map(options),
        replace.orCreate(),
        replace.isAnalyzed());
  }

  /** Where files are deleted: of the table that is dropped, and where the new one is to be. */
  private static List<Path> targets(ReplaceTableAsSelect replace) {
    List<Path> found = new ArrayList<>();
    ResolvedIdentifier name = (ResolvedIdentifier) replace.name();
    try {
      Table table = ((TableCatalog) name.catalog()).loadTable(name.identifier());
      if (table instanceof PrunedTable files) {
        found.addAll(files.roots());
      } else if (table instanceof V1Table files && files.catalogTable().storage().locationUri().isDefined()) {
        found.add(new Path(files.catalogTable().location()));
      }
    } catch (NoSuchTableException error) {
      // Then nothing is dropped.
    }
    if (replace.tableSpec().location().isDefined()) {
      found.add(new Path(replace.tableSpec().location().get()));
    }
    return found;
  }

  /** The query with its partition columns last, as Spark's catalog wants them. */
  private LogicalPlan asInFiles(
      LogicalPlan query,
      Seq<Transform> partitioning,
      TableSpecBase spec,
      scala.collection.immutable.Map<String, String> writeOptions) {
    List<String> partitions = columns(partitioning, spec);
    FileSource source = sourceOf(spec);
    checkOptions(
        source,
        OptionLayers.of(
            source.sessionOptions(SparkSession.active()),
            spec instanceof TableSpec given ? Scala.map(given.options()) : Map.of(),
            Scala.map(writeOptions)),
        query.schema(),
        Set.copyOf(partitions));
    List<Attribute> output = Scala.list(query.output());
    List<Attribute> ordered = last(output, Attribute::name, partitions);
    return ordered.equals(output) ? query : new Project(Scala.seq(new ArrayList<NamedExpression>(ordered)), query);
  }

  private static List<String> columns(Seq<Transform> partitioning, TableSpecBase spec) {
    List<String> found = new ArrayList<>();
    for (Transform transform : Scala.list(partitioning)) {
      if (transform.name().equals("identity")) {
        found.add(transform.references()[0].fieldNames()[0]);
      } else if (transform.name().endsWith("bucket")) {
        throw new IllegalArgumentException(
            "tables of " + spec.provider().get() + " cannot be bucketed; found " + transform.describe());
      }
    }
    return found;
  }

  private static <T> List<T> last(List<T> columns, Function<T, String> name, List<String> partitions) {
    List<T> found = new ArrayList<>(columns);
    found.removeIf(column -> partitions.contains(name.apply(column)));
    for (String partition : partitions) {
      columns.stream().filter(column -> partition.equals(name.apply(column))).forEach(found::add);
    }
    return found;
  }

  /** Spark's catalog wants partition columns last, and adds after them where no place is named. */
  private static LogicalPlan added(AddColumns add, PrunedTable table) {
    List<String> names = Arrays.asList(table.schema().fieldNames());
    int data = names.size() - table.partitioning().length;
    if (data == names.size() || data == 0) {
      return add;
    }
    List<QualifiedColType> columns = new ArrayList<>();
    String last = names.get(data - 1);
    for (QualifiedColType column : Scala.list(add.columnsToAdd())) {
      if (column.path().isEmpty() && column.position().isEmpty()) {
        columns.add(
            column.copy(
                column.path(),
                column.colName(),
                column.dataType(),
                column.nullable(),
                column.comment(),
                Option.apply(new ResolvedFieldPosition(TableChange.ColumnPosition.after(last))),
                column.copy$default$7()));
        last = column.colName();
      } else {
        columns.add(column);
      }
    }
    return new AddColumns(add.table(), Scala.seq(columns));
  }

  /** The source of a table that is made; null if it is none of ours. */
  private FileSource sourceOf(TableSpecBase spec) {
    return spec.provider().isDefined() ? sources.apply(spec.provider().get()) : null;
  }
}
