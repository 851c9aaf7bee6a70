package io.bloomparquet.spark;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A number about a plan, as Spark's UI shows it. All are counted on the driver. */
public final class PlanMetric implements CustomMetric {
  static final String FAILURES = "numPlanningFailures";

  static final List<PlanMetric> ALL =
      List.of(
          new PlanMetric("numRowGroupsTotal", "row groups in the files of the scan"),
          new PlanMetric("numRowGroupsSkippedByStatistics", "row groups skipped by statistics"),
          new PlanMetric("numRowGroupsSkippedByBloomFilter", "row groups skipped by Bloom filter"),
          new PlanMetric("numRowGroupsRead", "row groups kept"),
          new PlanMetric("bloomFilterBytes", "bytes of Bloom filters read"),
          new PlanMetric("planningTimeMs", "time of planning row groups (ms)"),
          new PlanMetric("numFilterErrors", "Bloom filters that could not be used"),
          new PlanMetric(FAILURES, "plans that failed, so that everything was read"));

  private final String name;
  private final String description;

  private PlanMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  /** For Spark's UI, which makes one to add numbers up. */
  public PlanMetric() {
    this("", "");
  }

  static CustomTaskMetric[] of(PlanResult result) {
    return ALL.stream()
        .map(metric -> value(metric.name, metric.valueIn(result)))
        .toArray(CustomTaskMetric[]::new);
  }

  private long valueIn(PlanResult result) {
    return name.equals(FAILURES) ? (result.failed() ? 1 : 0) : result.count(name);
  }

  private static CustomTaskMetric value(String name, long value) {
    return new CustomTaskMetric() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public long value() {
        return value;
      }
    };
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
