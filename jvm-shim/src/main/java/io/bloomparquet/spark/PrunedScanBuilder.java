package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownVariantExtractions;
import org.apache.spark.sql.connector.read.VariantExtraction;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Lets Spark's own builder do the pushing down, and keeps the predicate for the planner. */
final class PrunedScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownCatalystFilters,
        SupportsPushDownAggregates,
        SupportsPushDownVariantExtractions {
  private final SparkSession session;
  private final FileScanBuilder files;
  private final StructType schema;
  private final PlannerPredicate predicates;
  private final ScanOptions options;
  private final BoundFilter where;
  private StructType asked;
  private FileMetadata metadata;
  private List<Expression> filters = List.of();
  private boolean aggregated;

  PrunedScanBuilder(
      SparkSession session,
      FileScanBuilder files,
      StructType schema,
      PlannerPredicate predicates,
      ScanOptions options,
      BoundFilter where) {
    this.session = session;
    this.files = files;
    this.schema = schema;
    this.predicates = predicates;
    this.options = options;
    this.where = where;
    this.asked = schema;
    files.pushFilters(Scala.seq(predicates.pushable(where)));
  }

  @Override
  public Seq<Expression> pushFilters(Seq<Expression> pushed) {
    filters = Scala.list(pushed);
    List<Expression> all = new ArrayList<>(predicates.pushable(where));
    all.addAll(filters);
    List<Expression> left = new ArrayList<>(Scala.list(files.pushFilters(Scala.seq(all))));
    left.retainAll(filters);
    return Scala.seq(left);
  }

  @Override
  public Predicate[] pushedFilters() {
    return files.pushedFilters();
  }

  @Override
  public void pruneColumns(StructType columns) {
    metadata = FileMetadata.in(columns, schema);
    asked = metadata == null ? columns : FileMetadata.without(columns);
    StructType read = where.withColumns(asked);
    files.pruneColumns(metadata == null ? read : metadata.withRead(read));
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    // An aggregate is answered from the footers of whole files: nothing of them may be left out.
    aggregated =
        where.isNone()
            && files instanceof SupportsPushDownAggregates builder
            && builder.pushAggregation(aggregation);
    return aggregated;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return where.isNone()
        && files instanceof SupportsPushDownAggregates builder
        && builder.supportCompletePushDown(aggregation);
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
    if (aggregated) {
      return scan;
    }
    List<Expression> conjuncts = new ArrayList<>(where.conjuncts());
    if (options.pushFilters()) {
      conjuncts.addAll(filters);
    }
    JsonNode predicate = predicates.ofAll(conjuncts);
    RowShape shape = where.isNone() && metadata == null ? null : where.over(scan.readSchema(), asked, metadata);
    return new PrunedScan(session, scan, options, predicates, predicate, shape);
  }
}
