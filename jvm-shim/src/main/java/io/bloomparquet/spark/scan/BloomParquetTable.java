package io.bloomparquet.spark;

import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/** Parquet files. */
final class BloomParquetTable extends PrunedTable {
  BloomParquetTable(
      SparkSession session,
      Map<String, String> properties,
      CaseInsensitiveStringMap options,
      StructType given,
      Transform[] declared) {
    super(session, properties, options, given, declared);
  }

  @Override
  FileKind kind() {
    return FileKind.PARQUET;
  }

  @Override
  FileScanBuilder newFileScanBuilder(CaseInsensitiveStringMap options) {
    return new ParquetScanBuilder(session(), fileIndex(), schema(), dataSchema(), options);
  }

  /** With field ids, Spark looks for columns under other names than the planner would. */
  @Override
  String doubt(CaseInsensitiveStringMap options) {
    return session().sessionState().conf().parquetFieldIdReadEnabled() && ParquetUtils.hasFieldIds(schema())
        ? "columns are found by their ids"
        : null;
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

  @Override
  public Class<? extends FileFormat> fallbackFileFormat() {
    return BloomParquetSource.class;
  }
}
