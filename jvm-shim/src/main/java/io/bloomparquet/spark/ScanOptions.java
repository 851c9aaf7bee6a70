package io.bloomparquet.spark;

import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a load that say whether and how it is planned. All other options are Spark's, or the planner's, which
 * gets {@link #planner} as they were given.
 *
 * @param where a condition that belongs to the load, as SQL; null if none
 * @param pushFilters whether the filters of queries are planned by
 * @param planner the options that the planner reads
 */
record ScanOptions(
    Planning planning,
    long timeoutMillis,
    int maxFiles,
    String where,
    boolean pushFilters,
    Map<String, String> planner) {

  /** When row groups are planned on the driver. */
  enum Planning {
    /** Unless there are too many files. */
    AUTO,
    DRIVER,
    OFF
  }

  /** Whether queries' filters prune; with the jar, automatically is always. */
  enum PushFilters {
    AUTO,
    ON,
    OFF
  }

  static final String DEFAULT_TIMEOUT = "30s";
  static final int DEFAULT_MAX_FILES = 100_000;

  static ScanOptions of(CaseInsensitiveStringMap options) {
    Map<String, String> planner = new TreeMap<>();
    options.forEach(
        (key, value) -> {
          // Keys with dots are settings of Hadoop and of parquet-java, which are no concern of the planner, and may hold
          // secrets.
          if (!key.contains(".") && !key.equals("path") && !key.equals("paths") && value != null) {
            planner.put(key, value);
          }
        });
    return new ScanOptions(
        choice(options, "planning", Planning.values(), Planning.AUTO),
        millis(options, "planningTimeout", DEFAULT_TIMEOUT),
        count(options, "maxFilesPlannedOnDriver", DEFAULT_MAX_FILES),
        options.get("where"),
        choice(options, "pushFilters", PushFilters.values(), PushFilters.AUTO) != PushFilters.OFF,
        planner);
  }

  private static <E extends Enum<E>> E choice(
      CaseInsensitiveStringMap options, String name, E[] choices, E byDefault) {
    String given = options.get(name);
    if (given == null) {
      return byDefault;
    }
    for (E each : choices) {
      if (each.name().equalsIgnoreCase(given.trim())) {
        return each;
      }
    }
    throw wrong(
        name,
        given,
        Arrays.stream(choices)
            .map(each -> each.name().toLowerCase(Locale.ROOT))
            .collect(Collectors.joining(", ")));
  }

  private static long millis(CaseInsensitiveStringMap options, String name, String byDefault) {
    String given = options.getOrDefault(name, byDefault);
    try {
      long millis = JavaUtils.timeStringAs(given, TimeUnit.MILLISECONDS);
      if (millis > 0) {
        return millis;
      }
    } catch (NumberFormatException error) {
      // told below
    }
    throw wrong(name, given, "a duration as Spark writes them, such as 500ms or 30s");
  }

  private static int count(CaseInsensitiveStringMap options, String name, int byDefault) {
    String given = options.get(name);
    if (given == null) {
      return byDefault;
    }
    try {
      int count = Integer.parseInt(given.trim());
      if (count > 0) {
        return count;
      }
    } catch (NumberFormatException error) {
      // told below
    }
    throw wrong(name, given, "a whole number from 1 up");
  }

  private static IllegalArgumentException wrong(String name, String given, String expected) {
    return new IllegalArgumentException("option " + name + " is '" + given + "'; expected " + expected);
  }
}
