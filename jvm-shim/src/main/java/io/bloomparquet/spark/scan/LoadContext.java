package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.FileFormat;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * What all scans of one load share.
 *
 * @param where the predicate of the load
 * @param predicates translates predicates for the planner
 */
record LoadContext(SparkSession session, ScanOptions options, LoadPredicate where, PlannerPredicate predicates) {

  FileFormat format() {
    return predicates.format();
  }

  /**
   * The conjuncts of {@code where} that Spark's reader may apply. ORC's reader trusts filters from which some writers
   * leave values out, so it gets conjuncts on partition columns only.
   */
  List<Expression> pushable() {
    boolean byName = format() == FileFormat.PARQUET && predicates.unplannableReason() == null;
    return where.pushable(predicates.partitions(), byName);
  }
}
