package io.bloomparquet.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

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
    inferred = table(options, null, new Transform[0]);
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
    return inferred != null && inferred.schema().equals(schema)
        ? inferred
        : table(new CaseInsensitiveStringMap(properties), schema, partitioning);
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session,
      Job job,
      scala.collection.immutable.Map<String, String> options,
      StructType dataSchema) {
    BloomWriteOptions.of(options, dataSchema).applyTo(job.getConfiguration());
    return super.prepareWrite(session, job, options, dataSchema);
  }

  private PrunedTable table(CaseInsensitiveStringMap given, StructType schema, Transform[] declared) {
    SparkSession session = SparkSession.active();
    OverwriteGuard.install(session);
    // Spark does this for load() and not for tables of the catalog.
    Map<String, String> options =
        new HashMap<>(
            Scala.map(DataSourceV2Utils$.MODULE$.extractSessionConfigs(this, session.sessionState().conf())));
    options.keySet().removeIf(given::containsKey);
    options.putAll(given.asCaseSensitiveMap());
    return new BloomParquetTable(session, new CaseInsensitiveStringMap(options), schema, declared);
  }
}
