package io.bloomparquet.spark;

import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils$;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * What Spark finds under the name {@code bloomparquet}: tables that plan before they are read, and Spark's own Parquet
 * for everything else.
 *
 * <p>Being a {@link ParquetFileFormat} as well gives writing, streaming and {@code SELECT … FROM bloomparquet.`path`} to
 * Spark's own code for files. {@code FileDataSourceV2} is not implemented on purpose: Spark replaces tables of such a
 * provider by plain Parquet in the catalog, and they would never be planned.
 */
public final class BloomParquetSource extends ParquetFileFormat implements TableProvider, SessionConfigSupport {
  private static final long serialVersionUID = 1L;
  static final String NAME = "bloomparquet";

  private transient PrunedTable inferred;

  /** Spark makes one whenever it looks up the name; so each session that uses it has the rules. */
  public BloomParquetSource() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isDefined()) {
      CommandRules.install(session.get());
    }
  }

  @Override
  public String shortName() {
    return NAME;
  }

  /** Options may also be given once for a session: {@code spark.datasource.bloomparquet.planning=off}. */
  @Override
  public String keyPrefix() {
    return NAME;
  }

  @Override
  public String toString() {
    return NAME;
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    inferred = table(options, null, null);
    return inferred.schema();
  }

  /** The directories say how a table is partitioned, when it is read; so there is nothing to infer before. */
  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return inferred == null ? new Transform[0] : inferred.partitioning();
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    // Spark makes one provider for each load: the files that its schema was inferred from are listed already.
    if (inferred != null && inferred.schema().equals(schema)) {
      return inferred;
    }
    boolean ofCatalog = properties.containsKey(TableCatalog.PROP_PROVIDER);
    return table(new CaseInsensitiveStringMap(properties), schema, ofCatalog ? partitioning : null);
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session,
      Job job,
      scala.collection.immutable.Map<String, String> options,
      StructType dataSchema) {
    Map<String, String> all = OptionLayers.of(sessionOptions(session), Scala.map(options));
    KeyProviderRule.check(OptionLayers.of(Scala.map(options)), sessionOptions(session), job.getConfiguration());
    BloomWriteOptions filters = BloomWriteOptions.of(all, dataSchema);
    filters.applyTo(job.getConfiguration());
    boolean commits = OverwriteRule.isSparksOwn(session, job.getConfiguration());
    OutputWriterFactory writers =
        filters.writers(super.prepareWrite(session, job, options, dataSchema), job.getConfiguration());
    if (commits) {
      OverwriteRule.prepare(all, job.getConfiguration());
    }
    return writers;
  }

  /** Spark adds these in load() and nowhere else. A condition belongs to one load, and is none of a session's. */
  Map<String, String> sessionOptions(SparkSession session) {
    Map<String, String> found =
        OptionLayers.of(
            Scala.map(DataSourceV2Utils$.MODULE$.extractSessionConfigs(this, session.sessionState().conf())));
    found.remove("where");
    return found;
  }

  /** Asked where Spark reads the files as plain Parquet, by streams and path queries: there, nobody applies a condition. */
  @Override
  public scala.Function1<PartitionedFile, scala.collection.Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      scala.collection.immutable.Seq<Filter> filters,
      scala.collection.immutable.Map<String, String> options,
      Configuration conf) {
    if (OptionLayers.of(Scala.map(options)).containsKey("where")) {
      throw new IllegalArgumentException(
          "option where is not for streams and path queries, which are read as plain Parquet; use .where(…) instead");
    }
    return super.buildReaderWithPartitionValues(
        session, dataSchema, partitionSchema, requiredSchema, filters, options, conf);
  }

  private PrunedTable table(CaseInsensitiveStringMap given, StructType schema, Transform[] declared) {
    SparkSession session = SparkSession.active();
    Map<String, String> options = OptionLayers.of(sessionOptions(session), given.asCaseSensitiveMap());
    return new BloomParquetTable(
        session,
        TablePaths.without(given).asCaseSensitiveMap(),
        new CaseInsensitiveStringMap(options),
        schema,
        declared);
  }
}
