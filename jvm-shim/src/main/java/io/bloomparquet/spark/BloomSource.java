package io.bloomparquet.spark;

import io.bloomparquet.spark.commands.CommandRules;
import io.bloomparquet.spark.commands.FileSource;
import io.bloomparquet.spark.commands.SafeOverwrite;
import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.filters.FilterOptions;
import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.scan.TableDefinition;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.support.Thrown;
import java.io.IOException;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A data source that Spark finds by a name such as {@code bloomparquet}. It creates tables whose scans are planned.
 *
 * <p>It is also one of Spark's file formats: Spark's own code writes, streams, and runs {@code SELECT … FROM
 * bloomparquet.`path`}. It is deliberately no {@code FileDataSourceV2}: Spark replaces the catalog tables of such a
 * provider by plain ones, which would not be planned.
 */
interface BloomSource extends FileSource, TableProvider, SessionConfigSupport, StreamSinkProvider {

  /** The state of one load: the table whose schema was inferred, or null. */
  final class Load {
    private PrunedTable inferred;
  }

  Load load();

  PrunedTable newTable(TableDefinition definition);

  /** The filters of a write. Checks the values of its options, and throws {@link IllegalArgumentException}. */
  FilterOptions newFilterOptions(Map<String, String> options, StructType schema);

  @Override
  default FilterOptions filterOptions(Map<String, String> options, StructType schema) {
    OptionNames.check(format(), options);
    SessionOptions.refuseWhere(
        options,
        "belongs to a load, and this is a write; filter the DataFrame instead, or write to a path or table without this "
            + "option");
    return newFilterOptions(options, schema);
  }

  /** Our source for a name in {@code format(…)} or {@code USING}; null for another provider. */
  static BloomSource named(String provider) {
    return Stream.of(new BloomParquetSource(), new BloomOrcSource())
        .filter(each -> provider.equalsIgnoreCase(each.format().source()) || provider.equals(each.getClass().getName()))
        .findFirst()
        .orElse(null);
  }

  /** Adds the rules to the session. Every constructor calls it, as Spark creates a source at each use of its name. */
  static void prepareSession() {
    DriverSettings.makeStatic();
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isDefined()) {
      install(session.get());
    }
  }

  private static void install(SparkSession session) {
    CommandRules.install(session, BloomSource::named);
  }

  /** Session settings with this prefix are options: {@code spark.datasource.bloomparquet.planning=off}. */
  @Override
  default String keyPrefix() {
    return format().source();
  }

  @Override
  default boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  default StructType inferSchema(CaseInsensitiveStringMap options) {
    load().inferred = table(options, null, null);
    return load().inferred.schema();
  }

  /** Without a schema to infer, the table infers its partitioning from the directories when it is read. */
  @Override
  default Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return load().inferred == null ? new Transform[0] : load().inferred.partitioning();
  }

  @Override
  default Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    // Spark creates one provider for each load, so the inferred table has this load's listing.
    PrunedTable inferred = load().inferred;
    if (inferred != null && inferred.schema().equals(schema)) {
      return inferred;
    }
    boolean isCatalogTable = properties.containsKey(TableCatalog.PROP_PROVIDER);
    return table(new CaseInsensitiveStringMap(properties), schema, isCatalogTable ? partitioning : null);
  }

  private PrunedTable table(CaseInsensitiveStringMap given, StructType schema, Transform[] declared) {
    SparkSession session = SparkSession.active();
    Map<String, String> options = OptionLayers.of(sessionOptions(session), given.asCaseSensitiveMap());
    return newTable(
        new TableDefinition(
            session,
            given,
            new CaseInsensitiveStringMap(options),
            schema,
            declared,
            ((FileFormat) this).getClass(),
            BloomSource::install));
  }

  /** Spark itself adds the session's options in {@code load()} only. */
  @Override
  default Map<String, String> sessionOptions(SparkSession session) {
    return SessionOptions.of(session, format());
  }

  /**
   * Prepares a job to write filters and to commit as its options say.
   *
   * @param conf of the job
   * @param superPrepareWrite Spark's own preparation
   */
  default OutputWriterFactory prepareWrite(
      SparkSession session,
      Configuration conf,
      scala.collection.immutable.Map<String, String> options,
      StructType schema,
      Supplier<OutputWriterFactory> superPrepareWrite) {
    Map<String, String> all = OptionLayers.of(sessionOptions(session), Scala.map(options));
    FilterOptions filters = filterOptions(all, schema);
    filters.applyTo(conf);
    boolean commits = SafeOverwrite.isApplicable(session, this, conf); // Spark's preparation sets a committer
    OutputWriterFactory writers = filters.withFilters(superPrepareWrite.get(), conf);
    if (commits) {
      SafeOverwrite.prepare(all, conf);
    }
    return writers;
  }

  /** Spark's own file sink. A stream writes without the command that {@link CommandRules} checks, so this checks. */
  @Override
  default Sink createSink(
      SQLContext context,
      scala.collection.immutable.Map<String, String> options,
      scala.collection.immutable.Seq<String> partitionColumns,
      OutputMode mode) {
    if (!mode.equals(OutputMode.Append())) {
      throw Thrown.unchecked(QueryCompilationErrors$.MODULE$.dataSourceOutputModeUnsupportedError(format().source(), mode));
    }
    String directory = OptionLayers.of(Scala.map(options)).get("path");
    if (directory == null) {
      throw new IllegalArgumentException("the stream has no path to write to; expected one, as in start(path)");
    }
    Configuration conf = context.sparkSession().sessionState().newHadoopConfWithOptions(options);
    Path path = new Path(directory);
    TableLog.refuseWriting(path, false, conf);
    try {
      String qualified = path.getFileSystem(conf).makeQualified(path).toString();
      return SparkVersions.newFileStreamSink(context.sparkSession(), qualified, (FileFormat) this, partitionColumns, options);
    } catch (IOException error) {
      throw Thrown.unchecked(error);
    }
  }

  /** Checks the options of streams and path queries: Spark reads their files without our tables, so without where. */
  default void checkPlainRead(scala.collection.immutable.Map<String, String> options) {
    OptionNames.check(format(), Scala.map(options));
    SessionOptions.refuseWhere(Scala.map(options), "is not for streams and path queries; use .where(…) instead");
  }
}
