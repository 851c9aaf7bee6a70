package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.DriverSettings;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.spark.SparkFiles;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a load that say whether and how it is planned. All other options are Spark's.
 *
 * @param pushFilters whether the filters of queries are planned by
 * @param planner what the planner is sent of them, and of the driver's settings
 */
public record ScanOptions(
    Planning planning,
    long timeoutMillis,
    int maxFiles,
    boolean pushFilters,
    Map<String, String> planner) {

  private interface Choice {
    String name();

    default String text() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** When row groups are planned on the driver. */
  enum Planning implements Choice {
    /** Unless there are too many files. */
    AUTO,
    DRIVER,
    OFF
  }

  /** Whether queries' filters prune; with the jar, automatically is always. */
  private enum PushFilters implements Choice {
    AUTO,
    ON,
    OFF
  }

  /** What becomes of a row group whose filter cannot be used. */
  private enum OnFilterError implements Choice {
    KEEP,
    FAIL
  }

  private enum Flag implements Choice {
    TRUE,
    FALSE
  }

  static final String DEFAULT_TIMEOUT = "30s";
  static final int DEFAULT_MAX_FILES = 100_000;

  /**
   * Checks the values, and throws {@link IllegalArgumentException}. The names are checked by {@code OptionNames}.
   */
  public static ScanOptions of(CaseInsensitiveStringMap options, DriverSettings driver) {
    Map<String, String> planner = new TreeMap<>();
    planner.put("onFilterError", choice(options, "onFilterError", OnFilterError.values(), OnFilterError.KEEP).text());
    planner.put("cache", choice(options, "cache", Flag.values(), Flag.TRUE).text());
    planner.put("cacheMaxBytes", String.valueOf(driver.cacheMaxBytes()));
    if (driver.cacheDirectory() != null) {
      planner.put("cacheDirectory", driver.cacheDirectory());
    }
    if (options.get("keyProvider") != null) {
      driver.checkKeyProvider(options.get("keyProvider"));
      planner.put("keyProvider", options.get("keyProvider"));
      if (!SparkFiles.getRootDirectory().equals(".")) { // of a process that has no such place
        planner.put("shippedFiles", SparkFiles.getRootDirectory());
      }
    }
    return new ScanOptions(
        choice(options, "planning", Planning.values(), Planning.AUTO),
        millis(options, "planningTimeout", DEFAULT_TIMEOUT),
        count(options, "maxFilesPlannedOnDriver", DEFAULT_MAX_FILES),
        choice(options, "pushFilters", PushFilters.values(), PushFilters.AUTO) != PushFilters.OFF,
        planner);
  }

  private static <E extends Choice> E choice(
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
            .map(Choice::text)
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
