package io.bloomparquet.spark;

import io.bloomparquet.spark.scan.PrunedTable;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.SessionOptions;
import io.bloomparquet.spark.write.BloomParquetFormat;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code bloomparquet}. Spark loads paths and creates temporary views by it. For catalog tables, path
 * queries, streams and writes, Spark uses {@link BloomParquetFormat} instead.
 */
public final class BloomParquetSource extends ParquetDataSourceV2 {

  @Override
  public String shortName() {
    return FileFormat.PARQUET.source();
  }

  @Override
  public Class<BloomParquetFormat> fallbackFileFormat() {
    BloomParquetExtensions.installInActiveSession();
    return BloomParquetFormat.class;
  }

  @Override
  public Table getTable(CaseInsensitiveStringMap options) {
    return table(options, null);
  }

  @Override
  public Table getTable(CaseInsensitiveStringMap options, StructType schema) {
    return table(options, schema);
  }

  private Table table(CaseInsensitiveStringMap given, StructType schema) {
    BloomParquetExtensions.installInActiveSession();
    CaseInsensitiveStringMap all = SessionOptions.with(sparkSession(), FileFormat.PARQUET, given);
    PrunedTable.requireConnectors(FileFormat.PARQUET, getPaths(all), sparkSession()); // before Spark opens them
    Table files = schema == null ? super.getTable(all) : super.getTable(all, schema);
    return new PrunedTable(
        FileFormat.PARQUET, (FileTable) files, sparkSession(), getOptionsWithoutPaths(all), getPaths(all), schema);
  }
}
