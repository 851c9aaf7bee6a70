package io.bloomparquet.spark.plain;

import com.fasterxml.jackson.databind.node.ObjectNode;
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
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Prunes one scan, its child: asks the planner, shows the plan, and runs the scan over what is kept.
 *
 * <p>A node is planned once, with its own runtime predicates: Spark keeps its RDD when a DataFrame runs again.
 */
public abstract class PrunedScanExec<S extends SparkPlan> extends SparkPlan {
  private static final long serialVersionUID = 1L;

  /** Not the node's monitor: Spark holds that one while it waits for subqueries, which ask for the metrics of nodes. */
  private static final Object METRICS_LOCK = new Object();

  static final String OTHER_SIZE = "a file has another size than its table says";

  final S scan;
  final Seq<Expression> runtime;
  private transient Map<String, SQLMetric> metrics;
  private transient volatile Outcome latest;
  private transient volatile String asked;
  private transient volatile String notUsed;

  /** The predicate and the files of a request, and the planner's answer. {@code files} is null if it was not asked. */
  record Outcome(PlannerPredicate predicate, PlanResult result, FileListing files) {
    static Outcome none(PlanResult result) {
      return new Outcome(null, result, null);
    }
  }

  /** @param runtime predicates by the keys of a join, which only prune */
  PrunedScanExec(S scan, Seq<Expression> runtime) {
    this.scan = scan;
    this.runtime = runtime;
  }

  abstract FileFormat format();

  /** The conditions of the query on the rows of the scan. */
  abstract List<Expression> filters();

  /** The predicates by the keys of joins. */
  List<Expression> keys() {
    return Scala.list(runtime);
  }

  abstract PredicateTranslator predicates();

  abstract ScanOptions options();

  /** @param ofFiles the options that Spark opens the files with */
  ScanOptions options(Map<String, String> ofTable, Map<String, String> ofFiles) {
    return ScanOptions.of(
        SessionOptions.with(session(), format(), new CaseInsensitiveStringMap(ofTable)),
        ofFiles,
        DriverSettings.of(session().sparkContext()));
  }

  /** The files of a scan that has not run yet; null if they are not known before it runs. */
  abstract FileListing listNow();

  /** The paths and the unit of the scan. */
  abstract ObjectNode describe();

  abstract <T> RDD<T> keptRows(Function<SparkPlan, RDD<T>> execute);

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

  @Override
  public RDD<InternalRow> doExecute() {
    return keptRows(SparkPlan::execute);
  }

  @Override
  public RDD<ColumnarBatch> doExecuteColumnar() {
    return keptRows(SparkPlan::executeColumnar);
  }

  <T> RDD<T> everything(RDD<T> all, String reason) {
    latest = Outcome.none(PlanResult.none(reason));
    return all;
  }

  /** What is done about options that cannot be used. A query that does not name us must not fail. */
  PlanResult refused(IllegalArgumentException error) {
    return Planner.declined(error.getMessage());
  }

  Outcome plan(FileListing files) {
    ScanOptions options;
    try {
      options = options();
    } catch (IllegalArgumentException error) {
      return Outcome.none(refused(error));
    }
    PredicateTranslator predicates = predicates();
    PlannerPredicate predicate =
        options.pushFilters()
            ? PlannerPredicate.and(
                Stream.of(
                    predicates.ofAll(RuntimeValues.ofSubqueries(filters())),
                    RuntimeValues.ofKeys(keys(), predicates)))
            : null;
    PlanResult result = Planner.plan(session(), files, predicates.columns(), predicate, options, false);
    return new Outcome(predicate, result, options.pushFilters() ? files : null);
  }

  /** Publishes what this execution reads. Call it only when that is certain: a plan may turn out to be unusable. */
  void report(Outcome outcome) {
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
      FileListing files = listNow();
      Outcome now = files == null ? null : plan(files);
      latest = latest == null ? now : latest; // the query may have run meanwhile
    }
    Outcome outcome = latest;
    ObjectNode node = describe();
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
    PredicateTranslator predicates = predicates();
    PlannerPredicate keys = RuntimeValues.ofKeys(keys(), predicates);
    PlannerPredicate whole = PlannerPredicate.and(Stream.of(explained(predicates, query), keys));
    PlanResult result = Planner.plan(session(), outcome.files, predicates.columns(), whole, options(), true);
    return node.setAll(result.toJson());
  }

  /** The conditions of the query, also those that the planner cannot judge. */
  private PlannerPredicate explained(PredicateTranslator predicates, LogicalPlan query) {
    List<Expression> filters = RuntimeValues.ofSubqueries(filters());
    return predicates.explained(filters, ScanJoins.of(query, scan, keys()));
  }

  boolean awaitsValues() {
    return Stream.concat(filters().stream(), keys().stream()).anyMatch(RuntimeValues::hasSubquery);
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
      List<Expression> filters = new ArrayList<>(filters());
      filters.removeIf(each -> !RuntimeValues.isOfData(each) || RuntimeValues.hasSubquery(each));
      notUsed = predicates().notUsed(filters);
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
      String text = text(predicates().ofAll(filters()));
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
    return Scala.list(runtime).stream().allMatch(PrunedScanExec::isUnused)
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
  public boolean canEqual(Object other) {
    return other != null && other.getClass() == getClass();
  }

  @Override
  public boolean equals(Object other) {
    if (!canEqual(other)) {
      return false;
    }
    PrunedScanExec<?> that = (PrunedScanExec<?>) other;
    return productIterator().sameElements(that.productIterator());
  }

  @Override
  public int hashCode() {
    return 31 * scan.hashCode() + runtime.hashCode();
  }
}
