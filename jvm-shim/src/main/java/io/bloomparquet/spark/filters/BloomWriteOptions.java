package io.bloomparquet.spark.filters;

import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.SparkVersions;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.StructType;

/**
 * The Bloom filters of a Parquet write: {@code bloomColumns="user_id,address.city"} or {@code *}, {@code
 * bloomFpp=0.01} ({@link BloomFpp}), {@code bloomMaxBytes=16m}. We make the filters, each of the right size for its row
 * group ({@link BloomWriteSupport}).
 *
 * <p>parquet-java's options take precedence: with {@code parquet.bloom.filter.adaptive.enabled}, or for one column
 * {@code expected.ndv#user_id} or {@code candidates.number#user_id}, parquet-java makes the filters. It leaves them out
 * where all pages are dictionary encoded, so these columns are written without a dictionary.
 */
public final class BloomWriteOptions implements FilterOptions {
  private static final String ENABLED = "parquet.bloom.filter.enabled";
  private static final String FPP = "parquet.bloom.filter.fpp";
  private static final String MAX_BYTES_OPTION = "parquet.bloom.filter.max.bytes";
  private static final String NDV = "parquet.bloom.filter.expected.ndv";
  private static final String DICTIONARY = "parquet.enable.dictionary";
  private static final String ADAPTIVE = "parquet.bloom.filter.adaptive.enabled";
  private static final String CANDIDATES = "parquet.bloom.filter.candidates.number";

  /** Enough to halve the largest filter down to parquet-java's smallest, 1 KiB. */
  private static final String CANDIDATES_TO_SMALLEST = "15";

  private static final double DEFAULT_FPP = 0.01;
  private static final String DEFAULT_MAX_BYTES = "16m";

  private final Map<String, String> given;
  private final WrittenColumns columns;
  private final double defaultFpp;

  /** Settings for parquet-java. */
  private final Map<String, String> settings = new TreeMap<>();

  /** Settings for parquet-java's own filters, where ours cannot be written. */
  private final Map<String, String> substitute = new TreeMap<>();

  private final Map<String, FilterPlan.Column> ownFilters = new TreeMap<>();
  private final FilterPlan plan;

  /**
   * Checks the options, and throws {@link IllegalArgumentException}.
   *
   * @param options of a write; Spark may have changed the names to lower case
   * @param schema of the files
   */
  public BloomWriteOptions(Map<String, String> options, StructType schema) {
    given = OptionNames.merge(options);
    columns = WrittenColumns.of(schema);
    OptionalDouble fpp = BloomFpp.of(given);
    fpp.ifPresent(all -> columns.stream().forEach(leaf -> settings.put(FPP + "#" + leaf.path(), String.valueOf(all))));
    defaultFpp = fpp.orElse(DEFAULT_FPP);
    int maxBytes = maxBytes("bloomMaxBytes", given.getOrDefault("bloomMaxBytes", DEFAULT_MAX_BYTES));
    if (given.containsKey("bloomMaxBytes") && !given.containsKey(MAX_BYTES_OPTION)) {
      settings.put(MAX_BYTES_OPTION, String.valueOf(maxBytes));
    }
    if (given.containsKey("bloomColumns")) {
      columns.choose(given.get("bloomColumns"), this::mayProfit, (leaf, optional) -> add(leaf.path(), optional));
    }
    restoreCase();
    // parquet-java makes none beside ours
    ownFilters.keySet().forEach(path -> settings.put(ENABLED + "#" + path, "false"));
    boolean ofParquetJava = given.containsKey(MAX_BYTES_OPTION) && !ownFilters.isEmpty();
    plan =
        new FilterPlan(
            new HashMap<>(ownFilters),
            ofParquetJava ? maxBytes(MAX_BYTES_OPTION, given.get(MAX_BYTES_OPTION)) : maxBytes,
            ofParquetJava ? MAX_BYTES_OPTION : "bloomMaxBytes");
  }

  @Override
  public void applyTo(Configuration conf) {
    settings.forEach(conf::set);
    // A column "a.b" and a field b of a struct a have one path. parquet-java confuses their filters, so they get none.
    if (conf.getBoolean(ENABLED, false) && !columns.stream().allMatch(this::hasUniquePath)) {
      conf.set(ENABLED, "false");
      columns.stream()
          .filter(this::hasUniquePath)
          .forEach(leaf -> conf.setIfUnset(ENABLED + "#" + leaf.path(), "true"));
    }
    columns.stream()
        .filter(leaf -> !hasUniquePath(leaf))
        .forEach(leaf -> conf.set(ENABLED + "#" + leaf.path(), "false"));
  }

  @Override
  public OutputWriterFactory withFilters(OutputWriterFactory writers, Configuration conf) {
    if (ownFilters.isEmpty()) {
      return writers;
    }
    if (columns.stream().anyMatch(leaf -> SparkVersions.isVariant(leaf.type()))) {
      // Spark's writer of VARIANT infers the files' schema from the first rows, and cannot be replaced.
      substitute.forEach(conf::set);
      return writers;
    }
    return new BloomWriterFactory(writers, plan, substitute);
  }

  private void add(String path, boolean optional) {
    String enabled = given.get(ENABLED + "#" + path);
    boolean named = !optional || ownFilters.containsKey(path) && !ownFilters.get(path).optional();
    if (enabled != null && !Boolean.parseBoolean(enabled.trim())) {
      return;
    }
    Map<String, String> ofParquetJava = new TreeMap<>();
    ofParquetJava.put(ADAPTIVE, given.getOrDefault(ADAPTIVE, "true"));
    ofParquetJava.put(ENABLED + "#" + path, "true");
    ofParquetJava.put(CANDIDATES + "#" + path, given.getOrDefault(CANDIDATES, CANDIDATES_TO_SMALLEST));
    if (named && !given.containsKey(DICTIONARY + "#" + path)) {
      ofParquetJava.put(DICTIONARY + "#" + path, "false");
    }
    if (given.containsKey(ADAPTIVE)
        || given.containsKey(NDV + "#" + path)
        || given.containsKey(CANDIDATES + "#" + path)) {
      settings.putAll(ofParquetJava);
      return;
    }
    String key = FPP + "#" + path;
    double fpp = given.containsKey(key) ? BloomFpp.ofColumn(key, given.get(key)) : defaultFpp;
    ownFilters.put(path, new FilterPlan.Column(fpp, !named));
    substitute.putAll(ofParquetJava);
  }

  /** Spark changes option names to lower case, also after the #, where parquet-java needs the column's exact name. */
  private void restoreCase() {
    given.forEach(
        (key, value) -> {
          int mark = key.indexOf('#');
          if (mark > 0 && key.regionMatches(true, 0, "parquet.", 0, "parquet.".length())) {
            String setting = key.substring(0, mark).toLowerCase(Locale.ROOT);
            String named = key.substring(mark + 1);
            columns.stream()
                .filter(leaf -> leaf.path().equalsIgnoreCase(named))
                .forEach(leaf -> settings.put(setting + "#" + leaf.path(), value));
          }
        });
  }

  private boolean hasUniquePath(WrittenColumns.Leaf leaf) {
    return columns.stream().filter(other -> other.path().equals(leaf.path())).count() == 1;
  }

  private boolean mayProfit(WrittenColumns.Leaf leaf) {
    return leaf.mayProfit() && hasUniquePath(leaf);
  }

  /** The largest power of two that is at most {@code given}. */
  private static int maxBytes(String option, String given) {
    try {
      long bytes = JavaUtils.byteStringAsBytes(given.trim());
      if (bytes >= SplitBlocks.MIN_BYTES && bytes <= SplitBlocks.MAX_BYTES) {
        return Integer.highestOneBit((int) bytes);
      }
    } catch (NumberFormatException error) {
      // thrown below
    }
    throw new IllegalArgumentException(
        "option " + option + " is '" + given + "'; expected a number of bytes from 32 to 128m, such as 16m");
  }
}
