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
 * The files of a table of the catalog. Its directory need not exist, and there may be no partition in it yet, as for
 * Spark's own tables; and it knows the table's options, which Spark forgets on the way from INSERT to the writer of files.
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

  /** @param partitions the columns by which the table is said to be partitioned; its directories may not say it yet */
  static TableFiles of(
      SparkSession session,
      List<Path> roots,
      CaseInsensitiveStringMap options,
      StructType schema,
      StructType partitions,
      Configuration conf) {
    TableFiles found = new TableFiles(session, roots, options, schema, Option.empty());
    TableLog.refuseReading(found, options.asCaseSensitiveMap(), conf);
    String said = String.join(", ", partitions.fieldNames());
    String there = String.join(", ", found.partitionSchema().fieldNames());
    if (partitions.isEmpty() || said.equals(there)) {
      return found;
    }
    if (!there.isEmpty() && !said.equalsIgnoreCase(there)) {
      throw new IllegalArgumentException(
          String.format("the table is partitioned by %s, and its directories by %s: %s", said, there, roots));
    }
    PartitionSpec known = new PartitionSpec(partitions, found.partitionSpec().partitions());
    return new TableFiles(session, roots, options, schema, Option.apply(known));
  }

  public CaseInsensitiveStringMap options() {
    return options;
  }
}
