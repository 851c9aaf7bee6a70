package io.bloomparquet.spark.plain;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.WhyNot;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.tables.DeltaTable;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcScan;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScan;

/** The reason why one of Spark's scans of Parquet or ORC files is not pruned. */
public final class UnprunedScan {
  private UnprunedScan() {}

  /**
   * The scan as {@code last_plan} shows it; null if {@code plan} is no scan of Parquet or ORC files.
   *
   * @param query the optimized plan
   */
  public static ObjectNode toJson(SparkPlan plan, LogicalPlan query) {
    if (plan instanceof FileSourceScanExec scan) {
      FileFormat format = format(scan.relation());
      return format == null ? null : node(format, scan.relation().location()).put("reason", reason(scan, format, query));
    }
    if (plan instanceof BatchScanExec batch) {
      return batch.scan() instanceof FileScan scan ? ofV2(scan) : IcebergScans.unpruned(batch, query);
    }
    return plan.children().isEmpty() ? ofAnotherEngine(plan) : null;
  }

  private static ObjectNode ofV2(FileScan scan) {
    FileFormat format = format(scan instanceof ParquetScan, scan instanceof OrcScan);
    return format == null
        ? null
        : node(format, scan.fileIndex())
            .put(
                "reason",
                "Spark reads the files by its V2 source, as spark.sql.sources.useV1SourceList does not name "
                    + format.shortName());
  }

  /** Another engine, such as Comet, has replaced Spark's scan of the files that its own scan is linked to. */
  private static ObjectNode ofAnotherEngine(SparkPlan scan) {
    ObjectNode node = scan.logicalLink().isEmpty() ? null : files(scan.logicalLink().get());
    return node == null
        ? null
        : node.put(
            "reason",
            String.format(
                "another engine's scan (%s) replaces Spark's; bloomparquet skips nothing in it",
                scan.getClass().getSimpleName()));
  }

  private static ObjectNode files(LogicalPlan read) {
    HadoopFsRelation relation = PlainScans.relation(read);
    FileFormat format = relation == null ? null : format(relation);
    return format == null ? IcebergScans.table(read) : node(format, relation.location());
  }

  /** Paths and unit of a scan without a plan. */
  static ObjectNode node(FileFormat format, FileIndex files) {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("unit", format.unit());
    var paths = node.putArray("paths");
    Scala.list(files.rootPaths()).forEach(path -> paths.add(path.toString()));
    return node.putNull("where").put("planned", false);
  }

  private static FileFormat format(HadoopFsRelation relation) {
    return format(relation.fileFormat() instanceof ParquetFileFormat, relation.fileFormat() instanceof OrcFileFormat);
  }

  private static FileFormat format(boolean isParquet, boolean isOrc) {
    return isParquet ? FileFormat.PARQUET : isOrc ? FileFormat.ORC : null;
  }

  private static String reason(FileSourceScanExec scan, FileFormat format, LogicalPlan query) {
    if (DeltaTable.isScannedBy(scan.relation()) && !DeltaTable.readsParts(scan.relation())) {
      return "Delta Lake counts rows for deletion vectors from the start of each part of a file, as "
          + "spark.databricks.delta.deletionVectors.useMetadataRowIndex is false";
    }
    if (PlainScans.format(scan) == null) {
      return String.format(
          "the files are read by %s, not by Spark's own %s reader",
          scan.relation().fileFormat().getClass().getName(), format.shortName());
    }
    if (!PlainScans.filtersData(scan)) {
      return "the query has no filter that can skip "
          + format.unit()
          + "s"
          + WhyNot.describe(ScanJoins.of(query, scan, List.of()));
    }
    return PlainScans.isEnabled(scan.session().sessionState().conf(), scan.relation())
        ? "the query was planned before attach(spark), or while " + PlainScans.ENABLED + " was false"
        : PlainScans.ENABLED + " is false";
  }
}
