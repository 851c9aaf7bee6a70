package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.FileFormat;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A number about a plan, as Spark's UI shows it. All are counted on the driver. */
public final class PlanMetric implements CustomMetric {
  static final String FAILURES = "numPlanningFailures";

  private static final Map<FileFormat, List<PlanMetric>> ALL =
      Map.of(FileFormat.PARQUET, all(FileFormat.PARQUET), FileFormat.ORC, all(FileFormat.ORC));

  private static List<PlanMetric> all(FileFormat format) {
    String units = format.unit() + "s";
    List<PlanMetric> found = new ArrayList<>();
    found.add(new PlanMetric(format.count("Total"), units + " in the files of the scan"));
    found.add(new PlanMetric(format.count("SkippedByStatistics"), units + " skipped by statistics"));
    found.add(new PlanMetric(format.count("SkippedByBloomFilter"), units + " skipped by Bloom filter"));
    found.add(new PlanMetric(format.count("Read"), units + " kept"));
    if (format == FileFormat.ORC) {
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

  public static List<PlanMetric> of(FileFormat format) {
    return ALL.get(format);
  }

  public static CustomTaskMetric[] of(FileFormat format, PlanResult result) {
    return of(format).stream()
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
