package io.bloomparquet.spark.plain;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.PredicateTranslator;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.tables.IcebergTable;
import io.bloomparquet.spark.tables.IcebergTasks;
import io.bloomparquet.spark.tables.UnknownMemberException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.Partition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDD;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Prunes one of Iceberg's scans: runs its RDD over partitions that hold only the tasks, or parts of tasks, that a plan keeps.
 * The scan itself plans its files, applies its own runtime filters and counts its metrics. It must stay as it is: writes of
 * the same statement go by it.
 */
public final class PrunedTableScanExec extends PrunedScanExec<SparkPlan> {
  private static final long serialVersionUID = 1L;

  private final Seq<Expression> filters;
  private final transient IcebergTable table;

  /**
   * @param scan a {@link DataSourceV2ScanExecBase}
   * @param filters the conditions right above the scan, which drop rows
   * @param runtime predicates by the keys of a join, which only prune
   */
  public PrunedTableScanExec(SparkPlan scan, IcebergTable table, Seq<Expression> filters, Seq<Expression> runtime) {
    super(scan, runtime);
    this.table = table;
    this.filters = filters;
  }

  @Override
  FileFormat format() {
    return FileFormat.PARQUET;
  }

  @Override
  List<Expression> filters() {
    return Scala.list(filters);
  }

  @Override
  PredicateTranslator predicates() {
    return new PredicateTranslator(table.columns(session()));
  }

  @Override
  ScanOptions options() {
    return options(Map.of(), Map.of());
  }

  @Override
  ObjectNode describe() {
    return describe(table.location());
  }

  /** A scan of a table without a plan. */
  static ObjectNode describe(String location) {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("unit", FileFormat.PARQUET.unit());
    node.putArray("paths").add(location);
    return node.putNull("where").put("planned", false);
  }

  /** Also those by which Iceberg filters partitions. */
  @Override
  List<Expression> keys() {
    List<Expression> keys = new ArrayList<>(super.keys());
    if (scan instanceof BatchScanExec batch) {
      keys.addAll(Scala.list(batch.runtimeFilters()));
    }
    return keys;
  }

  @Override
  FileListing listNow() {
    try {
      return scan instanceof BatchScanExec batch ? new IcebergTasks(batch.inputRDD().partitions()).listing() : null;
    } catch (UnknownMemberException error) {
      return null; // the query will say so
    }
  }

  @Override
  <T> RDD<T> keptRows(Function<SparkPlan, RDD<T>> execute) {
    // Spark leaves out this projection where it sees that a scan is below: see RemoveRedundantProjects.
    Seq<NamedExpression> output = Scala.seq(List.<NamedExpression>copyOf(Scala.list(output())));
    // Iceberg's own pruning, also by runtime filters, is done when this returns.
    RDD<T> rows = execute.apply(scan.supportsColumnar() ? scan : new ProjectExec(output, scan));
    RDD<InternalRow> input = ((DataSourceV2ScanExecBase) scan).inputRDD();
    if (!(input instanceof DataSourceRDD) || !OtherPartitions.passesPartitions(rows, input)) {
      return everything(rows, "Spark reads the files in another way than usual");
    }
    if (!ExecutorJar.isAvailable(session().sparkContext())) {
      return everything(rows, "executors do not have the jar");
    }
    try {
      IcebergTasks tasks = new IcebergTasks(input.partitions());
      FileListing files = tasks.listing();
      if (files.count() == 0 && input.partitions().length > 0) {
        return everything(rows, "the scan reads no Parquet files of data that can be opened here");
      }
      Outcome outcome = plan(files);
      PlanResult result = outcome.result();
      if (!result.isPlanned() || result.keepsAll(format())) {
        report(outcome);
        return rows;
      }
      if (!files.isStill(result)) {
        return everything(rows, OTHER_SIZE);
      }
      boolean keepsCount = !(outputPartitioning() instanceof UnknownPartitioning) || !outputOrdering().isEmpty();
      Partition[] kept = tasks.kept(result, keepsCount);
      report(outcome);
      return new OtherPartitions<>(rows, kept);
    } catch (UnknownMemberException error) {
      return everything(rows, error.getMessage());
    }
  }

  @Override
  public String nodeName() {
    return "PrunedTableScan";
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    SparkPlan replaced = children.apply(0);
    // Another engine's scan must not stay below this node, which knows only Spark's.
    return replaced instanceof DataSourceV2ScanExecBase
        ? new PrunedTableScanExec(replaced, table, filters, runtime)
        : replaced;
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int position) {
    return new Object[] {scan, table, filters, runtime}[position];
  }
}
