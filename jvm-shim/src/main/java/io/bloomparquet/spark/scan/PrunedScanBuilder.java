package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownVariantExtractions;
import org.apache.spark.sql.connector.read.VariantExtraction;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import scala.collection.immutable.Seq;

/**
 * Pushes filters and columns down into Spark's own scan builder, and translates the filters for the planner.
 *
 * <p>Is a {@link FileScanBuilder} because Spark 4.0 pushes Catalyst's filters to no other class.
 *
 * <p>Does not push aggregates down, like Spark's V1 file scans: min and max in footers ignore NaN, and a footer says
 * nothing of a column that its file lacks.
 */
class PrunedScanBuilder extends FileScanBuilder {
  final LoadContext context;
  final FileScanBuilder files;
  private final StructType schema;
  private StructType requested;
  private FileMetadata metadata;
  private List<Expression> filters = List.of();

  private PrunedScanBuilder(
      LoadContext context, FileScanBuilder files, PartitioningAwareFileIndex index, StructType schema) {
    super(context.session(), index, schema);
    this.context = context;
    this.files = files;
    this.schema = schema;
    this.requested = schema;
    files.pushFilters(Scala.seq(context.pushable()));
  }

  static ScanBuilder of(
      LoadContext context, FileScanBuilder files, PartitioningAwareFileIndex index, StructType schema) {
    return SparkVersions.HAS_VARIANT_EXTRACTION
        ? new WithVariantExtraction(context, files, index, schema)
        : new PrunedScanBuilder(context, files, index, schema);
  }

  @Override
  public Seq<Expression> pushFilters(Seq<Expression> pushed) {
    filters = Scala.list(pushed);
    List<Expression> pushable = filters.stream().filter(context::isPushable).toList();
    List<Expression> all = new ArrayList<>(context.pushable());
    all.addAll(pushable);
    List<Expression> applied = new ArrayList<>(pushable);
    applied.removeAll(Scala.list(files.pushFilters(Scala.seq(all))));
    List<Expression> remaining = new ArrayList<>(filters);
    remaining.removeAll(applied);
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
    StructType read = context.where().withColumns(requested);
    files.pruneColumns(metadata == null ? read : metadata.withRead(read));
  }

  @Override
  public Scan build() {
    FileScan scan = (FileScan) ((ScanBuilder) files).build();
    LoadPredicate where = context.where();
    List<Expression> conjuncts = where.conjuncts();
    if (context.options().pushFilters()) {
      conjuncts.addAll(filters);
    }
    boolean isAdapted = !where.isNone() || metadata != null;
    RowAdapter adapter = isAdapted ? where.adapter(scan.readSchema(), requested, metadata) : null;
    return new PrunedScan(context, scan, conjuncts, adapter);
  }

  /** A class of its own, because Spark 4.0 has no such interface. */
  private static final class WithVariantExtraction extends PrunedScanBuilder
      implements SupportsPushDownVariantExtractions {
    WithVariantExtraction(
        LoadContext context, FileScanBuilder files, PartitioningAwareFileIndex index, StructType schema) {
      super(context, files, index, schema);
    }

    /**
     * Takes all extractions or none: Spark 4.3 rewrites expressions on a column that was not taken, too. Takes none if a
     * column is also read whole, because Spark gives a query without a projection the struct of the extracted fields.
     */
    @Override
    public boolean[] pushVariantExtractions(VariantExtraction[] extractions) {
      boolean isWhole = Arrays.stream(extractions).anyMatch(each -> each.expectedDataType() instanceof VariantType);
      return context.where().isNone() && !isWhole && files instanceof SupportsPushDownVariantExtractions builder
          ? builder.pushVariantExtractions(extractions)
          : new boolean[extractions.length];
    }
  }
}
