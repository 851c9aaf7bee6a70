package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.ExplainedPredicate;
import io.bloomparquet.spark.planner.PlanMetric;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.PlannerValue;
import io.bloomparquet.spark.planner.PredicateText;
import io.bloomparquet.spark.support.Scala;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.FieldReference$;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A scan that reads only what the planner keeps.
 *
 * <p>The plan by the query's own predicate is made when Spark first asks for sizes or partitions, and kept. Runtime
 * predicates belong to one {@link PrunedBatch}: Spark may execute a scan several times, and the predicates of one
 * execution must not prune another.
 */
public final class PrunedScan
    implements SupportsReportStatistics, SupportsRuntimeV2Filtering, SupportsMetadata {
  private final LoadContext context;
  private final FileScan files;
  private final List<Expression> conjuncts;
  private final JsonNode predicate;
  private final RowAdapter adapter;
  private final ThreadLocal<Predicate[]> runtimePredicates = new ThreadLocal<>();
  private PlannedFiles ownPlan;
  private volatile PlannedFiles latestPlan;
  private volatile String notUsed;

  /**
   * @param conjuncts the conditions on rows; the planner gets the ones that it can judge
   * @param adapter for the rows of Spark's reader; null if they stay as they are
   */
  PrunedScan(LoadContext context, FileScan files, List<Expression> conjuncts, RowAdapter adapter) {
    this.context = context;
    this.files = files;
    this.conjuncts = List.copyOf(conjuncts);
    this.predicate = context.predicates().ofAll(conjuncts);
    this.adapter = adapter;
  }

  public FileScan files() {
    return files;
  }

  /** The latest plan, as {@code last_plan} shows it. Plans by the query's own predicate if there is no plan yet. */
  public ObjectNode toJson() {
    PlannedFiles plan = latestPlan == null ? ownPlan() : latestPlan;
    return toJson(plan, plan.result());
  }

  /** The latest plan, with the explanation of the planner. */
  public ObjectNode explain() {
    PlannedFiles plan = latestPlan == null ? ownPlan() : latestPlan;
    JsonNode explained = ExplainedPredicate.of(plan.predicates(), conjuncts, Map.of());
    boolean isOfRuntime = !Objects.equals(plan.predicate(), predicate);
    JsonNode whole = isOfRuntime ? PlannerPredicate.and(explained, plan.predicate()) : explained;
    return toJson(plan, plan.result().failed() ? plan.result() : plan.explain(whole));
  }

  private ObjectNode toJson(PlannedFiles plan, PlanResult result) {
    ObjectNode node = JsonNodeFactory.instance.objectNode();
    ArrayNode paths = node.putArray("paths");
    Scala.list(files.fileIndex().rootPaths()).forEach(path -> paths.add(path.toString()));
    node.put("unit", context.format().unit());
    node.put("where", plan.predicate() == null ? null : PredicateText.of(plan.predicate()));
    node.setAll(result.toJson());
    return node;
  }

  /** The plan by the query's own predicate. */
  private synchronized PlannedFiles ownPlan() {
    if (ownPlan == null) {
      ownPlan = new PlannedFiles(context, files, predicate, List.of(), true);
      latestPlan = ownPlan;
    }
    return ownPlan;
  }

  /** The plan by the query's own predicate and by runtime predicates. */
  private PlannedFiles planWith(Predicate[] runtime) {
    LoadContext present = context.present();
    if (present != context) {
      PlannedFiles everything = new PlannedFiles(present, files, null, List.of(), false);
      latestPlan = everything;
      return everything;
    }
    if (runtime.length == 0) {
      return ownPlan();
    }
    JsonNode translated = context.predicates().ofAll(runtime);
    List<Expression> onPartitions = RuntimePartitionFilter.translate(runtime, files.fileIndex().partitionSchema());
    if (translated == null && onPartitions.isEmpty()) {
      return ownPlan();
    }
    JsonNode both = PlannerPredicate.and(predicate, translated);
    // Does not return `latestPlan`, which another execution may set.
    PlannedFiles plan = new PlannedFiles(context, files, both, onPartitions, false);
    latestPlan = plan;
    return plan;
  }

  @Override
  public StructType readSchema() {
    return adapter == null ? files.readSchema() : adapter.output();
  }

  @Override
  public Batch toBatch() {
    Predicate[] runtime = runtimePredicates.get();
    runtimePredicates.remove();
    return new PrunedBatch(this, runtime == null ? new Predicate[0] : runtime);
  }

  /** One execution of a scan. */
  private static final class PrunedBatch implements Batch {
    private final PrunedScan scan;
    private final Predicate[] runtime;
    private PlannedFiles plan;

    PrunedBatch(PrunedScan scan, Predicate[] runtime) {
      this.scan = scan;
      this.runtime = runtime;
    }

    @Override
    public synchronized InputPartition[] planInputPartitions() {
      if (plan == null) {
        plan = scan.planWith(runtime);
      }
      return plan.partitions();
    }

    /** Must not depend on this batch: Spark may use the reader factory of one batch for the partitions of another. */
    @Override
    public PartitionReaderFactory createReaderFactory() {
      PartitionReaderFactory files = CheckedReaders.of(scan.files.createReaderFactory(), scan.context.session());
      return scan.adapter == null ? files : scan.adapter.applyTo(files);
    }

    // Spark runs one of two equal batches, and uses its rows for both.
    @Override
    public boolean equals(Object other) {
      return other instanceof PrunedBatch that && scan.equals(that.scan) && Arrays.equals(runtime, that.runtime);
    }

    @Override
    public int hashCode() {
      return scan.hashCode();
    }
  }

  @Override
  public NamedReference[] filterAttributes() {
    return Arrays.stream(readSchema().fields())
        .filter(field -> PlannerValue.typeName(field.dataType()) != null || isPartition(field))
        .map(field -> FieldReference$.MODULE$.column(field.name()))
        .toArray(NamedReference[]::new);
  }

  private boolean isPartition(StructField field) {
    return Arrays.asList(files.readPartitionSchema().fieldNames()).contains(field.name());
  }

  /** Spark calls {@link #toBatch} next, on the same thread. */
  @Override
  public void filter(Predicate[] runtime) {
    runtimePredicates.set(runtime);
  }

  @Override
  public Statistics estimateStatistics() {
    Statistics whole = files.estimateStatistics();
    PlanResult plan = PlannerPredicate.isWorthPlanning(predicate) ? ownPlan().result() : null;
    if (plan == null || !plan.isPlanned() || whole.sizeInBytes().isEmpty()) {
      return whole;
    }
    double share = Math.min(1.0, (double) plan.keptBytes() / Math.max(1, files.fileIndex().sizeInBytes()));
    long size = Math.max(1, (long) (whole.sizeInBytes().getAsLong() * share));
    long rows = plan.keptRows();
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(size);
      }

      @Override
      public OptionalLong numRows() {
        return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
      }
    };
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    // The default would ask for the partitions, and so for a plan, while Spark still compares physical plans.
    return adapter != null ? ColumnarSupportMode.UNSUPPORTED : files.columnarSupportMode();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return PlanMetric.of(context.format()).toArray(CustomMetric[]::new);
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    PlannedFiles plan = latestPlan;
    return plan == null ? new CustomTaskMetric[0] : PlanMetric.of(context.format(), plan.result());
  }

  @Override
  public String description() {
    return files.description() + ", Planned by: [" + planDescription() + "]";
  }

  @Override
  public scala.collection.immutable.Map<String, String> getMetaData() {
    Map<String, String> metadata = new HashMap<>(Scala.map(files.getMetaData()));
    metadata.put("PlannedBy", "[" + planDescription() + "]");
    return Scala.map(metadata);
  }

  private String planDescription() {
    PlannedFiles plan = latestPlan;
    String text = PredicateText.of(plan == null ? predicate : plan.predicate());
    if (notUsed == null) {
      notUsed = ExplainedPredicate.notUsed(context.predicates(), conjuncts);
    }
    text = notUsed.isEmpty() ? text : text + "; not used: " + notUsed;
    return plan == null ? text : text + "; " + plan.result().describe(context.format());
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PrunedScan that
        && files.equals(that.files)
        && context.options().equals(that.context.options())
        && context.where().equals(that.context.where())
        && Objects.equals(predicate, that.predicate)
        && readSchema().equals(that.readSchema());
  }

  @Override
  public int hashCode() {
    return Objects.hash(files, context.options(), predicate);
  }
}
