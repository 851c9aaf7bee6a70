package io.bloomparquet.spark.load;

import io.bloomparquet.spark.files.Connectors;
import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The files of one load, as Spark's own {@link FileTable} lists them, and the option {@code where} as it was resolved
 * at the load. It is not scanned: {@link LoadRule} replaces it by Spark's relation of the files.
 */
public final class LoadedTable extends FileTable implements SupportsMetadataColumns {
  private static final String WHERE = "where";

  private final FileFormat format;
  private final FileTable files;
  private final SparkSession session;
  private final CaseInsensitiveStringMap options;
  private final Seq<String> paths;
  private final StructType given;
  private final LoadPredicate where;

  /**
   * @param files Spark's table of the same files
   * @param options of the load and of the session, without paths
   * @param given the user's schema; null if it is inferred
   */
  private LoadedTable(
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
    String sql = options.get(WHERE);
    String zone = options.get(DateTimeUtils.TIMEZONE_OPTION());
    this.where = sql == null ? null : LoadPredicate.of(session, sql, files.schema(), zone);
  }

  /**
   * The table of a load by one of our sources. Throws {@link IllegalArgumentException} for a wrong option, and if Hadoop
   * has no file system for one of the paths; {@link UnsupportedOperationException} for the files of a table with a log.
   *
   * @param given the options of the load
   * @param schema the user's schema; null if it is inferred
   * @param files makes Spark's table of the files, from the options of the load and of the session
   */
  public static LoadedTable load(
      FileFormat format,
      FileDataSourceV2 source,
      CaseInsensitiveStringMap given,
      StructType schema,
      Function<CaseInsensitiveStringMap, Table> files) {
    SparkSession session = source.sparkSession();
    CaseInsensitiveStringMap all = SessionOptions.with(session, format, given);
    Seq<String> paths = source.getPaths(all);
    CaseInsensitiveStringMap options = source.getOptionsWithoutPaths(all);
    check(format, session, options);
    // Before Spark opens them.
    Connectors.require(format, Scala.list(paths), session.sessionState().newHadoopConf());
    FileTable table = (FileTable) files.apply(all);
    Configuration conf = session.sessionState().newHadoopConfWithOptions(Scala.map(options));
    TableLog.refuseReading(table.fileIndex(), options.asCaseSensitiveMap(), conf);
    return new LoadedTable(format, table, session, options, paths, schema);
  }

  private static void check(FileFormat format, SparkSession session, CaseInsensitiveStringMap options) {
    OptionNames.check(format, options.asCaseSensitiveMap());
    ScanOptions.of(options, options.asCaseSensitiveMap(), DriverSettings.of(session.sparkContext()));
  }

  /**
   * Spark's relation of the files, without the option {@code where}.
   *
   * @param ofQuery the options of the query, which may add to the ones of the load
   */
  HadoopFsRelation relation(CaseInsensitiveStringMap ofQuery) {
    CaseInsensitiveStringMap merged = mergedOptions(ofQuery);
    check(format, session, merged);
    if (!Objects.equals(merged.get(WHERE), options.get(WHERE))) {
      throw new IllegalArgumentException(
          "option where belongs to a load of paths: a query cannot add it to "
              + name()
              + "; use .where(…) or WHERE instead");
    }
    Map<String, String> ofFiles = OptionNames.merge(merged.asCaseSensitiveMap());
    ofFiles.remove(WHERE);
    return new HadoopFsRelation(
        fileIndex(),
        fileIndex().partitionSchema(),
        dataSchema(),
        Option.empty(),
        newFormat(),
        Scala.map(ofFiles), // in the case in which they were given: some are Hadoop's
        session);
  }

  private org.apache.spark.sql.execution.datasources.FileFormat newFormat() {
    try {
      return fallbackFileFormat().getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The option {@code where}; null for all rows. */
  LoadPredicate where() {
    return where;
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
  public PartitioningAwareFileIndex fileIndex() {
    return files.fileIndex();
  }

  @Override
  public StructType dataSchema() {
    return files.dataSchema();
  }

  @Override
  public StructType schema() {
    return files.schema();
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
    throw new IllegalStateException(
        name()
            + ": the optimizer has not replaced this load by Spark's relation of its files; expected its rule "
            + LoadRule.class.getName()
            + " to run. Remove it from spark.sql.optimizer.excludedRules");
  }

  /** Spark takes a cached table with an equal name and id for this one, so the id covers {@code where}. */
  @Override
  public String id() {
    return where == null ? null : where.id();
  }

  // Spark reuses cached rows for equal tables.
  @Override
  public boolean equals(Object other) {
    return other instanceof LoadedTable that
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

  /** The hidden column {@code _metadata}, which Spark's relation of the files has too. */
  @Override
  public MetadataColumn[] metadataColumns() {
    var column = newFormat().createFileMetadataCol();
    return new MetadataColumn[] {
      new MetadataColumn() {
        @Override
        public String name() {
          return column.name();
        }

        @Override
        public DataType dataType() {
          return column.dataType();
        }

        @Override
        public boolean isNullable() {
          return column.nullable();
        }
      }
    };
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
