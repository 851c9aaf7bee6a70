package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.TableLog;
import io.bloomparquet.spark.support.Scala;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileStatusCache$;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * The files of a catalog table. As for Spark's own tables, the directory need not exist, and need not have partitions
 * yet. Keeps the table's options, which Spark drops between INSERT and the file format that writes.
 */
public final class TableFiles extends InMemoryFileIndex {
  private final CaseInsensitiveStringMap options;

  private TableFiles(
      SparkSession session,
      List<Path> roots,
      CaseInsensitiveStringMap options,
      StructType schema,
      Option<PartitionSpec> partitions) {
    super(
        session,
        Scala.seq(roots),
        Scala.map(options),
        Option.apply(schema),
        FileStatusCache$.MODULE$.getOrCreate(session),
        partitions,
        Option.empty());
    this.options = options;
  }

  /** @param partitions the partition columns in the catalog; the directories may not have them yet */
  static TableFiles of(
      SparkSession session,
      List<Path> roots,
      CaseInsensitiveStringMap options,
      StructType schema,
      StructType partitions,
      Configuration conf) {
    TableFiles files = new TableFiles(session, roots, options, schema, Option.empty());
    TableLog.refuseReading(files, options.asCaseSensitiveMap(), conf);
    String declared = String.join(", ", partitions.fieldNames());
    String inferred = String.join(", ", files.partitionSchema().fieldNames());
    if (partitions.isEmpty() || declared.equals(inferred)) {
      return files;
    }
    if (!inferred.isEmpty() && !declared.equalsIgnoreCase(inferred)) {
      throw new IllegalArgumentException(
          String.format("the table is partitioned by %s, but its directories by %s: %s", declared, inferred, roots));
    }
    PartitionSpec spec = new PartitionSpec(partitions, files.partitionSpec().partitions());
    return new TableFiles(session, roots, options, schema, Option.apply(spec));
  }

  public CaseInsensitiveStringMap options() {
    return options;
  }
}
