package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/** A table of Parquet files. */
public final class BloomParquetTable extends PrunedTable {
  public BloomParquetTable(TableDefinition definition) {
    super(definition);
  }

  @Override
  FileFormat format() {
    return FileFormat.PARQUET;
  }

  @Override
  FileScanBuilder newFileScanBuilder(CaseInsensitiveStringMap options) {
    return new ParquetScanBuilder(session(), fileIndex(), schema(), dataSchema(), options);
  }

  @Override
  public Option<StructType> inferSchema(Seq<FileStatus> files) {
    return ParquetUtils.inferSchema(session(), Scala.map(options()), files);
  }

  @Override
  public boolean supportsDataType(DataType type) {
    return new ParquetFileFormat().supportDataType(type);
  }

  @Override
  public String formatName() {
    return "Parquet";
  }
}
