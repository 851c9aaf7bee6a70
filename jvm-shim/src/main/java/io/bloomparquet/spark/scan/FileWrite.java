package io.bloomparquet.spark.scan;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;

/** Writes rows into the files of a table, by Spark's DataFrameWriter. */
final class FileWrite implements SupportsTruncate {
  private final String format;
  private final List<String> paths;
  private final Transform[] partitioning;
  private final Map<String, String> options;
  private SaveMode mode = SaveMode.Append;

  FileWrite(String format, List<String> paths, Transform[] partitioning, Map<String, String> options) {
    this.format = format;
    this.paths = paths;
    this.partitioning = partitioning;
    this.options = options;
    if (options.containsKey(PrunedTable.REPLACE)) {
      truncate();
    }
  }

  @Override
  public WriteBuilder truncate() {
    mode = SaveMode.Overwrite;
    // all partitions, whatever the session's setting
    options.put("partitionOverwriteMode", "static");
    return this;
  }

  @Override
  public Write build() {
    return new V1Write() {
      @Override
      public InsertableRelation toInsertableRelation() {
        return (rows, overwrite) -> {
          if (paths.size() != 1) {
            throw new IllegalArgumentException(
                "a table with " + paths.size() + " paths cannot be written to; expected one path: " + paths);
          }
          DataFrameWriter<Row> writer = rows.write().format(format).options(options).mode(mode);
          String[] columns = Arrays.stream(partitioning).map(FileWrite::column).toArray(String[]::new);
          (columns.length == 0 ? writer : writer.partitionBy(columns)).save(paths.get(0));
        };
      }
    };
  }

  private static String column(Transform transform) {
    if (!transform.name().equals("identity")) {
      throw new IllegalArgumentException(
          "files cannot be partitioned by " + transform.describe() + "; expected columns only");
    }
    return transform.references()[0].fieldNames()[0];
  }
}
