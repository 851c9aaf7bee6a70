package io.bloomparquet.spark.plain;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.partitions.KeptParts;
import io.bloomparquet.spark.partitions.UnchangedFiles;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanMetric;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.planner.PlannerPredicate;
import io.bloomparquet.spark.planner.PredicateTranslator;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SessionOptions;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.write.BloomFormat;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Prunes one of Spark's scans. This node runs a copy of its child scan over the kept byte ranges. The child itself only
 * lists the files and holds the metrics.
 *
 * <p>A node is planned once, with its own runtime predicates: Spark keeps its RDD when a DataFrame runs again.
 */
public final class PrunedFileScanExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  /** Not the node's monitor: Spark holds that one while it waits for subqueries, which ask for the metrics of nodes. */
  private static final Object METRICS_LOCK = new Object();

  private final FileSourceScanExec scan;
  private final Seq<Expression> runtime;
  private transient Map<String, SQLMetric> metrics;
  private transient volatile Outcome latest;
  private transient volatile String asked;
  private transient volatile String notUsed;

  /** The predicate and the files of a request, and the planner's answer. {@code files} is null if it was not asked. */
  private record Outcome(PlannerPredicate predicate, PlanResult result, FileListing files) {}

  /** @param runtime predicates by the keys of a join, which only prune */
  public PrunedFileScanExec(FileSourceScanExec scan, Seq<Expression> runtime) {
    this.scan = scan;
    this.runtime = runtime;
  }

  /**
   * Starts the subqueries for the keys of joins. If dynamic partition pruning was turned off after Spark planned the
   * query, adaptive execution leaves them as they are, and they cannot run. Then no keys prune.
   */
  @Override
  public void prepareSubqueries() {
    if (Scala.list(runtime).stream().noneMatch(RuntimeValues::isUnplanned)) {
      super.prepareSubqueries();
    }
  }

  private FileFormat format() {
    return PlainScans.format(scan);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return keptRows(FileSourceScanExec::execute);
  }

  @Override
  public RDD<ColumnarBatch> doExecuteColumnar() {
    return keptRows(FileSourceScanExec::executeColumnar);
  }

  private <T> RDD<T> keptRows(Function<FileSourceScanExec, RDD<T>> execute) {
    if (!ExecutorJar.isAvailable(session().sparkContext())) {
      return everything(execute.apply(scan), "executors do not have the jar");
    }
    scan.waitForSubqueries();
    ScannedFiles scanned = new ScannedFiles(scan);
    Outcome outcome = plan(scanned.listing());
    PlanResult result = outcome.result;
    if (!result.isPlanned() || result.keepsAll(format()) && scanned.listing().isStill(result)) {
      report(outcome);
      return execute.apply(scan);
    }
    KeptFiles kept = scanned.kept(result);
    if (!kept.readsLike(scan)) {
      return everything(execute.apply(scan), "settings of Spark's reader have changed since it planned the query");
    }
    RDD<T> rows = execute.apply(kept.scan());
    if (!kept.takeSplitsOf(rows)) {
      return everything(execute.apply(scan), "Spark reads the files in another way than usual");
    }
    report(outcome);
    scan.sendDriverMetrics();
    String execution = Planner.execution(session());
    KeptParts parts = new KeptParts(session(), scanned.listing(), result, kept, execution);
    return new KeptRows<>(
        rows,
        partitions(kept, parts),
        unchanged(scanned.listing()),
        new ScanMetrics(scan),
        !outputOrdering().isEmpty());
  }

  /** The check that the planned files have not changed. The files of one scan are on one storage. */
  private UnchangedFiles unchanged(FileListing files) {
    HadoopFsRelation relation = scan.relation();
    boolean ignoreMissing = new FileSourceOptions(relation.options()).ignoreMissingFiles();
    if (files.count() == 0 || LocalPaths.isLocal(files.path(0))) {
      return new UnchangedFiles(null, ignoreMissing); // a broadcast takes milliseconds
    }
    Configuration settings = relation.sparkSession().sessionState().newHadoopConfWithOptions(relation.options());
    return new UnchangedFiles(SparkVersions.broadcast(session().sparkContext(), settings), ignoreMissing);
  }

  private <T> RDD<T> everything(RDD<T> all, String reason) {
    latest = new Outcome(null, PlanResult.none(reason), null);
    return all;
  }

  private FilePartition[] partitions(KeptFiles kept, KeptParts parts) {
    if (outputPartitioning() instanceof SinglePartition$) {
      return parts.single(); // Spark promised one partition: with none, a global aggregate returns no row
    }
    return scan.bucketedScan() ? parts.grouped(kept.groups()) : parts.packed();
  }

  private Outcome plan(FileListing files) {
    HadoopFsRelation relation = scan.relation();
    PredicateTranslator predicates = PlainScans.predicates(relation);
    ScanOptions options;
    try {
      options = options(relation);
    } catch (IllegalArgumentException error) {
      if (relation.fileFormat() instanceof BloomFormat) {
        throw error;
      }
      return new Outcome(null, Planner.declined(error.getMessage()), null); // a query that does not name us must not fail
    }
    PlannerPredicate predicate =
        options.pushFilters()
            ? PlannerPredicate.and(
                Stream.of(
                    predicates.ofAll(RuntimeValues.ofSubqueries(Scala.list(scan.dataFilters()))),
                    RuntimeValues.ofKeys(Scala.list(runtime), predicates)))
            : null;
    PlanResult result = Planner.plan(session(), files, predicates.columns(), predicate, options);
    files.rememberFor(relation.location());
    return new Outcome(predicate, result, options.pushFilters() ? files : null);
  }

  private ScanOptions options(HadoopFsRelation relation) {
    Map<String, String> ofFiles = Scala.map(relation.options());
    Map<String, String> ofTable = relation.fileFormat() instanceof BloomFormat ? ofFiles : Map.of();
    return ScanOptions.of(
        SessionOptions.with(session(), format(), new CaseInsensitiveStringMap(ofTable)),
        ofFiles,
        DriverSettings.of(session().sparkContext()));
  }

  /** Publishes what this execution reads. Call it only when that is certain: a plan may turn out to be unusable. */
  private void report(Outcome outcome) {
    latest = outcome;
    List<SQLMetric> changed = new ArrayList<>();
    for (PlanMetric metric : PlanMetric.of(format())) {
      SQLMetric reported = metricsByName().get(metric.name());
      reported.set(metric.valueIn(outcome.result));
      changed.add(reported);
    }
    String execution = session().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    SQLMetrics$.MODULE$.postDriverMetricUpdates(session().sparkContext(), execution, Scala.seq(changed));
  }

  private Map<String, SQLMetric> metricsByName() {
    synchronized (METRICS_LOCK) {
      if (metrics == null) {
        metrics = new LinkedHashMap<>();
        for (PlanMetric metric : PlanMetric.of(format())) {
          metrics.put(metric.name(), SQLMetrics$.MODULE$.createV2CustomMetric(session().sparkContext(), metric));
        }
      }
      return metrics;
    }
  }

  @Override
  public scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return Scala.map(metricsByName());
  }

  /** The latest plan, as {@code last_plan} shows it. Plans a scan that has not run yet, unless it waits for values. */
  public ObjectNode toJson() {
    if (latest == null && !awaitsValues()) {
      Outcome now = planNow();
      latest = latest == null ? now : latest; // the query may have run meanwhile
    }
    Outcome outcome = latest;
    ObjectNode node = UnprunedScan.node(format(), scan.relation().location());
    if (outcome == null) {
      return node.put("reason", "the query has not run yet, and a subquery or the keys of a join decide what is read");
    }
    node.put("where", outcome.predicate == null ? null : outcome.predicate.toString());
    return node.setAll(outcome.result.toJson());
  }

  /**
   * The latest plan, with the explanation of the planner.
   *
   * @param query the optimized plan
   */
  public ObjectNode explain(LogicalPlan query) {
    ObjectNode node = toJson();
    Outcome outcome = latest;
    if (outcome == null || outcome.result.failed() || outcome.files == null) {
      return node;
    }
    HadoopFsRelation relation = scan.relation();
    PredicateTranslator predicates = PlainScans.predicates(relation);
    PlannerPredicate keys = RuntimeValues.ofKeys(Scala.list(runtime), predicates);
    PlannerPredicate whole = PlannerPredicate.and(Stream.of(explained(predicates, query), keys));
    PlanResult result = Planner.explain(session(), outcome.files, predicates.columns(), whole, options(relation));
    return node.setAll(result.toJson());
  }

  /** The conditions of the query, also those that the planner cannot judge. */
  private PlannerPredicate explained(PredicateTranslator predicates, LogicalPlan query) {
    List<Expression> filters = RuntimeValues.ofSubqueries(Scala.list(scan.dataFilters()));
    return predicates.explained(filters, ScanJoins.of(query, scan, Scala.list(runtime)));
  }

  private boolean awaitsValues() {
    return Stream.of(scan.dataFilters(), scan.partitionFilters(), runtime)
        .flatMap(each -> Scala.list(each).stream())
        .anyMatch(RuntimeValues::hasSubquery);
  }

  /** Plans before the query runs. A copy lists the files: a scan keeps its list, and it may change until it runs. */
  private Outcome planNow() {
    return plan(new ScannedFiles((FileSourceScanExec) scan.clone()).listing());
  }

  @Override
  public String nodeName() {
    return "PrunedFileScan";
  }

  @Override
  public Iterator<Object> stringArgs() {
    return Scala.seq(List.<Object>of("[" + asked() + notUsed("; not used: ") + "; " + kept() + "]")).iterator();
  }

  @Override
  public String verboseStringWithOperatorId() {
    return "\n" + formattedNodeName() + "\nAsked: " + asked() + notUsed("\nNot used: ") + "\nKept: " + kept() + "\n";
  }

  /** The conditions that the planner cannot judge, after {@code title}; empty if there are none. */
  private String notUsed(String title) {
    if (notUsed == null && session() != null) {
      List<Expression> filters = new ArrayList<>(Scala.list(scan.dataFilters()));
      filters.removeIf(each -> !RuntimeValues.isOfData(each) || RuntimeValues.hasSubquery(each));
      notUsed = PlainScans.predicates(scan.relation()).notUsed(filters);
    }
    return notUsed == null || notUsed.isEmpty() ? "" : title + notUsed;
  }

  /** The predicate for the planner. Before the query runs, without the values of its subqueries. */
  private String asked() {
    Outcome outcome = latest;
    if (outcome != null) {
      return text(outcome.predicate);
    }
    if (asked == null && session() != null) {
      String text = text(PlainScans.predicates(scan.relation()).ofAll(Scala.list(scan.dataFilters())));
      asked = awaitsValues() ? text + ", and values that arrive while the query runs" : text;
    }
    return asked;
  }

  private static String text(PlannerPredicate predicate) {
    return predicate == null ? "no predicate" : predicate.toString();
  }

  private String kept() {
    Outcome outcome = latest;
    return outcome == null ? "not planned yet" : outcome.result.describe(format());
  }

  @Override
  public Seq<Attribute> output() {
    return scan.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return scan.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return scan.outputOrdering();
  }

  @Override
  public boolean supportsColumnar() {
    return scan.supportsColumnar();
  }

  @Override
  public boolean supportsRowBased() {
    return scan.supportsRowBased();
  }

  @Override
  public Option<Seq<String>> vectorTypes() {
    return scan.vectorTypes();
  }

  /** Without join keys, the query's rows equal those of the unpruned scan, so Spark may reuse one for the other. */
  @Override
  public SparkPlan doCanonicalize() {
    return Scala.list(runtime).stream().allMatch(PrunedFileScanExec::isUnused)
        ? scan.canonicalized()
        : super.doCanonicalize();
  }

  /** Spark replaces the keys of a join that is not a broadcast join by TRUE. */
  private static boolean isUnused(Expression expression) {
    return expression instanceof DynamicPruningExpression dynamic && dynamic.child() instanceof Literal;
  }

  @Override
  public Seq<SparkPlan> children() {
    return Scala.seq(List.of(scan));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    SparkPlan replaced = children.apply(0);
    // Another engine's scan must not stay below this node, which could only slow it down.
    return replaced instanceof FileSourceScanExec spark ? new PrunedFileScanExec(spark, runtime) : replaced;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof PrunedFileScanExec;
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int position) {
    return position == 0 ? scan : runtime;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PrunedFileScanExec that && scan.equals(that.scan) && runtime.equals(that.runtime);
  }

  @Override
  public int hashCode() {
    return 31 * scan.hashCode() + runtime.hashCode();
  }
}
