package io.bloomparquet.spark;

import io.bloomparquet.spark.load.LoadedTable;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.write.BloomOrcFormat;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code bloomorc}. Spark loads paths and creates temporary views by it. Everything else uses
 * {@link BloomOrcFormat} directly.
 */
public final class BloomOrcSource extends OrcDataSourceV2 {

  @Override
  public String shortName() {
    return FileFormat.ORC.source();
  }

  @Override
  public Class<BloomOrcFormat> fallbackFileFormat() {
    BloomParquetExtensions.installInActiveSession();
    return BloomOrcFormat.class;
  }

  @Override
  public Table getTable(CaseInsensitiveStringMap options) {
    BloomParquetExtensions.installInActiveSession();
    return LoadedTable.load(FileFormat.ORC, this, options, null, super::getTable);
  }

  @Override
  public Table getTable(CaseInsensitiveStringMap options, StructType schema) {
    BloomParquetExtensions.installInActiveSession();
    return LoadedTable.load(FileFormat.ORC, this, options, schema, all -> super.getTable(all, schema));
  }
}
