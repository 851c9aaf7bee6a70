package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.Connectors;
import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ReaderSettings;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * A load of files whose scans are planned. Listing, partitions, schemas and readers are those of Spark's own {@link
 * FileTable}, which does nothing before it is used.
 */
public final class PrunedTable extends FileTable implements SupportsMetadataColumns {
  private static final String WHERE = "where";

  private final FileFormat format;
  private final FileTable files;
  private final SparkSession session;
  private final CaseInsensitiveStringMap options;
  private final Seq<String> paths;
  private final StructType given;
  private PartitioningAwareFileIndex index;
  private LoadPredicate where;

  /**
   * Checks the options, and throws {@link IllegalArgumentException}.
   *
   * @param files Spark's table of the same files
   * @param options of the load and of the session, without paths
   * @param given the user's schema; null if it is inferred
   */
  private PrunedTable(
      FileFormat format,
      FileTable files,
      SparkSession session,
      CaseInsensitiveStringMap options,
      Seq<String> paths,
      StructType given) {
    super(session, options, paths, Option.apply(given));
    this.format = format;
    this.files = files;
    this.session = session;
    this.options = options;
    this.paths = paths;
    this.given = given;
    OptionNames.check(format, options.asCaseSensitiveMap());
    scanOptions(options);
  }

  /**
   * The table of a load by one of our sources. Throws {@link IllegalArgumentException} for a wrong option, and if Hadoop
   * has no file system for one of the paths.
   *
   * @param given the options of the load
   * @param schema the user's schema; null if it is inferred
   * @param files makes Spark's table of the files, from the options of the load and of the session
   */
  public static PrunedTable load(
      FileFormat format,
      FileDataSourceV2 source,
      CaseInsensitiveStringMap given,
      StructType schema,
      Function<CaseInsensitiveStringMap, Table> files) {
    SparkSession session = source.sparkSession();
    CaseInsensitiveStringMap all = SessionOptions.with(session, format, given);
    Seq<String> paths = source.getPaths(all);
    // Before Spark opens them.
    Connectors.require(format, Scala.list(paths), session.sessionState().newHadoopConf());
    CaseInsensitiveStringMap options = source.getOptionsWithoutPaths(all);
    return new PrunedTable(format, (FileTable) files.apply(all), session, options, paths, schema);
  }

  @Override
  public String name() {
    return format.source() + " " + paths.mkString(",");
  }

  @Override
  public String toString() {
    return name();
  }

  @Override
  public synchronized PartitioningAwareFileIndex fileIndex() {
    if (index == null) {
      Configuration conf = session.sessionState().newHadoopConfWithOptions(Scala.map(options));
      index = TableLog.refuseReading(files.fileIndex(), options.asCaseSensitiveMap(), conf);
    }
    return index;
  }

  @Override
  public StructType dataSchema() {
    return files.dataSchema();
  }

  /**
   * Also resolves the option {@code where}: Spark asks for the schema at the load, so later settings do not affect it.
   */
  @Override
  public synchronized StructType schema() {
    fileIndex();
    StructType schema = files.schema();
    if (where == null) {
      String sql = options.get(WHERE);
      where =
          sql == null
              ? LoadPredicate.none(schema)
              : LoadPredicate.of(session, sql, schema, options.get(DateTimeUtils.TIMEZONE_OPTION()));
    }
    return schema;
  }

  /** The conjuncts of the option {@code where}. */
  List<Expression> conditions() {
    schema();
    return where.conjuncts();
  }

  @Override
  public Option<StructType> inferSchema(Seq<FileStatus> listed) {
    return files.inferSchema(listed);
  }

  @Override
  public boolean supportsDataType(DataType type) {
    return files.supportsDataType(type);
  }

  @Override
  public String formatName() {
    return files.formatName();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ofQuery) {
    OptionNames.check(format, ofQuery.asCaseSensitiveMap());
    CaseInsensitiveStringMap merged = mergedOptions(ofQuery);
    StructType schema = schema();
    String unplannableReason = ReaderSettings.unplannableReason(session, format, schema, Scala.map(merged));
    PlannerPredicate predicates =
        new PlannerPredicate(session, format, schema, fileIndex().partitionSchema(), unplannableReason);
    LoadContext context = new LoadContext(session, scanOptions(merged), where, predicates);
    return PrunedScanBuilder.of(context, (FileScanBuilder) files.newScanBuilder(merged), fileIndex(), schema);
  }

  /** @param merged the options of the load and of the query */
  private ScanOptions scanOptions(CaseInsensitiveStringMap merged) {
    if (!Objects.equals(merged.get(WHERE), options.get(WHERE))) {
      throw new IllegalArgumentException(
          "option where belongs to a load of paths: a query cannot add it to "
              + name()
              + "; use .where(…) or WHERE instead");
    }
    return ScanOptions.of(merged, merged.asCaseSensitiveMap(), DriverSettings.of(session.sparkContext()));
  }

  /** Spark takes a cached table with an equal name and id for this one, so the id covers {@code where}. */
  @Override
  public String id() {
    schema();
    return where.isNone() ? null : where.id();
  }

  // Spark reuses rows, cached or exchanged, between relations of equal tables.
  @Override
  public boolean equals(Object other) {
    return other instanceof PrunedTable that
        && format == that.format
        && session == that.session
        && options.equals(that.options)
        && Objects.equals(where, that.where)
        && paths.equals(that.paths)
        && Objects.equals(given, that.given);
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
  public Class<? extends org.apache.spark.sql.execution.datasources.FileFormat> fallbackFileFormat() {
    return files.fallbackFileFormat();
  }

  /** Not called by INSERT into a view, which Spark turns into a write by {@link #fallbackFileFormat}. */
  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return files.newWriteBuilder(info);
  }
}
