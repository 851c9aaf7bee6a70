package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.files.WrittenPaths;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ReaderSettings;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
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
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A table of files whose scans are planned. Listing, partitions and schemas are those of Spark's {@link FileTable},
 * which does nothing before it is used.
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
  private Exception deferredError;
  private PartitioningAwareFileIndex files;
  private long listedAt = WrittenPaths.now();

  PrunedTable(TableDefinition definition) {
    super(
        definition.session(),
        TableDefinition.withoutPaths(definition.options()),
        Scala.seq(definition.paths()),
        Option.apply(definition.schema()));
    this.definition = definition;
    session = definition.session();
    properties = TableDefinition.withoutPaths(definition.properties()).asCaseSensitiveMap();
    options = TableDefinition.withoutPaths(definition.options());
    paths = definition.paths();
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
   * Returns what {@code check} returns. For a catalog table an error is deferred until rows are read or written, and
   * null is returned: ALTER and DROP must be able to load the table.
   */
  private <T> T checked(Supplier<T> check) {
    try {
      return check.get();
    } catch (Exception error) { // not RuntimeException: Spark throws undeclared checked exceptions
      if (!properties.containsKey(TableCatalog.PROP_PROVIDER)) {
        throw error;
      }
      deferredError = deferredError == null ? error : deferredError;
      return null;
    }
  }

  private void throwDeferredError() {
    if (deferredError != null) {
      throw Thrown.unchecked(deferredError);
    }
  }

  abstract io.bloomparquet.spark.support.FileFormat format();

  /** Spark's own scan builder for these files. */
  abstract FileScanBuilder newFileScanBuilder(CaseInsensitiveStringMap options);

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

  /** For a catalog table without a stream's log, the directory and its partitions need not exist yet. */
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
   * Also resolves the option {@code where}: Spark asks for the schema at the load, so later settings do not affect it.
   */
  @Override
  public synchronized StructType schema() {
    if (columns == null) {
      StructType resolved = resolvedColumns();
      String sql = options.get(WHERE);
      where =
          sql == null
              ? LoadPredicate.none(resolved)
              : checked(() -> LoadPredicate.of(session, sql, resolved, options.get(DateTimeUtils.TIMEZONE_OPTION())));
      columns = resolved;
    }
    return columns;
  }

  /**
   * The catalog's schema for a partitioned table; else the inferred one, with the metadata of the given columns, which
   * Spark drops for partition columns.
   */
  private StructType resolvedColumns() {
    if (!declaredPartitions().isEmpty()) {
      return given.asNullable();
    }
    StructType inferred = super.schema();
    return given == null
        ? inferred
        : new StructType(Arrays.stream(inferred.fields()).map(this::withGivenMetadata).toArray(StructField[]::new));
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

  /** The table's own options, without the session's. */
  @Override
  public Map<String, String> properties() {
    return properties;
  }

  private boolean isWrittenByStream() {
    return SparkVersions.hasStreamMetadata(paths, hadoopConf(), session.sessionState().conf());
  }

  private StructType declaredPartitions() {
    StructType partitions = new StructType();
    for (Transform transform : declared == null || given == null ? new Transform[0] : declared) {
      if (isColumn(transform)) {
        partitions = partitions.add(given.apply(transform.references()[0].fieldNames()[0]));
      }
    }
    return partitions;
  }

  private static boolean isColumn(Transform transform) {
    return transform.name().equals("identity");
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    refreshIfWritten();
    CaseInsensitiveStringMap merged = mergedOptions(given);
    StructType schema = schema();
    throwDeferredError();
    String unplannableReason = ReaderSettings.unplannableReason(session, format(), schema, Scala.map(merged));
    PlannerPredicate predicates =
        new PlannerPredicate(session, format(), schema, fileIndex().partitionSchema(), unplannableReason);
    OptionNames.check(format(), given.asCaseSensitiveMap());
    LoadContext context = new LoadContext(session, scanOptions(merged), where, predicates);
    return PrunedScanBuilder.of(context, newFileScanBuilder(merged), fileIndex(), schema);
  }

  /** @param merged the options of the table and of the query */
  private ScanOptions scanOptions(CaseInsensitiveStringMap merged) {
    if (TableDefinition.withoutPaths(merged).equals(options)) {
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

  /** Lists the files again if this JVM wrote to the table. A DataFrame may outlive an INSERT into its table. */
  private synchronized void refreshIfWritten() {
    long lastWrite = WrittenPaths.lastWrite(roots());
    if (lastWrite > listedAt) {
      refresh();
      listedAt = lastWrite;
    }
  }

  /** Spark takes a cached table with an equal name and id for this one, so the id covers {@code where}. */
  @Override
  public String id() {
    schema();
    return where == null || where.isNone() ? null : where.id();
  }

  // Spark reuses rows, cached or exchanged, between relations of equal tables.
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

  /** Writes go to Spark's file formats through V1_BATCH_WRITE: a V2 batch write does not support all save modes. */
  @Override
  public Set<TableCapability> capabilities() {
    // Spark calls this in the analysis of every plan, also in a session that got the table by a global view.
    definition.installRules().accept(SparkSession.active());
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    throwDeferredError();
    OptionNames.check(format(), info.options().asCaseSensitiveMap());
    Map<String, String> added = TableDefinition.withoutPaths(info.options()).asCaseSensitiveMap();
    Map<String, String> merged = OptionLayers.of(options.asCaseSensitiveMap(), added);
    return new FileWrite(format().source(), paths, partitioning(), merged);
  }

  /** The qualified paths of the table: directories and files. */
  public List<Path> roots() {
    Configuration conf = hadoopConf();
    List<Path> roots = new ArrayList<>();
    for (String each : paths) {
      Path path = new Path(each);
      try {
        roots.add(path.getFileSystem(conf).makeQualified(path));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
    return roots;
  }

  private Configuration hadoopConf() {
    return session.sessionState().newHadoopConfWithOptions(Scala.map(options));
  }
}
