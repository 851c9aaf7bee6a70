package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import scala.collection.immutable.Seq;

/**
 * Plans a scan of files as Spark does, and puts {@link PrunedFileScanExec} above it if the query filters data columns.
 *
 * <p>Only for exactly Spark's own file formats: a subclass, such as Delta Lake's, may read other rows than the files
 * hold.
 */
public final class PlainScans extends SparkStrategy {
  /** The setting of a session by which its plain scans are planned. */
  public static final String ENABLED = "spark.bloomparquet.transparent";

  private final SparkSession session;

  public PlainScans(SparkSession session) {
    this.session = session;
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    boolean mayFilter = plan instanceof Filter || plan instanceof Project;
    if (!mayFilter || !isEnabled(session)) {
      return Scala.seq(List.of());
    }
    List<SparkPlan> plans = new ArrayList<>();
    boolean pruned = false;
    for (SparkPlan each : Scala.list(FileSourceStrategy$.MODULE$.apply(plan))) {
      SparkPlan withPruning = prune(each);
      pruned |= withPruning != each;
      plans.add(withPruning);
    }
    return Scala.seq(pruned ? plans : List.of());
  }

  static boolean isEnabled(SparkSession session) {
    return Boolean.parseBoolean(session.sessionState().conf().getConfString(ENABLED, "true"));
  }

  /** The format of a scan that can be planned; null for other plans. */
  static FileFormat format(SparkPlan plan) {
    Class<?> format = plan instanceof FileSourceScanExec scan ? scan.relation().fileFormat().getClass() : null;
    return format == ParquetFileFormat.class ? FileFormat.PARQUET : format == OrcFileFormat.class ? FileFormat.ORC : null;
  }

  private static SparkPlan prune(SparkPlan plan) {
    if (plan instanceof FilterExec filter && format(filter.child()) != null) {
      return prune(filter, (FileSourceScanExec) filter.child());
    }
    if (plan instanceof FileSourceScanExec scan && format(scan) != null) {
      return prune(scan, List.of());
    }
    List<SparkPlan> children = new ArrayList<>();
    boolean changed = false;
    for (SparkPlan child : Scala.list(plan.children())) {
      SparkPlan pruned = prune(child);
      changed |= pruned != child;
      children.add(pruned);
    }
    return changed ? plan.withNewChildren(Scala.seq(children)) : plan;
  }

  /** Moves the runtime predicates of the filter, by the keys of a join, to the scan. They only prune. */
  private static SparkPlan prune(FilterExec filter, FileSourceScanExec scan) {
    List<Expression> exact = new ArrayList<>();
    List<Expression> runtime = new ArrayList<>();
    split(filter.condition(), exact, runtime);
    SparkPlan pruned = prune(scan, runtime);
    if (pruned == scan) {
      return filter;
    }
    if (exact.isEmpty()) {
      return pruned;
    }
    FilterExec remaining = new FilterExec(exact.stream().reduce(And::new).get(), pruned);
    remaining.copyTagsFrom(filter);
    return remaining;
  }

  private static void split(Expression condition, List<Expression> exact, List<Expression> runtime) {
    if (condition instanceof And and) {
      split(and.left(), exact, runtime);
      split(and.right(), exact, runtime);
    } else {
      (condition instanceof DynamicPruning ? runtime : exact).add(condition);
    }
  }

  private static SparkPlan prune(FileSourceScanExec scan, List<Expression> runtime) {
    if (Scala.list(scan.dataFilters()).stream().noneMatch(RuntimeValues::isOfData) && runtime.isEmpty()) {
      return scan;
    }
    PrunedFileScanExec pruned = new PrunedFileScanExec(scan, Scala.seq(runtime));
    pruned.copyTagsFrom(scan);
    return pruned;
  }
}
