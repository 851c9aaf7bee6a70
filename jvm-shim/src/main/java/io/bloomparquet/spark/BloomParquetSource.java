package io.bloomparquet.spark;

import io.bloomparquet.spark.load.LoadedTable;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.write.BloomParquetFormat;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code bloomparquet}. Spark loads paths and creates temporary views by it. Everything else uses
 * {@link BloomParquetFormat} directly.
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
    BloomParquetExtensions.installInActiveSession();
    return LoadedTable.load(FileFormat.PARQUET, this, options, null, super::getTable);
  }

  @Override
  public Table getTable(CaseInsensitiveStringMap options, StructType schema) {
    BloomParquetExtensions.installInActiveSession();
    return LoadedTable.load(FileFormat.PARQUET, this, options, schema, all -> super.getTable(all, schema));
  }
}
