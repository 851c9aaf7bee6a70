package io.bloomparquet.spark.support;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.DataSourceOptions;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.execution.datasources.FileIndexOptions$;
import org.apache.spark.sql.execution.datasources.orc.OrcOptions$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions$;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The names of options. An unknown name is an error: a load with a misspelt {@code where} would return all rows.
 *
 * <p>A name with a dot belongs to Hadoop, parquet-java or ORC, and is not checked.
 */
public final class OptionNames {
  private static final Set<String> BOTH_FORMATS =
      names(
          "path",
          "paths",
          "where",
          "tableLog",
          "pushFilters",
          "planning",
          "planningTimeout",
          "cache",
          "index",
          "onFilterError",
          "mergeSchema",
          "recursiveFileLookup",
          "basePath",
          "pathGlobFilter",
          "modifiedBefore",
          "modifiedAfter",
          "ignoreCorruptFiles",
          "ignoreMissingFiles",
          "timeZone",
          "bloomColumns",
          "bloomFpp",
          "bloomRowGroups",
          "compression",
          "partitionOverwriteMode");

  private static final Set<String> PARQUET_ONLY = names("keyProvider", "bloomMaxBytes");

  /** Options of the Python data source that the jar does not have, and what to set instead. */
  private static final Map<String, String> PYTHON_ONLY =
      merge(
          Map.of(
              "caseSensitive", "the session's spark.sql.caseSensitive",
              "inferPartitionTypes", "spark.sql.sources.partitionColumnTypeInference.enabled",
              "maxPartitionBytes", "spark.sql.files.maxPartitionBytes",
              "openCostInBytes", "spark.sql.files.openCostInBytes",
              "minPartitionNum", "spark.sql.files.minPartitionNum",
              "storageOptions", "Hadoop's settings, such as fs.s3a.endpoint,"));

  private static final Map<String, String> DRIVER_ONLY =
      merge(
          Map.of(
              "cacheDirectory", DriverSettings.CACHE_DIRECTORY,
              "cacheMaxBytes", DriverSettings.CACHE_MAX_BYTES));

  /** Names that other readers give to the option {@code where}. */
  private static final Set<String> SYNONYMS_OF_WHERE = names("filter", "filters", "predicate", "condition");

  /** Options that Spark reads without registering them. */
  private static final Set<String> UNREGISTERED_OF_SPARK =
      names(
          FileSourceOptions.IGNORE_CORRUPT_FILES(),
          FileSourceOptions.IGNORE_MISSING_FILES(),
          org.apache.spark.sql.execution.datasources.FileFormat.OPTION_RETURNING_BATCH(),
          "maxRecordsPerFile",
          // streams
          "checkpointLocation",
          "queryName",
          "retention",
          "maxFilesPerTrigger",
          "maxBytesPerTrigger",
          "maxFileAge",
          "maxCachedFiles",
          "discardCachedInputRatio",
          "latestFirst",
          "fileNameOnly",
          "cleanSource",
          "sourceArchiveDir");

  private OptionNames() {}

  /** The options of all layers: a session, a table, a load. A later layer overrides an earlier one. Names ignore case. */
  @SafeVarargs
  public static Map<String, String> merge(Map<String, String>... layers) {
    Map<String, String> options = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    for (Map<String, String> layer : layers) {
      options.putAll(layer);
    }
    return options;
  }

  private static Set<String> names(String... names) {
    Set<String> folded = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
    folded.addAll(List.of(names));
    return folded;
  }

  /** Throws {@link IllegalArgumentException} for an unknown name. */
  public static void check(FileFormat format, Map<String, String> options) {
    options.keySet().forEach(name -> check(format, name));
  }

  private static void check(FileFormat format, String name) {
    if (name.contains(".") || name.startsWith("__")) { // "__" starts Spark's internal names
      return;
    }
    if (format == FileFormat.ORC) {
      checkForOrc(name);
    }
    if (PYTHON_ONLY.containsKey(name)) {
      throw new IllegalArgumentException(
          String.format(
              "option %s is for loads without the jar; with the jar, set %s instead", name, PYTHON_ONLY.get(name)));
    }
    if (DRIVER_ONLY.containsKey(name)) {
      throw new IllegalArgumentException(
          String.format(
              "option %s cannot be given for a load, a table or a session; set %s when the application starts: "
                  + "spark-defaults.conf, --conf, or SparkSession.builder.config",
              name, DRIVER_ONLY.get(name)));
    }
    Set<String> ours = ours(format);
    Set<String> ofSpark = ofSpark(format);
    if (!ours.contains(name) && !ofSpark.contains(name)) {
      throw new IllegalArgumentException(
          String.format("%s has no option '%s'; %s", format.source(), name, suggestion(format, name, ours, ofSpark)));
    }
  }

  /** Refuses an option that only filters of Parquet have, and names the option to use instead. */
  public static void checkForOrc(String option) {
    String name = option.toLowerCase(Locale.ROOT);
    if (name.equals("keyprovider")) {
      throw new IllegalArgumentException(
          "option keyProvider is for encrypted Parquet; ORC files with encrypted columns are read without a plan");
    }
    if (name.equals("bloommaxbytes")) {
      throw notForOrc(option, "ORC sizes each filter for orc.row.index.stride values: set that, or bloomFpp");
    }
    if (name.startsWith("parquet.bloom.filter.")) {
      throw notForOrc(option, "it is for Parquet: set bloomColumns and bloomFpp");
    }
  }

  private static IllegalArgumentException notForOrc(String option, String why) {
    return new IllegalArgumentException("option " + option + " is not for filters of ORC; " + why);
  }

  private static Set<String> ours(FileFormat format) {
    Set<String> names = names(BOTH_FORMATS.toArray(String[]::new));
    if (format == FileFormat.PARQUET) {
      names.addAll(PARQUET_ONLY);
    }
    return names;
  }

  private static Set<String> ofSpark(FileFormat format) {
    DataSourceOptions options = format == FileFormat.PARQUET ? ParquetOptions$.MODULE$ : OrcOptions$.MODULE$;
    Set<String> names = names(UNREGISTERED_OF_SPARK.toArray(String[]::new));
    for (DataSourceOptions registry : List.of(options, FileIndexOptions$.MODULE$)) {
      registry.getAllOptions().foreach(names::add);
    }
    return names;
  }

  private static String suggestion(FileFormat format, String name, Set<String> ours, Set<String> ofSpark) {
    if (SYNONYMS_OF_WHERE.contains(name)) {
      return "did you mean 'where'?";
    }
    List<String> candidates = new ArrayList<>(ours);
    candidates.addAll(ofSpark);
    return nearest(name, candidates)
        .map(nearest -> "did you mean '" + nearest + "'?")
        .orElseGet(
            () ->
                String.format(
                    "expected one of %s, or an option of Spark's %s", String.join(", ", ours), format.shortName()));
  }

  /** The candidate that a user may have meant by {@code name}; empty if none is similar. */
  public static Optional<String> nearest(String name, Collection<String> candidates) {
    return candidates.stream()
        .min(Comparator.comparingInt(each -> distance(name, each)))
        .filter(each -> distance(name, each) <= 1 + name.length() / 3);
  }

  private static int distance(String one, String other) {
    return folded(one).levenshteinDistance(folded(other));
  }

  private static UTF8String folded(String name) {
    return UTF8String.fromString(name.toLowerCase(Locale.ROOT));
  }
}
