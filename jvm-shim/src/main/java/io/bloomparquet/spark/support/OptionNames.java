package io.bloomparquet.spark.support;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.DataSourceOptions;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.datasources.FileIndexOptions$;
import org.apache.spark.sql.execution.datasources.orc.OrcOptions$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions$;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The names that an option of a load or of a write may have. A name that nothing heeds is an error: a misspelt {@code
 * where} would otherwise give all rows.
 *
 * <p>Names are those of this project, and Spark's own. Names with a dot belong to Hadoop, parquet-java and ORC, and pass.
 */
public final class OptionNames {
  private static final Set<String> BOTH_FORMATS =
      Set.of(
          "path",
          "paths",
          "where",
          "tableLog",
          "pushFilters",
          "planning",
          "maxFilesPlannedOnDriver",
          "planningTimeout",
          "cache",
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
          "compression",
          "partitionOverwriteMode");

  private static final Set<String> PARQUET_ONLY = Set.of("keyProvider", "bloomMaxBytes");

  /** Options of the Python data source that the jar has no use for; each has what to use instead. */
  private static final Map<String, String> PYTHON_ONLY =
      Map.of(
          "caseSensitive", "the session's spark.sql.caseSensitive",
          "inferPartitionTypes", "spark.sql.sources.partitionColumnTypeInference.enabled",
          "maxPartitionBytes", "spark.sql.files.maxPartitionBytes",
          "openCostInBytes", "spark.sql.files.openCostInBytes",
          "minPartitionNum", "spark.sql.files.minPartitionNum");

  private static final Map<String, String> OF_THE_DRIVER =
      Map.of(
          "cacheDirectory", DriverSettings.CACHE_DIRECTORY,
          "cacheMaxBytes", DriverSettings.CACHE_MAX_BYTES);

  /** Other words for a condition, too far from {@code where} to be taken for it misspelt. */
  private static final Set<String> MEANT_AS_WHERE = Set.of("filter", "filters", "predicate", "condition");

  /** Options that Spark reads and has in no registry. */
  private static final Set<String> OF_SPARK_UNREGISTERED =
      Set.of(
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

  /**
   * Throws {@link IllegalArgumentException} for a name that neither this project nor Spark has.
   *
   * @param options of a load, a write or a session; or the properties of a table of the catalog, among which only those
   *     given as OPTIONS are options
   */
  public static void check(FileFormat format, Map<String, String> options) {
    Map<String, String> folded = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    folded.putAll(options);
    boolean ofCatalog = folded.containsKey(TableCatalog.PROP_PROVIDER);
    for (String name : options.keySet()) {
      if (!ofCatalog || isOurs(name) || folded.containsKey(TableCatalog.OPTION_PREFIX + name)) {
        check(format, name);
      }
    }
  }

  private static void check(FileFormat format, String name) {
    if (name.contains(".") || name.startsWith("__")) { // Spark's own internal names begin like that
      return;
    }
    if (format == FileFormat.ORC) {
      checkForOrc(name);
    }
    String source = format.source();
    if (find(PARQUET_ONLY, name) != null && format != FileFormat.PARQUET) {
      throw new IllegalArgumentException(
          String.format("%s has no option '%s': that is one of %s", source, name, FileFormat.PARQUET.source()));
    }
    String instead = find(PYTHON_ONLY.keySet(), name);
    if (instead != null) {
      throw new IllegalArgumentException(
          String.format(
              "option %s is for loads without the jar; with it, set %s instead", instead, PYTHON_ONLY.get(instead)));
    }
    String ofDriver = find(OF_THE_DRIVER.keySet(), name);
    if (ofDriver != null) {
      throw new IllegalArgumentException(
          String.format(
              "option %s is taken from no load, table or session; set %s when the application starts: "
                  + "spark-defaults.conf, --conf, or SparkSession.builder.config",
              ofDriver, OF_THE_DRIVER.get(ofDriver)));
    }
    if (find(BOTH_FORMATS, name) == null && find(PARQUET_ONLY, name) == null && find(ofSpark(format), name) == null) {
      throw new IllegalArgumentException(String.format("%s has no option '%s'; %s", source, name, suggestion(format, name)));
    }
  }

  /** Refuses an option that is for filters of Parquet, and says what to use instead. */
  public static void checkForOrc(String option) {
    String name = option.toLowerCase(Locale.ROOT);
    if (name.equals("keyprovider")) {
      throw new IllegalArgumentException("option keyProvider is for encrypted Parquet; these files would be in plain text");
    }
    if (name.startsWith("bloomfpp#")) {
      throw notForOrc(option, "ORC has one share of false positives for all columns: set bloomFpp");
    }
    for (String sized : List.of("bloommaxbytes", "bloomndv")) {
      if (name.equals(sized) || name.startsWith(sized + "#")) {
        throw notForOrc(
            option, "ORC makes room for orc.row.index.stride values in each filter: set that, or bloomFpp");
      }
    }
    if (name.startsWith("parquet.bloom.filter.")) {
      throw notForOrc(option, "it is for Parquet: set bloomColumns and bloomFpp");
    }
  }

  private static IllegalArgumentException notForOrc(String option, String why) {
    return new IllegalArgumentException("option " + option + " is not for filters of ORC; " + why);
  }

  private static boolean isOurs(String name) {
    return Stream.of(BOTH_FORMATS, PARQUET_ONLY, PYTHON_ONLY.keySet(), OF_THE_DRIVER.keySet())
        .anyMatch(names -> find(names, name) != null);
  }

  /** The name as {@code names} has it, whatever its case; null if it is not among them. */
  private static String find(Set<String> names, String name) {
    return names.stream().filter(name::equalsIgnoreCase).findFirst().orElse(null);
  }

  private static Set<String> ofSpark(FileFormat format) {
    DataSourceOptions options = format == FileFormat.PARQUET ? ParquetOptions$.MODULE$ : OrcOptions$.MODULE$;
    Set<String> names = new TreeSet<>(OF_SPARK_UNREGISTERED);
    for (DataSourceOptions registry : List.of(options, FileIndexOptions$.MODULE$)) {
      registry.getAllOptions().foreach(names::add);
    }
    return names;
  }

  private static String suggestion(FileFormat format, String name) {
    List<String> names = new ArrayList<>(BOTH_FORMATS);
    if (format == FileFormat.PARQUET) {
      names.addAll(PARQUET_ONLY);
    }
    names.sort(String.CASE_INSENSITIVE_ORDER);
    if (find(MEANT_AS_WHERE, name) != null) {
      return "did you mean 'where'?";
    }
    String known = String.join(", ", names);
    ofSpark(format).stream().filter(each -> find(Set.copyOf(names), each) == null).forEach(names::add);
    UTF8String given = folded(name);
    String nearest = names.stream().min(Comparator.comparing(each -> given.levenshteinDistance(folded(each)))).orElseThrow();
    return given.levenshteinDistance(folded(nearest)) <= Math.max(2, name.length() / 3)
        ? "did you mean '" + nearest + "'?"
        : String.format("expected one of %s, or an option of Spark's %s", known, format.shortName());
  }

  private static UTF8String folded(String name) {
    return UTF8String.fromString(name.toLowerCase(Locale.ROOT));
  }
}
