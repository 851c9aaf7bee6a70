package io.bloomparquet.spark;

import io.bloomparquet.spark.commands.CommandRules;
import io.bloomparquet.spark.commands.FileSource;
import io.bloomparquet.spark.commands.OverwriteRule;
import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.filters.FilterOptions;
import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.scan.TableDefinition;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.OptionLayers;
import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.Scala;
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
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils$;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * What Spark finds under a name such as {@code bloomparquet}: tables that plan before they are read, and Spark's own file
 * format for everything else.
 *
 * <p>A source is a file format of Spark's as well: that gives writing, streaming and {@code SELECT … FROM
 * bloomparquet.`path`} to Spark's own code for files. {@code FileDataSourceV2} is not implemented on purpose: Spark replaces
 * tables of such a provider by plain ones in the catalog, and they would never be planned.
 */
interface BloomSource extends FileSource, TableProvider, SessionConfigSupport, StreamSinkProvider {

  /** Of one load: the table of which the schema was inferred, if it was. */
  final class Load {
    private PrunedTable inferred;
  }

  Load load();

  PrunedTable newTable(TableDefinition definition);

  /**
   * The filters of a write. Checks the values of its options, and throws {@link IllegalArgumentException}.
   *
   * @param options of the write, of which the keys may have been folded to lower case
   * @param schema of the files
   */
  FilterOptions newFilterOptions(Map<String, String> options, StructType schema);

  @Override
  default FilterOptions filterOptions(Map<String, String> options, StructType schema) {
    OptionNames.check(format(), options);
    if (OptionLayers.of(options).containsKey("where")) {
      throw new IllegalArgumentException(
          "option where belongs to a load, and this is a write; filter the DataFrame, or write to a table or path without it");
    }
    return newFilterOptions(options, schema);
  }

  /** The source of a name as it is given in {@code format(…)} and {@code USING}; null if it is none of ours. */
  static BloomSource named(String provider) {
    return Stream.of(new BloomParquetSource(), new BloomOrcSource())
        .filter(each -> provider.equalsIgnoreCase(each.format().source()) || provider.equals(each.getClass().getName()))
        .findFirst()
        .orElse(null);
  }

  /** Spark makes a source whenever it looks up the name; so each session that uses it has the rules. */
  static void looked() {
    DriverSettings.makeStatic();
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isDefined()) {
      install(session.get());
    }
  }

  private static void install(SparkSession session) {
    CommandRules.install(session, BloomSource::named);
  }

  /** Options may also be given once for a session: {@code spark.datasource.bloomparquet.planning=off}. */
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

  /** The directories say how a table is partitioned, when it is read; so there is nothing to infer before. */
  @Override
  default Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return load().inferred == null ? new Transform[0] : load().inferred.partitioning();
  }

  @Override
  default Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    // Spark makes one provider for each load: the files that its schema was inferred from are listed already.
    PrunedTable inferred = load().inferred;
    if (inferred != null && inferred.schema().equals(schema)) {
      return inferred;
    }
    boolean ofCatalog = properties.containsKey(TableCatalog.PROP_PROVIDER);
    return table(new CaseInsensitiveStringMap(properties), schema, ofCatalog ? partitioning : null);
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
    Map<String, String> found =
        OptionLayers.of(
            Scala.map(DataSourceV2Utils$.MODULE$.extractSessionConfigs(this, session.sessionState().conf())));
    try {
      if (found.containsKey("where")) {
        throw new IllegalArgumentException("option where belongs to one load, not to a session");
      }
      OptionNames.check(format(), found);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(
          String.format("among the session's settings spark.datasource.%s.…: %s", keyPrefix(), error.getMessage()), error);
    }
    return found;
  }

  /**
   * Has a job write the filters that its options ask for, and commit as they say.
   *
   * @param conf of the job
   * @param sparks prepares the job to write by Spark's own format
   */
  default OutputWriterFactory prepareWrite(
      SparkSession session,
      Configuration conf,
      scala.collection.immutable.Map<String, String> options,
      StructType schema,
      Supplier<OutputWriterFactory> sparks) {
    Map<String, String> all = OptionLayers.of(sessionOptions(session), Scala.map(options));
    FilterOptions filters = filterOptions(all, schema);
    filters.applyTo(conf);
    boolean commits = OverwriteRule.isSparksOwn(session, this, conf);
    OutputWriterFactory writers = filters.withFilters(sparks.get(), conf);
    if (commits) {
      OverwriteRule.prepare(all, conf);
    }
    return writers;
  }

  /** Spark's own sink for files. Streams write without the command that {@link CommandRules} looks at. */
  @Override
  default Sink createSink(
      SQLContext context,
      scala.collection.immutable.Map<String, String> options,
      scala.collection.immutable.Seq<String> partitionColumns,
      OutputMode mode) {
    if (!mode.equals(OutputMode.Append())) {
      throw Thrown.unchecked(QueryCompilationErrors$.MODULE$.dataSourceOutputModeUnsupportedError(format().source(), mode));
    }
    String given = OptionLayers.of(Scala.map(options)).get("path");
    if (given == null) {
      throw new IllegalArgumentException("no path was given to write the stream to; expected one, as in start(path)");
    }
    Configuration conf = context.sparkSession().sessionState().newHadoopConfWithOptions(options);
    Path path = new Path(given);
    TableLog.refuseWriting(path, false, conf);
    try {
      String qualified = path.getFileSystem(conf).makeQualified(path).toString();
      return new FileStreamSink(context.sparkSession(), qualified, (FileFormat) this, partitionColumns, options);
    } catch (IOException error) {
      throw Thrown.unchecked(error);
    }
  }

  /** For where Spark reads files without these tables, in streams and path queries: there, nobody applies a condition. */
  default void checkPlainRead(scala.collection.immutable.Map<String, String> options) {
    OptionNames.check(format(), Scala.map(options));
    if (OptionLayers.of(Scala.map(options)).containsKey("where")) {
      throw new IllegalArgumentException(
          String.format(
              "option where is not for streams and path queries, which are read as plain %s; use .where(…) instead",
              format() == io.bloomparquet.spark.support.FileFormat.PARQUET ? "Parquet" : format().name()));
    }
  }
}
