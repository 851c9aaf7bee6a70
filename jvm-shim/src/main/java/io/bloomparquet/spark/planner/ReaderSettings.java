package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.FileFormat;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.orc.OrcConf;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map;

/** Settings by which Spark's reader may return other columns or values than the planner assumes. */
public final class ReaderSettings {
  private static final List<OrcConf> ORC =
      List.of(
          OrcConf.FORCE_POSITIONAL_EVOLUTION,
          OrcConf.INCLUDE_COLUMNS,
          OrcConf.MAX_FILE_LENGTH,
          OrcConf.PROLEPTIC_GREGORIAN,
          OrcConf.PROLEPTIC_GREGORIAN_DEFAULT);

  private ReaderSettings() {}

  /**
   * Why the files cannot be planned; null if they can.
   *
   * @param schema the columns that the reader looks for
   * @param options of the load
   */
  public static String unplannableReason(
      SparkSession session, FileFormat format, StructType schema, Map<String, String> options) {
    return format == FileFormat.ORC ? ofOrc(session, options) : ofParquet(session, schema, options);
  }

  /** Spark's reader looks for this setting in Hadoop's configuration, to which options of a load are added. */
  private static String ofParquet(SparkSession session, StructType schema, Map<String, String> options) {
    return ParquetUtils.hasFieldIds(schema)
            && session
                .sessionState()
                .newHadoopConfWithOptions(options)
                .getBoolean(SQLConf.PARQUET_FIELD_ID_READ_ENABLED().key(), false)
        ? "columns are matched by field id, not by name"
        : null;
  }

  private static String ofOrc(SparkSession session, Map<String, String> options) {
    Configuration conf = session.sessionState().newHadoopConfWithOptions(options);
    for (OrcConf each : ORC) {
      String set = conf.get(each.getAttribute());
      if (set == null && each.getHiveConfName() != null) {
        set = conf.get(each.getHiveConfName());
      }
      if (set != null && !set.trim().equalsIgnoreCase(String.valueOf(each.getDefaultValue()))) {
        return String.format(
            "%s is %s, by which ORC's reader may return other columns or values", each.getAttribute(), set);
      }
    }
    return null;
  }
}
