package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.orc.OrcConf;
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
  /** Settings by which ORC's reader may return other columns or values than the planner assumes. */
  private static final List<OrcConf> UNPLANNABLE =
      List.of(
          OrcConf.FORCE_POSITIONAL_EVOLUTION,
          OrcConf.INCLUDE_COLUMNS,
          OrcConf.MAX_FILE_LENGTH,
          OrcConf.PROLEPTIC_GREGORIAN,
          OrcConf.PROLEPTIC_GREGORIAN_DEFAULT);

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
  String unplannableReason(CaseInsensitiveStringMap options) {
    Configuration conf = session().sessionState().newHadoopConfWithOptions(Scala.map(options));
    for (OrcConf each : UNPLANNABLE) {
      String set = conf.get(each.getAttribute());
      if (set == null && each.getHiveConfName() != null) {
        set = conf.get(each.getHiveConfName());
      }
      if (set != null && !set.trim().equalsIgnoreCase(String.valueOf(each.getDefaultValue()))) {
        return String.format("%s is %s, by which ORC's reader may return other columns or values", each.getAttribute(), set);
      }
    }
    return null;
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
