package io.bloomparquet.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A number about a plan, as Spark's UI shows it. All are counted on the driver. */
public final class PlanMetric implements CustomMetric {
  static final String FAILURES = "numPlanningFailures";

  private static final Map<FileKind, List<PlanMetric>> ALL =
      Map.of(FileKind.PARQUET, all(FileKind.PARQUET), FileKind.ORC, all(FileKind.ORC));

  private static List<PlanMetric> all(FileKind kind) {
    String units = kind.unit() + "s";
    List<PlanMetric> found = new ArrayList<>();
    found.add(new PlanMetric(kind.count("Total"), units + " in the files of the scan"));
    found.add(new PlanMetric(kind.count("SkippedByStatistics"), units + " skipped by statistics"));
    found.add(new PlanMetric(kind.count("SkippedByBloomFilter"), units + " skipped by Bloom filter"));
    found.add(new PlanMetric(kind.count("Read"), units + " kept"));
    if (kind == FileKind.ORC) {
      found.add(new PlanMetric("numRowGroupsTotal", "row groups within the stripes"));
      found.add(new PlanMetric("numRowGroupsExcludedByStatistics", "row groups without a match by their statistics"));
      found.add(new PlanMetric("numRowGroupsExcludedByBloomFilter", "row groups without a match by Bloom filter"));
    }
    found.add(new PlanMetric("bloomFilterBytes", "bytes of Bloom filters read"));
    found.add(new PlanMetric("planningTimeMs", "time of planning " + units + " (ms)"));
    found.add(new PlanMetric("numFilterErrors", "Bloom filters that could not be used"));
    found.add(new PlanMetric(FAILURES, "plans that failed, so that everything was read"));
    return List.copyOf(found);
  }

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

  static List<PlanMetric> of(FileKind kind) {
    return ALL.get(kind);
  }

  static CustomTaskMetric[] of(FileKind kind, PlanResult result) {
    return of(kind).stream()
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
