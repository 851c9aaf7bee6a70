package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.DriverSettings;
import io.bloomparquet.spark.support.Scala;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkFiles;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options by which a load is planned.
 *
 * @param planning {@code auto} or {@code off}
 * @param pushFilters whether the filters of queries are used
 * @param planner the options that are sent to the planner
 * @param ofFiles the options that Spark opens the files with; some may be Hadoop's
 */
public record ScanOptions(
    String planning,
    long timeoutMillis,
    boolean pushFilters,
    Map<String, String> planner,
    Map<String, String> ofFiles) {
  private static final String AUTO = "auto";
  static final String OFF = "off";

  private static final String DEFAULT_TIMEOUT = "30s";

  /**
   * Checks the values, and throws {@link IllegalArgumentException}. {@code OptionNames} checks the names.
   *
   * @param ofFiles the options that Spark opens the files with
   */
  public static ScanOptions of(
      CaseInsensitiveStringMap options, Map<String, String> ofFiles, DriverSettings driver) {
    Map<String, String> planner = new TreeMap<>();
    planner.put("onFilterError", choice(options, "onFilterError", "keep", "fail"));
    planner.put("cache", choice(options, "cache", "true", "false"));
    planner.put("index", index(options));
    planner.put("cacheMaxBytes", String.valueOf(driver.cacheMaxBytes()));
    if (driver.cacheDirectory() != null) {
      planner.put("cacheDirectory", driver.cacheDirectory());
    }
    if (options.get("keyProvider") != null) {
      driver.checkKeyProvider(options.get("keyProvider"));
      planner.put("keyProvider", options.get("keyProvider"));
      if (!SparkFiles.getRootDirectory().equals(".")) { // the default of a process without shipped files
        planner.put("shippedFiles", SparkFiles.getRootDirectory());
      }
    }
    return new ScanOptions(
        choice(options, "planning", AUTO, OFF),
        millis(options, "planningTimeout"),
        !choice(options, "pushFilters", AUTO, "on", OFF).equals(OFF),
        planner,
        ofFiles);
  }

  /** Hadoop's configuration as Spark opens the files with it. */
  Configuration hadoopConf(SparkSession session) {
    return session.sessionState().newHadoopConfWithOptions(Scala.map(ofFiles));
  }

  /** Shows no options: there may be secrets among them. */
  @Override
  public String toString() {
    return "ScanOptions(planning=" + planning + ")";
  }

  /** One of {@code choices}, of which the first is the default. */
  private static String choice(CaseInsensitiveStringMap options, String name, String... choices) {
    String given = options.getOrDefault(name, choices[0]);
    return Stream.of(choices)
        .filter(each -> each.equalsIgnoreCase(given.trim()))
        .findFirst()
        .orElseThrow(() -> wrong(name, given, either(choices)));
  }

  private static String either(String... choices) {
    int last = choices.length - 1;
    return String.join(", ", List.of(choices).subList(0, last)) + " or " + choices[last];
  }

  /** A directory is as the user wrote it; see {@link IndexLocation}. */
  private static String index(CaseInsensitiveStringMap options) {
    String given = options.getOrDefault("index", AUTO).trim();
    // A misspelt word must not be a directory without an index.
    return given.contains("/")
        ? given
        : Stream.of(AUTO, OFF)
            .filter(each -> each.equalsIgnoreCase(given))
            .findFirst()
            .orElseThrow(() -> wrong("index", given, "auto, off or a directory with a slash, such as /indexes/events"));
  }

  private static long millis(CaseInsensitiveStringMap options, String name) {
    String given = options.getOrDefault(name, DEFAULT_TIMEOUT);
    try {
      long millis = JavaUtils.timeStringAs(given, TimeUnit.MILLISECONDS);
      if (millis > 0) {
        return millis;
      }
    } catch (NumberFormatException error) {
      // thrown below
    }
    throw wrong(name, given, "a duration as Spark writes them, such as 500ms or 30s");
  }

  private static IllegalArgumentException wrong(String name, String given, String expected) {
    return new IllegalArgumentException("option " + name + " is '" + given + "'; expected " + expected);
  }
}
