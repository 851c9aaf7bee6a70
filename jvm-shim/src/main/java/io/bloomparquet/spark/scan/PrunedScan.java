package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.PlanMetric;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.PlannerValue;
import io.bloomparquet.spark.planner.PredicateText;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.FieldReference$;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A scan of Spark's over files, of which only what the planner keeps is read.
 *
 * <p>The plan by the query's own predicate is made when Spark first asks for sizes or partitions, and kept. Predicates
 * that arrive while the query runs belong to one {@link PrunedBatch}: Spark may execute one scan several times, and what
 * one execution learnt must not prune another.
 */
public final class PrunedScan
    implements SupportsReportStatistics, SupportsRuntimeV2Filtering, SupportsMetadata {
  private final SparkSession session;
  private final FileScan files;
  private final ScanOptions options;
  private final LoadPredicate where;
  private final PlannerPredicate predicates;
  private final JsonNode predicate;
  private final RowAdapter adapter;
  private final ThreadLocal<Predicate[]> runtimePredicates = new ThreadLocal<>();
  private PlannedFiles planned;
  private volatile PlannedFiles latest;

  /**
   * @param predicate what the planner is asked, in {@link PlannerPredicate}'s grammar; null if nothing
   * @param adapter what is done to the rows that Spark's reader gives; null if nothing
   */
  PrunedScan(
      SparkSession session,
      FileScan files,
      ScanOptions options,
      LoadPredicate where,
      PlannerPredicate predicates,
      JsonNode predicate,
      RowAdapter adapter) {
    this.session = session;
    this.files = files;
    this.options = options;
    this.where = where;
    this.predicates = predicates;
    this.predicate = predicate;
    this.adapter = adapter;
  }

  SparkSession session() {
    return session;
  }

  public FileScan files() {
    return files;
  }

  FileFormat format() {
    return predicates.format();
  }

  /** What is done to the rows that Spark's reader gives; null if nothing. */
  RowAdapter adapter() {
    return adapter;
  }

  /** The latest plan, as {@code last_plan} shows it. Plans by the query's own predicate if there is no plan yet. */
  public ObjectNode toJson() {
    PlannedFiles plan = latest == null ? planned() : latest;
    ObjectNode node = JsonNodeFactory.instance.objectNode();
    ArrayNode paths = node.putArray("paths");
    Scala.list(files.fileIndex().rootPaths()).forEach(path -> paths.add(path.toString()));
    node.put("unit", format().unit());
    node.put("where", plan.predicate() == null ? null : PredicateText.of(plan.predicate()));
    node.setAll(plan.result().toJson());
    return node;
  }

  /** The plan by the query's own predicate. */
  synchronized PlannedFiles planned() {
    if (planned == null) {
      planned = PlannedFiles.plan(files, session, options, predicates, predicate, List.of());
      latest = planned;
    }
    return planned;
  }

  /** The plan by the query's own predicate and runtime predicates. */
  PlannedFiles planned(Predicate[] runtime) {
    if (runtime.length == 0) {
      return planned();
    }
    List<Predicate> onPartitions = new ArrayList<>();
    JsonNode more = predicates.ofAll(runtime);
    for (Predicate each : runtime) {
      if (RuntimePartitionFilter.concerns(each, files.readPartitionSchema())) {
        onPartitions.add(each);
      }
    }
    if (more == null && onPartitions.isEmpty()) {
      return planned();
    }
    PlannedFiles found =
        PlannedFiles.plan(files, session, options, predicates, PlannerPredicate.and(predicate, more), onPartitions);
    latest = found;
    return found;
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
    PlannedFiles found = PlannerPredicate.isWorthPlanning(predicate) ? planned() : null;
    if (found == null || !found.result().planned() || whole.sizeInBytes().isEmpty()) {
      return whole;
    }
    double share = Math.min(1.0, (double) found.result().keptBytes() / Math.max(1, files.fileIndex().sizeInBytes()));
    long size = Math.max(1, (long) (whole.sizeInBytes().getAsLong() * share));
    long rows = found.result().keptRows();
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
    // Spark would otherwise ask for the partitions, and so for a plan, while it still compares physical plans.
    return adapter != null ? ColumnarSupportMode.UNSUPPORTED : files.columnarSupportMode();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return PlanMetric.of(format()).toArray(CustomMetric[]::new);
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    PlannedFiles found = latest;
    return found == null ? new CustomTaskMetric[0] : PlanMetric.of(format(), found.result());
  }

  @Override
  public String description() {
    return files.description() + ", Planned by: [" + planDescription() + "]";
  }

  @Override
  public scala.collection.immutable.Map<String, String> getMetaData() {
    Map<String, String> found = new HashMap<>(Scala.map(files.getMetaData()));
    found.put("PlannedBy", "[" + planDescription() + "]");
    return Scala.map(found);
  }

  private String planDescription() {
    PlannedFiles found = latest;
    String asked = PredicateText.of(found == null ? predicate : found.predicate());
    return found == null ? asked : asked + "; " + found.result().describe(format());
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PrunedScan that
        && files.equals(that.files)
        && options.equals(that.options)
        && where.equals(that.where)
        && Objects.equals(predicate, that.predicate)
        && readSchema().equals(that.readSchema());
  }

  @Override
  public int hashCode() {
    return Objects.hash(files, options, predicate);
  }
}
