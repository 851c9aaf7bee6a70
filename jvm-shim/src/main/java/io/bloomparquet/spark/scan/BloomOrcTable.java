package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/** A table of ORC files. */
public final class BloomOrcTable extends PrunedTable {
  public BloomOrcTable(TableDefinition definition) {
    super(definition);
  }

  @Override
  FileFormat format() {
    return FileFormat.ORC;
  }

  @Override
  FileScanBuilder newFileScanBuilder(CaseInsensitiveStringMap options) {
    return new OrcScanBuilder(session(), fileIndex(), schema(), dataSchema(), options);
  }

  @Override
  public Option<StructType> inferSchema(Seq<FileStatus> files) {
    return OrcUtils.inferSchema(session(), files, Scala.map(options()));
  }

  @Override
  public boolean supportsDataType(DataType type) {
    return new OrcFileFormat().supportDataType(type);
  }

  @Override
  public String formatName() {
    return "ORC";
  }
}
