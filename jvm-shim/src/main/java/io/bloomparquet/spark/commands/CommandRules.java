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

/** Optimizer rule that gives our tables the behaviour that Spark hard-codes for its built-in file sources. */
public final class CommandRules extends Rule<LogicalPlan> {

  private final Function<String, FileSource> sources;

  private CommandRules(Function<String, FileSource> sources) {
    this.sources = sources;
  }

  /**
   * Adds the rule to a session, once.
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
    // INSERT into several tables has a command for each
    boolean several = Scala.list(plan.children()).stream().anyMatch(Command.class::isInstance);
    return several ? plan.mapChildren(this::apply) : plan;
  }

  /** Lists the files of our tables in a temporary view again: the view keeps its plan, and with it the old listing. */
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

  /** Checks path queries and streams, which Spark's own file scan reads. Our tables check themselves. */
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

  /** Checks a write before anything is deleted, and adds the options of the session and of the table. */
  private static LogicalPlan checked(InsertIntoHadoopFsRelationCommand write) {
    WrittenPaths.add(write.outputPath());
    boolean deletes = write.mode() == SaveMode.Overwrite && !write.dynamicPartitionOverwrite();
    if (write.fileFormat() instanceof FileSource) {
      Path target = deletes ? SafeOverwrite.target(write) : write.outputPath();
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
    return SafeOverwrite.apply(SafeOverwrite.copy(write, options, write.mode()), source);
  }

  private static void checkOptions(
      FileSource source, Map<String, String> options, StructType schema, Set<String> partitions) {
    StructField[] inFiles =
        Arrays.stream(schema.fields()).filter(field -> !partitions.contains(field.name())).toArray(StructField[]::new);
    source.filterOptions(options, new StructType(inFiles));
  }

  private LogicalPlan created(CreateTable create) {
    if (create.tableSpec() instanceof TableSpec given) {
      // Here, because loading an existing table does not throw: it must be possible to alter and drop it.
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
      // existing files would become rows of the table
      DataWritingCommand$.MODULE$.assertEmptyRootPath(
          location.toUri(),
          SaveMode.ErrorIfExists,
          SparkSession.active().sessionState().newHadoopConf());
    }
    return new CreateTableAsSelect(
        create.name(),
        create.partitioning(),
        withPartitionsLast(create.query(), create.partitioning(), create.tableSpec(), create.writeOptions()),
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
    // Spark drops the table, and appends to a new one whose directory may still have files.
    Map<String, String> options =
        OptionLayers.of(Scala.map(replace.writeOptions()), Map.of(PrunedTable.REPLACE, "true"));
    return new ReplaceTableAsSelect(
        replace.name(),
        replace.partitioning(),
        withPartitionsLast(replace.query(), replace.partitioning(), replace.tableSpec(), replace.writeOptions()),
        replace.tableSpec(),
        Scala.map(options),
        replace.orCreate(),
        replace.isAnalyzed());
  }

  /** The directories whose files are deleted: those of the dropped table, and that of the new one. */
  private static List<Path> targets(ReplaceTableAsSelect replace) {
    List<Path> targets = new ArrayList<>();
    ResolvedIdentifier name = (ResolvedIdentifier) replace.name();
    try {
      Table table = ((TableCatalog) name.catalog()).loadTable(name.identifier());
      if (table instanceof PrunedTable files) {
        targets.addAll(files.roots());
      } else if (table instanceof V1Table files && files.catalogTable().storage().locationUri().isDefined()) {
        targets.add(new Path(files.catalogTable().location()));
      }
    } catch (NoSuchTableException error) {
      // nothing is dropped
    }
    if (replace.tableSpec().location().isDefined()) {
      targets.add(new Path(replace.tableSpec().location().get()));
    }
    return targets;
  }

  /** The query with its partition columns last, as Spark's catalog requires. Checks the options. */
  private LogicalPlan withPartitionsLast(
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
    List<String> columns = new ArrayList<>();
    for (Transform transform : Scala.list(partitioning)) {
      if (transform.name().equals("identity")) {
        columns.add(transform.references()[0].fieldNames()[0]);
      } else if (transform.name().endsWith("bucket")) {
        throw new IllegalArgumentException(
            "tables of " + spec.provider().get() + " cannot be bucketed; found " + transform.describe());
      }
    }
    return columns;
  }

  /** {@code columns} with the partition columns at the end, in their order. */
  private static <T> List<T> last(List<T> columns, Function<T, String> name, List<String> partitions) {
    List<T> ordered = new ArrayList<>(columns);
    ordered.removeIf(column -> partitions.contains(name.apply(column)));
    for (String partition : partitions) {
      columns.stream().filter(column -> partition.equals(name.apply(column))).forEach(ordered::add);
    }
    return ordered;
  }

  /**
   * Adds columns before the partition columns, unless a position is given. Spark's catalog would add them at the end.
   */
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

  /** The source of a new table; null if it is not ours. */
  private FileSource sourceOf(TableSpecBase spec) {
    return spec.provider().isDefined() ? sources.apply(spec.provider().get()) : null;
  }
}
