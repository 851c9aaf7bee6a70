package io.bloomparquet.spark.plain;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.ReaderColumns;
import io.bloomparquet.spark.planner.WhyNot;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.tables.IcebergTable;
import io.bloomparquet.spark.tables.UnknownMemberException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;

/** Plans a scan of an Iceberg table as Spark does, and puts {@link PrunedTableScanExec} above it. */
public final class IcebergScans extends SparkStrategy {

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if ((plan instanceof Filter || plan instanceof Project) && isRead(leaf(plan)) && PlainScans.isEnabled(SQLConf.get())) {
      Seq<SparkPlan> planned = new DataSourceV2Strategy(SparkVersions.classic(SparkSession.active())).apply(plan);
      return Scala.seq(Scala.list(planned).stream().map(each -> prune(each, List.of())).toList());
    }
    return Scala.seq(List.of());
  }

  private static LogicalPlan leaf(LogicalPlan plan) {
    return plan instanceof Filter || plan instanceof Project ? leaf(plan.children().apply(0)) : plan;
  }

  private static boolean isRead(LogicalPlan leaf) {
    return leaf instanceof DataSourceV2ScanRelation relation && IcebergTable.isReadBy(relation.scan())
        || leaf instanceof StreamingDataSourceV2ScanRelation stream && IcebergTable.isReadBy(stream.scan());
  }

  /** The columns that can be planned of a relation; null for other plans. */
  static ReaderColumns columns(DataSourceV2ScanRelation relation) {
    try {
      return isRead(relation) && PlainScans.isEnabled(SQLConf.get())
          ? new IcebergTable(relation.scan()).columns(SparkSession.active())
          : null;
    } catch (UnknownMemberException error) {
      return null;
    }
  }

  /** @param filters the conditions of the filter right above {@code plan}: above a projection, names may be others */
  private static SparkPlan prune(SparkPlan plan, List<Expression> filters) {
    try {
      if (plan instanceof BatchScanExec scan) {
        return prune(scan, filters);
      }
      if (plan instanceof MicroBatchScanExec scan) {
        return node(scan, scan, scan.scan(), filters, List.of());
      }
    } catch (UnknownMemberException error) {
      return plan; // reason says why
    }
    if (plan.children().size() != 1) {
      return plan; // a scan of another kind, such as that of a continuous stream
    }
    SparkPlan child = plan.children().apply(0);
    SparkPlan pruned =
        prune(
            child,
            plan instanceof FilterExec filter
                ? Scala.list(PartitionPruning$.MODULE$.splitConjunctivePredicates(filter.condition()))
                : List.of());
    return pruned == child ? plan : plan.withNewChildren(Scala.seq(List.of(pruned)));
  }

  /** Takes the predicates by keys of columns by which Iceberg itself cannot filter. */
  private static SparkPlan prune(BatchScanExec scan, List<Expression> filters) throws UnknownMemberException {
    Set<String> own =
        scan.scan() instanceof SupportsRuntimeV2Filtering filterable
            ? Arrays.stream(filterable.filterAttributes()).map(each -> each.fieldNames()[0]).collect(Collectors.toSet())
            : Set.of();
    List<Expression> runtime = new ArrayList<>(Scala.list(scan.runtimeFilters()));
    runtime.removeIf(
        each ->
            !(each instanceof DynamicPruningSubquery subquery)
                || Scala.list(subquery.pruningKey().references().toSeq()).stream().anyMatch(key -> own.contains(key.name())));
    if (runtime.isEmpty()) {
      return node(scan, scan, scan.scan(), filters, runtime);
    }
    List<Expression> remaining = new ArrayList<>(Scala.list(scan.runtimeFilters()));
    remaining.removeAll(runtime);
    SparkPlan rest = SparkVersions.copy(scan, scan.runtimeFilters(), Scala.seq(remaining));
    return node(scan, rest, scan.scan(), filters, runtime);
  }

  private static SparkPlan node(
      SparkPlan planned, SparkPlan scan, Scan reader, List<Expression> filters, List<Expression> runtime)
      throws UnknownMemberException {
    boolean hasKeys = !runtime.isEmpty() || scan instanceof BatchScanExec batch && !batch.runtimeFilters().isEmpty();
    if (!hasKeys && filters.stream().noneMatch(RuntimeValues::isOfData)) {
      return planned;
    }
    SparkPlan pruned =
        new PrunedTableScanExec(scan, new IcebergTable(reader), Scala.seq(filters), Scala.seq(runtime));
    pruned.copyTagsFrom(planned);
    return pruned;
  }

  /** The Iceberg table that {@code plan} reads, without a plan and a reason; null for other plans. */
  static ObjectNode table(LogicalPlan plan) {
    return leaf(plan) instanceof DataSourceV2ScanRelation relation && isRead(relation)
        ? PrunedTableScanExec.describe(relation.name())
        : null;
  }

  /**
   * The scan of an Iceberg table that is not pruned, as {@code last_plan} shows it; null for other scans.
   *
   * @param query the optimized plan
   */
  static ObjectNode unpruned(BatchScanExec batch, LogicalPlan query) {
    Scan scan = batch.scan();
    if (!IcebergTable.isScannedBy(scan)) {
      return null;
    }
    if (!IcebergTable.isReadBy(scan)) {
      String reason = "only reads of an Iceberg table are pruned, not a " + scan.getClass().getSimpleName();
      return PrunedTableScanExec.describe(batch.table().name()).put("reason", reason);
    }
    try {
      String reason =
          PlainScans.isEnabled(SQLConf.get())
              ? "the query has no filter that can skip row groups, or was planned before attach(spark)"
                  + WhyNot.describe(ScanJoins.of(query, batch, List.of()))
              : PlainScans.ENABLED + " is false";
      return PrunedTableScanExec.describe(new IcebergTable(scan).location()).put("reason", reason);
    } catch (UnknownMemberException error) {
      return PrunedTableScanExec.describe(batch.table().name()).put("reason", error.getMessage());
    }
  }
}
