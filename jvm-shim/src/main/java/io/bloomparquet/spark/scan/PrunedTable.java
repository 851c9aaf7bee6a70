package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.files.WrittenPaths;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A table of files whose scans are planned before they are read. What format of files is for the subclass to say; listing,
 * partitions and schemas are Spark's {@link FileTable}, which does nothing before it is asked.
 */
public abstract class PrunedTable extends FileTable implements SupportsMetadataColumns {
  private static final String WHERE = "where";

  /** Set for the write that fills a replaced table: the files in its directory belong to the table before. */
  public static final String REPLACE = "bloomparquet.replace";

  private final TableDefinition definition;
  private final SparkSession session;
  private final CaseInsensitiveStringMap options;
  private final Map<String, String> properties;
  private final List<String> paths;
  private final StructType given;
  private final Transform[] declared;
  private final ScanOptions scanOptions;
  private StructType columns;
  private LoadPredicate where;
  private Exception wrongOption;
  private PartitioningAwareFileIndex files;
  private long listedAt = WrittenPaths.now();

  PrunedTable(TableDefinition definition) {
    super(
        definition.session(),
        TablePaths.without(definition.options()),
        Scala.seq(TablePaths.of(definition.options())),
        Option.apply(definition.schema()));
    this.definition = definition;
    session = definition.session();
    properties = TablePaths.without(definition.properties()).asCaseSensitiveMap();
    options = TablePaths.without(definition.options());
    paths = TablePaths.of(definition.options());
    given = definition.schema();
    declared = definition.partitioning();
    scanOptions =
        checked(
            () -> {
              OptionNames.check(format(), properties);
              return ScanOptions.of(options, DriverSettings.of(session.sparkContext()));
            });
  }

  /**
   * What {@code check} gives. A catalog loads a table also for the statements that mend or drop it, so there an error
   * waits for whoever reads or writes rows; null then.
   */
  private <T> T checked(Supplier<T> check) {
    try {
      return check.get();
    } catch (Exception error) { // Spark's own are checked exceptions that nothing declares
      if (!properties.containsKey(TableCatalog.PROP_PROVIDER)) {
        throw error;
      }
      wrongOption = wrongOption == null ? error : wrongOption;
      return null;
    }
  }

  private void requireRightOptions() {
    if (wrongOption != null) {
      throw Thrown.unchecked(wrongOption);
    }
  }

  abstract io.bloomparquet.spark.support.FileFormat format();

  /** Spark's own builder of scans over these files. */
  abstract FileScanBuilder newFileScanBuilder(CaseInsensitiveStringMap options);

  /** Why a reader with these options may not read what the files say by the names of the columns; null if it does. */
  abstract String noPlanReason(CaseInsensitiveStringMap options);

  SparkSession session() {
    return session;
  }

  CaseInsensitiveStringMap options() {
    return options;
  }

  @Override
  public String name() {
    return format().source() + " " + String.join(",", paths);
  }

  @Override
  public String toString() {
    return name();
  }

  /** As Spark's own, but in a catalog without a directory, and without partitions, that are still to come. */
  @Override
  public synchronized PartitioningAwareFileIndex fileIndex() {
    if (files == null) {
      files =
          declared == null || given == null || isWrittenByStream()
              ? TableLog.refuseReading(super.fileIndex(), options.asCaseSensitiveMap(), hadoopConf())
              : TableFiles.of(session, roots(), options, given, declaredPartitions(), hadoopConf());
    }
    return files;
  }

  /** Lists the files anew. */
  public void refresh() {
    fileIndex().refresh();
    TableLog.refuseReading(fileIndex(), options.asCaseSensitiveMap(), hadoopConf());
  }

  /**
   * The columns. Spark asks for them when it loads the files: the option {@code where} is resolved then, and no setting that
   * changes later changes its rows.
   */
  @Override
  public synchronized StructType schema() {
    if (columns == null) {
      StructType described = describedColumns();
      String sql = options.get(WHERE);
      where =
          sql == null
              ? LoadPredicate.none(described)
              : checked(() -> LoadPredicate.of(session, sql, described, options.get(DateTimeUtils.TIMEZONE_OPTION())));
      columns = described;
    }
    return columns;
  }

  /**
   * A table that is partitioned is as its catalog says, whatever lies in its directory. Otherwise the files say it; with
   * what the given schema says of columns beside their types, which Spark forgets for those of partitions.
   */
  private StructType describedColumns() {
    if (!declaredPartitions().isEmpty()) {
      return given.asNullable();
    }
    StructType found = super.schema();
    return given == null
        ? found
        : new StructType(Arrays.stream(found.fields()).map(this::withGivenMetadata).toArray(StructField[]::new));
  }

  @Override
  public Transform[] partitioning() {
    return declaredPartitions().isEmpty()
        ? super.partitioning()
        : Arrays.stream(declared).filter(PrunedTable::isColumn).toArray(Transform[]::new);
  }

  private StructField withGivenMetadata(StructField field) {
    return Arrays.stream(given.fields())
        .filter(each -> each.name().equalsIgnoreCase(field.name()) && each.dataType().equals(field.dataType()))
        .findFirst()
        .map(each -> new StructField(field.name(), field.dataType(), field.nullable(), each.metadata()))
        .orElse(field);
  }

  /** What the user said; not what is set for the session, which tables do not keep. */
  @Override
  public Map<String, String> properties() {
    return properties;
  }

  private boolean isWrittenByStream() {
    return FileStreamSink$.MODULE$.hasMetadata(Scala.seq(paths), hadoopConf(), session.sessionState().conf());
  }

  private StructType declaredPartitions() {
    StructType found = new StructType();
    for (Transform transform : declared == null || given == null ? new Transform[0] : declared) {
      if (isColumn(transform)) {
        found = found.add(given.apply(transform.references()[0].fieldNames()[0]));
      }
    }
    return found;
  }

  private static boolean isColumn(Transform transform) {
    return transform.name().equals("identity");
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    refreshIfWritten();
    CaseInsensitiveStringMap merged = mergedOptions(given);
    StructType schema = schema();
    requireRightOptions();
    PlannerPredicate predicates =
        new PlannerPredicate(session, format(), schema, fileIndex().partitionSchema(), noPlanReason(merged));
    OptionNames.check(format(), given.asCaseSensitiveMap());
    return new PrunedScanBuilder(
        session, newFileScanBuilder(merged), schema, predicates, scanOptions(merged), where);
  }

  /** The options of one relation: those of the table, and what a query adds to them. */
  private ScanOptions scanOptions(CaseInsensitiveStringMap merged) {
    if (TablePaths.without(merged).equals(options)) {
      return scanOptions;
    }
    if (!Objects.equals(merged.get(WHERE), options.get(WHERE))) {
      throw new IllegalArgumentException(
          "option where belongs to a load of paths, or to the OPTIONS of a table: a query cannot add it to "
              + name()
              + "; use .where(…) or WHERE instead");
    }
    return ScanOptions.of(merged, DriverSettings.of(session.sparkContext()));
  }

  /** A DataFrame outlives an INSERT into its table. */
  private synchronized void refreshIfWritten() {
    long now = WrittenPaths.lastWrite(paths.isEmpty() ? List.of() : roots());
    if (now > listedAt) {
      refresh();
      listedAt = now;
    }
  }

  /** Spark takes a cached table of this name and id for this one: its condition must be the same. */
  @Override
  public String id() {
    schema();
    return where == null || where.isNone() ? null : where.id();
  }

  // Spark gives the rows of one relation to another of an equal table: what is cached, and exchanges.
  @Override
  public boolean equals(Object other) {
    return other instanceof PrunedTable that
        && getClass() == that.getClass()
        && session == that.session
        && options.equals(that.options)
        && Objects.equals(where, that.where)
        && paths.equals(that.paths)
        && Objects.equals(given, that.given)
        && Arrays.equals(declared, that.declared);
  }

  @Override
  public int hashCode() {
    return Objects.hash(paths, options);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    try {
      return FileMetadata.columns(fallbackFileFormat().getDeclaredConstructor().newInstance());
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public Class<? extends FileFormat> fallbackFileFormat() {
    return definition.fallback();
  }

  /** Writing is left to Spark's file formats: with a batch write of version 2, not every save mode would work. */
  @Override
  public Set<TableCapability> capabilities() {
    // Spark asks in the analysis of every plan, also of a session that got the table from another one by a global view.
    definition.installRules().accept(SparkSession.active());
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    requireRightOptions();
    OptionNames.check(format(), info.options().asCaseSensitiveMap());
    Map<String, String> merged =
        OptionLayers.of(
            options.asCaseSensitiveMap(), TablePaths.without(info.options()).asCaseSensitiveMap());
    return new FileWrite(format().source(), paths, partitioning(), merged);
  }

  /** The directories and files that the table is made of, qualified. */
  public List<Path> roots() {
    Configuration conf = hadoopConf();
    List<Path> found = new ArrayList<>();
    for (String each : paths) {
      Path path = new Path(each);
      try {
        found.add(path.getFileSystem(conf).makeQualified(path));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
    return found;
  }

  private Configuration hadoopConf() {
    return session.sessionState().newHadoopConfWithOptions(Scala.map(options));
  }
}
