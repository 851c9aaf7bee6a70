package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownVariantExtractions;
import org.apache.spark.sql.connector.read.VariantExtraction;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * Pushes filters and columns down into Spark's own scan builder, and translates the filters for the planner.
 *
 * <p>Does not push aggregates down, like Spark's V1 file scans: min and max in footers ignore NaN, and a footer says
 * nothing of a column that its file lacks.
 */
final class PrunedScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownCatalystFilters,
        SupportsPushDownVariantExtractions {
  private final SparkSession session;
  private final FileScanBuilder files;
  private final StructType schema;
  private final PlannerPredicate predicates;
  private final ScanOptions options;
  private final LoadPredicate where;
  private StructType requested;
  private FileMetadata metadata;
  private List<Expression> filters = List.of();

  PrunedScanBuilder(
      SparkSession session,
      FileScanBuilder files,
      StructType schema,
      PlannerPredicate predicates,
      ScanOptions options,
      LoadPredicate where) {
    this.session = session;
    this.files = files;
    this.schema = schema;
    this.predicates = predicates;
    this.options = options;
    this.where = where;
    this.requested = schema;
    files.pushFilters(Scala.seq(pushable()));
  }

  @Override
  public Seq<Expression> pushFilters(Seq<Expression> pushed) {
    filters = Scala.list(pushed);
    List<Expression> all = new ArrayList<>(pushable());
    all.addAll(filters);
    List<Expression> remaining = new ArrayList<>(Scala.list(files.pushFilters(Scala.seq(all))));
    remaining.retainAll(filters);
    return Scala.seq(remaining);
  }

  @Override
  public Predicate[] pushedFilters() {
    return files.pushedFilters();
  }

  @Override
  public void pruneColumns(StructType columns) {
    metadata = FileMetadata.in(columns, schema);
    requested = metadata == null ? columns : FileMetadata.without(columns);
    StructType read = where.withColumns(requested);
    files.pruneColumns(metadata == null ? read : metadata.withRead(read));
  }

  @Override
  public boolean[] pushVariantExtractions(VariantExtraction[] extractions) {
    return where.isNone() && files instanceof SupportsPushDownVariantExtractions builder
        ? builder.pushVariantExtractions(extractions)
        : new boolean[extractions.length];
  }

  @Override
  public Scan build() {
    FileScan scan = (FileScan) ((ScanBuilder) files).build();
    List<Expression> conjuncts = new ArrayList<>(where.conjuncts());
    if (options.pushFilters()) {
      conjuncts.addAll(filters);
    }
    JsonNode predicate = predicates.ofAll(conjuncts);
    RowAdapter adapter = where.isNone() && metadata == null ? null : where.adapter(scan.readSchema(), requested, metadata);
    return new PrunedScan(session, scan, options, where, predicates, predicate, adapter);
  }

  /**
   * The conjuncts of the load's predicate that Spark's reader may apply. ORC's reader trusts filters from which some
   * writers leave values out, so it gets conjuncts on partition columns only.
   */
  private List<Expression> pushable() {
    return where.pushable(
        predicates.partitions(), predicates.format() == FileFormat.PARQUET && predicates.noPlanReason() == null);
  }
}
