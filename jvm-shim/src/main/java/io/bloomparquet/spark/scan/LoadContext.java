package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;

/**
 * The parts that all scans of one load share.
 *
 * @param where the predicate of the load
 * @param predicates translates predicates for the planner
 */
record LoadContext(SparkSession session, ScanOptions options, LoadPredicate where, PlannerPredicate predicates) {

  FileFormat format() {
    return predicates.format();
  }

  /**
   * This context; or one by which nothing is planned, if a setting has changed by which Spark's reader finds columns. It
   * goes by the setting of the time when it reads.
   */
  LoadContext present() {
    return session.sessionState().conf().caseSensitiveAnalysis() == predicates.caseSensitive()
        ? this
        : new LoadContext(
            session,
            options,
            where,
            predicates.unplannable("spark.sql.caseSensitive has changed since the query was planned"));
  }

  /**
   * The conjuncts of {@code where} that Spark's reader may apply. ORC's reader trusts filters from which some writers
   * leave values out, so it gets conjuncts on partition columns only.
   */
  List<Expression> pushable() {
    boolean byName = format() == FileFormat.PARQUET && predicates.unplannableReason() == null;
    return where.pushable(predicates.partitions(), byName);
  }

  /**
   * Whether Spark's scan builder takes a condition of the query. ORC's fails for NULL in a list of values, even if no
   * file has the column ({@code OrcFilters.castLiteralValue}). The query filters by such a condition itself.
   */
  boolean isPushable(Expression condition) {
    return format() != FileFormat.ORC
        || !listsNull(condition)
        || predicates.isOfPartitions(
            Scala.list(condition.references().toSeq()).stream().map(Attribute::name).collect(Collectors.toSet()));
  }

  private static boolean listsNull(Expression expression) {
    boolean itself =
        expression instanceof In in
                && Scala.list(in.list()).stream().anyMatch(each -> each instanceof Literal one && one.value() == null)
            || expression instanceof InSet set && set.hset().contains(null);
    return itself || Scala.list(expression.children()).stream().anyMatch(LoadContext::listsNull);
  }
}
