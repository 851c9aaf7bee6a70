package io.bloomparquet.spark.plain;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.partitions.KeptParts;
import io.bloomparquet.spark.partitions.UnchangedFiles;
import io.bloomparquet.spark.planner.FileListing;
import io.bloomparquet.spark.planner.PlanResult;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.planner.PredicateTranslator;
import io.bloomparquet.spark.planner.ScanOptions;
import io.bloomparquet.spark.support.FileFormat;
import io.bloomparquet.spark.support.Scala;
import io.bloomparquet.spark.support.SparkVersions;
import io.bloomparquet.spark.write.BloomFormat;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Prunes one of Spark's scans of files. This node runs a copy of its child scan over the kept byte ranges. The child itself
 * only lists the files and holds the metrics.
 */
public final class PrunedFileScanExec extends PrunedScanExec<FileSourceScanExec> {
  private static final long serialVersionUID = 1L;

  /** @param runtime predicates by the keys of a join, which only prune */
  public PrunedFileScanExec(FileSourceScanExec scan, Seq<Expression> runtime) {
    super(scan, runtime);
  }

  @Override
  FileFormat format() {
    return PlainScans.format(scan);
  }

  @Override
  List<Expression> filters() {
    return Scala.list(scan.dataFilters());
  }

  @Override
  PredicateTranslator predicates() {
    return PlainScans.predicates(scan.relation());
  }

  @Override
  ObjectNode describe() {
    return UnprunedScan.node(format(), scan.relation().location());
  }

  @Override
  <T> RDD<T> keptRows(Function<SparkPlan, RDD<T>> execute) {
    if (!ExecutorJar.isAvailable(session().sparkContext())) {
      return everything(execute.apply(scan), "executors do not have the jar");
    }
    scan.waitForSubqueries();
    ScannedFiles scanned = new ScannedFiles(scan);
    Outcome outcome = plan(scanned.listing());
    PlanResult result = outcome.result();
    if (!result.isPlanned() || result.keepsAll(format()) && scanned.listing().isStill(result)) {
      report(outcome);
      return execute.apply(scan);
    }
    if (scanned.listing().neverChange() && !scanned.listing().isStill(result)) {
      return everything(execute.apply(scan), OTHER_SIZE);
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

  private FilePartition[] partitions(KeptFiles kept, KeptParts parts) {
    if (outputPartitioning() instanceof SinglePartition$) {
      return parts.single(); // Spark promised one partition: with none, a global aggregate returns no row
    }
    return scan.bucketedScan() ? parts.grouped(kept.groups()) : parts.packed();
  }

  @Override
  Outcome plan(FileListing files) {
    Outcome outcome = super.plan(files);
    if (outcome.files() != null && !files.neverChange()) {
      files.rememberFor(scan.relation().location());
    }
    return outcome;
  }

  @Override
  PlanResult refused(IllegalArgumentException error) {
    if (scan.relation().fileFormat() instanceof BloomFormat) {
      throw error;
    }
    return super.refused(error);
  }

  @Override
  ScanOptions options() {
    Map<String, String> ofFiles = Scala.map(scan.relation().options());
    return options(scan.relation().fileFormat() instanceof BloomFormat ? ofFiles : Map.of(), ofFiles);
  }

  @Override
  boolean awaitsValues() {
    return super.awaitsValues() || Scala.list(scan.partitionFilters()).stream().anyMatch(RuntimeValues::hasSubquery);
  }

  /** A copy lists the files: a scan keeps its list, and it may change until it runs. */
  @Override
  FileListing listNow() {
    return new ScannedFiles((FileSourceScanExec) scan.clone()).listing();
  }

  @Override
  public String nodeName() {
    return "PrunedFileScan";
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    SparkPlan replaced = children.apply(0);
    // Another engine's scan must not stay below this node, which could only slow it down.
    return replaced instanceof FileSourceScanExec spark ? new PrunedFileScanExec(spark, runtime) : replaced;
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int position) {
    return position == 0 ? scan : runtime;
  }
}
