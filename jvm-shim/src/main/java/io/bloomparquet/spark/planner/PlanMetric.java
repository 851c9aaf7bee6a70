package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.FileFormat;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;

/** A count of a plan for Spark's UI. The driver reports it. */
public final class PlanMetric implements CustomMetric {
  static final String FAILURES = "numPlanningFailures";

  private static final Map<FileFormat, List<PlanMetric>> ALL =
      Map.of(FileFormat.PARQUET, all(FileFormat.PARQUET), FileFormat.ORC, all(FileFormat.ORC));

  private static List<PlanMetric> all(FileFormat format) {
    String units = format.unit() + "s";
    List<PlanMetric> metrics = new ArrayList<>();
    metrics.add(new PlanMetric(format.count("Total"), units + " in the files of the scan"));
    metrics.add(new PlanMetric(format.count("SkippedByStatistics"), units + " skipped by statistics"));
    metrics.add(new PlanMetric(format.count("SkippedByBloomFilter"), units + " skipped by Bloom filter"));
    metrics.add(new PlanMetric(format.count("Read"), units + " kept"));
    if (format == FileFormat.ORC) {
      metrics.add(new PlanMetric("numRowGroupsTotal", "row groups in the stripes"));
      metrics.add(
          new PlanMetric("numRowGroupsExcludedByStatistics", "row groups in the stripes excluded by statistics"));
      metrics.add(
          new PlanMetric("numRowGroupsExcludedByBloomFilter", "row groups in the stripes excluded by Bloom filter"));
    }
    metrics.add(new PlanMetric("numFilesReadWhole", "files read whole, as the planner could not read them"));
    metrics.add(new PlanMetric("numFilesTotal", "files of the scan"));
    metrics.add(new PlanMetric("numFilesIndexed", "files planned from an index"));
    metrics.add(new PlanMetric("bloomFilterBytes", "bytes of Bloom filters read"));
    metrics.add(new PlanMetric("planningTimeMs", "time of planning " + units + " (ms)"));
    metrics.add(new PlanMetric("numFilterErrors", "Bloom filters that could not be used"));
    metrics.add(new PlanMetric(FAILURES, "failed plans (everything was read)"));
    return List.copyOf(metrics);
  }

  private final String name;
  private final String description;

  private PlanMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  /** Spark's UI creates an instance to add numbers up. */
  public PlanMetric() {
    this("", "");
  }

  public static List<PlanMetric> of(FileFormat format) {
    return ALL.get(format);
  }

  /** The value of this metric in {@code result}. */
  public long valueIn(PlanResult result) {
    return name.equals(FAILURES) ? (result.failed() ? 1 : 0) : result.count(name);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public String aggregateTaskMetrics(long[] values) {
    return String.valueOf(Arrays.stream(values).sum());
  }
}
