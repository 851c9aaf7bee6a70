package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.planner.PredicateTranslator;
import io.bloomparquet.spark.planner.ReaderColumns;
import io.bloomparquet.spark.planner.ReaderSettings;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.tables.DeltaTable;
import io.bloomparquet.spark.write.BloomFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;

/**
 * Plans a scan of files as Spark does, and puts {@link PrunedFileScanExec} above it if the query filters data columns.
 *
 * <p>Only for Spark's own file formats, Delta Lake's and ours, not for other subclasses of them: such a format may read
 * other rows than the files hold.
 */
public final class PlainScans extends SparkStrategy {
  /** The session's setting that decides whether Spark's own scans are pruned. */
  public static final String ENABLED = "spark.bloomparquet.transparent";

  /** The package of Spark's own file indexes. Another system's index may leave out files, or list virtual ones. */
  private static final String SPARKS_OWN = "org.apache.spark.sql.execution.";

  /**
   * Makes this strategy the first of a session, because Delta Lake's also plans files that are not Delta's, and adds {@link
   * JoinKeys} after Spark's own rules. A session's extensions can do neither, and {@code newSession()} does not inherit
   * experimental methods. But Spark builds the rules of extensions for each query, before it looks at these methods.
   *
   * @return a rule for the extensions, which does nothing
   */
  public static Rule<LogicalPlan> install(SparkSession session) {
    var methods = session.experimental();
    synchronized (methods) {
      methods.extraStrategies_$eq(with(methods.extraStrategies(), new PlainScans(), 0));
      methods.extraStrategies_$eq(with(methods.extraStrategies(), new IcebergScans(), 0));
      var rules = methods.extraOptimizations();
      methods.extraOptimizations_$eq(with(rules, new JoinKeys(), rules.size()));
    }
    return new NoOp();
  }

  private static <T> Seq<T> with(Seq<T> all, T ours, int position) {
    List<T> list = new ArrayList<>(Scala.list(all));
    if (list.stream().noneMatch(each -> each.getClass() == ours.getClass())) {
      list.add(position, ours);
    }
    return Scala.seq(list);
  }

  private static final class NoOp extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return plan;
    }
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    HadoopFsRelation relation = plan instanceof Filter || plan instanceof Project ? relation(plan) : null;
    if (relation == null || format(relation) == null) {
      return Scala.seq(List.of());
    }
    boolean isEnabled = isEnabled(SQLConf.get(), relation);
    // The setting may have changed since JoinKeys inserted something, which must not stay in a filter.
    if (!isEnabled && !plan.containsPattern(TreePattern.DYNAMIC_PRUNING_SUBQUERY())) {
      return Scala.seq(List.of());
    }
    List<SparkPlan> plans = new ArrayList<>();
    boolean pruned = false;
    boolean isDelta = DeltaTable.isScannedBy(relation);
    for (SparkPlan each : Scala.list(isDelta ? DeltaTable.plan(plan) : FileSourceStrategy$.MODULE$.apply(plan))) {
      SparkPlan withPruning = prune(each, isEnabled, SQLConf.get().dynamicPartitionPruningEnabled());
      pruned |= withPruning != each;
      plans.add(withPruning);
    }
    return Scala.seq(pruned || isDelta ? plans : List.of());
  }

  /** The files below filters and projections; null for other plans. */
  static HadoopFsRelation relation(LogicalPlan plan) {
    LogicalPlan leaf = plan;
    while (leaf instanceof Filter || leaf instanceof Project) {
      leaf = leaf.children().apply(0);
    }
    return leaf instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation
        ? relation
        : null;
  }

  /**
   * Whether Spark's own scans of these files are pruned. Scans of our formats are, whatever the setting. Throws {@link
   * IllegalArgumentException} for a setting that is no boolean.
   */
  static boolean isEnabled(SQLConf conf, HadoopFsRelation relation) {
    return relation.fileFormat() instanceof BloomFormat || isEnabled(conf);
  }

  static boolean isEnabled(SQLConf conf) {
    String setting = conf.getConfString(ENABLED, "true");
    return switch (setting.trim().toLowerCase(Locale.ROOT)) {
      case "true" -> true;
      case "false" -> false;
      default -> throw new IllegalArgumentException(ENABLED + " is '" + setting + "'; expected true or false");
    };
  }

  /** The format of a scan that can be planned; null for other plans. */
  static FileFormat format(SparkPlan plan) {
    return plan instanceof FileSourceScanExec scan ? format(scan.relation()) : null;
  }

  /** The format of files that can be planned; null for other files. */
  static FileFormat format(HadoopFsRelation relation) {
    if (relation.fileFormat() instanceof BloomFormat ours) {
      return ours.format();
    }
    if (DeltaTable.isScannedBy(relation)) {
      return DeltaTable.readsParts(relation) ? FileFormat.PARQUET : null;
    }
    if (!relation.location().getClass().getName().startsWith(SPARKS_OWN)) {
      return null;
    }
    Class<?> format = relation.fileFormat().getClass();
    if (format == ParquetFileFormat.class) {
      return FileFormat.PARQUET;
    }
    return format == OrcFileFormat.class ? FileFormat.ORC : null;
  }

  /**
   * The translation of predicates on a relation that can be planned. Spark's reader goes by the settings of the session
   * that made the relation, which may not be the session that runs the query.
   */
  static PredicateTranslator predicates(HadoopFsRelation relation) {
    if (DeltaTable.isScannedBy(relation)) {
      return new PredicateTranslator(DeltaTable.columns(relation));
    }
    FileFormat format = format(relation);
    SparkSession session = relation.sparkSession();
    return new PredicateTranslator(
        new ReaderColumns(
            session,
            format,
            relation.schema(),
            relation.partitionSchema(),
            ReaderSettings.unplannableReason(session, format, relation.schema(), relation.options()),
            null));
  }

  /** @param hasKeys whether Spark will plan the predicates by the keys of joins */
  private static SparkPlan prune(SparkPlan plan, boolean isEnabled, boolean hasKeys) {
    FileSourceScanExec scan = scan(plan);
    List<Expression> runtime = new ArrayList<>();
    SparkPlan withoutRuntime = scan == null ? plan : takeRuntime(plan, scan, runtime);
    // Delta Lake's strategy may exchange the format for one that reads no parts.
    boolean isPruned = scan != null && isEnabled && format(scan) != null;
    if (scan == null || runtime.isEmpty() && !(isPruned && filtersData(scan))) {
      return plan;
    }
    if (!hasKeys) {
      runtime.clear();
    }
    if (!isPruned || runtime.isEmpty() && !filtersData(scan)) {
      return withoutRuntime;
    }
    PrunedFileScanExec pruned = new PrunedFileScanExec(scan, Scala.seq(runtime));
    pruned.copyTagsFrom(scan);
    return replace(withoutRuntime, scan, pruned);
  }

  static boolean filtersData(FileSourceScanExec scan) {
    return Scala.list(scan.dataFilters()).stream().anyMatch(RuntimeValues::isOfData);
  }

  /** The scan of files below filters and projections; null if there is none. */
  private static FileSourceScanExec scan(SparkPlan plan) {
    if (plan.children().size() == 1) {
      return scan(plan.children().apply(0));
    }
    return plan instanceof FileSourceScanExec scan ? scan : null;
  }

  /**
   * Moves the predicates by the keys of joins from the filters of {@code plan} to {@code runtime}. Removing them
   * changes no row: the join itself drops the same rows.
   */
  private static SparkPlan takeRuntime(SparkPlan plan, FileSourceScanExec scan, List<Expression> runtime) {
    if (plan == scan) {
      return plan;
    }
    SparkPlan before = plan.children().apply(0);
    SparkPlan child = takeRuntime(before, scan, runtime);
    if (!(plan instanceof FilterExec filter)) {
      return child == before ? plan : plan.withNewChildren(Scala.seq(List.of(child)));
    }
    List<Expression> exact = new ArrayList<>();
    int taken = runtime.size();
    for (Expression each : Scala.list(PartitionPruning$.MODULE$.splitConjunctivePredicates(filter.condition()))) {
      boolean isRuntime = each instanceof DynamicPruning && each.references().subsetOf(scan.outputSet());
      (isRuntime ? runtime : exact).add(each);
    }
    if (taken == runtime.size() && child == before) {
      return plan;
    }
    if (exact.isEmpty()) {
      return child;
    }
    FilterExec remaining = new FilterExec(exact.stream().reduce(And::new).get(), child);
    remaining.copyTagsFrom(filter);
    return remaining;
  }

  private static SparkPlan replace(SparkPlan plan, SparkPlan scan, SparkPlan pruned) {
    return plan == scan
        ? pruned
        : plan.withNewChildren(Scala.seq(List.of(replace(plan.children().apply(0), scan, pruned))));
  }
}
