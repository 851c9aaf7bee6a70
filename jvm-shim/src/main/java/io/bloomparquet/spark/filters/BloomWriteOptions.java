package io.bloomparquet.spark.filters;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;

/**
 * Which columns get Bloom filters, in short words: {@code bloomColumns="user_id,address.city"}, or {@code *} for all that
 * may profit; {@code bloomFpp=0.01}; {@code bloomMaxBytes=16m}. Their filters are ours, of the size that the values of each
 * row group take ({@link BloomWriteSupport}).
 *
 * <p>parquet-java's own options may be given as well, and win: {@code parquet.bloom.filter.adaptive.enabled} for all
 * columns, {@code expected.ndv#user_id} or {@code candidates.number#user_id} for one leave it to parquet-java to size the
 * filters. It writes none for a chunk of dictionary pages only, so there these columns do without a dictionary.
 */
public final class BloomWriteOptions implements FilterOptions {
  private static final String ENABLED = "parquet.bloom.filter.enabled";
  private static final String FPP = "parquet.bloom.filter.fpp";
  private static final String MAX_BYTES = "parquet.bloom.filter.max.bytes";
  private static final String NDV = "parquet.bloom.filter.expected.ndv";
  private static final String DICTIONARY = "parquet.enable.dictionary";
  private static final String ADAPTIVE = "parquet.bloom.filter.adaptive.enabled";
  private static final String CANDIDATES = "parquet.bloom.filter.candidates.number";

  /** Each is half as large as the one before, from the largest filter that there may be down to parquet-java's least, 1 KiB. */
  private static final String ENOUGH_CANDIDATES = "15";

  private static final String DEFAULT_FPP = "0.01";
  private static final String DEFAULT_MAX_BYTES = "16m";

  private final Map<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
  private final WrittenColumns columns;
  private final Map<String, String> settings = new TreeMap<>();
  private final Map<String, String> substitute = new TreeMap<>();
  private final Map<String, FilterPlan.Column> planned = new TreeMap<>();
  private final FilterPlan plan;

  private BloomWriteOptions(Map<String, String> options, StructType schema) {
    given.putAll(options);
    columns = WrittenColumns.of(schema);
    String fpp = given.get("bloomFpp");
    if (fpp != null) {
      WrittenColumns.fpp("bloomFpp", fpp);
      columns.stream().forEach(leaf -> settings.put(FPP + "#" + leaf.path(), fpp.trim()));
    }
    int maxBytes = maxBytes("bloomMaxBytes", given.getOrDefault("bloomMaxBytes", DEFAULT_MAX_BYTES));
    if (given.containsKey("bloomMaxBytes") && !given.containsKey(MAX_BYTES)) {
      settings.put(MAX_BYTES, String.valueOf(maxBytes));
    }
    if (given.containsKey("bloomColumns")) {
      columns.choose(given.get("bloomColumns"), this::mayProfit, (leaf, optional) -> add(leaf.path(), optional));
    }
    addParquetJavas();
    boolean byParquetJava = given.containsKey(MAX_BYTES) && !planned.isEmpty();
    plan =
        new FilterPlan(
            new HashMap<>(planned),
            byParquetJava ? maxBytes(MAX_BYTES, given.get(MAX_BYTES)) : maxBytes,
            byParquetJava ? MAX_BYTES : "bloomMaxBytes");
  }

  /**
   * Checks the options too, and throws {@link IllegalArgumentException}.
   *
   * @param options of a write, of which the keys may have been folded to lower case
   * @param schema of the files
   */
  public static BloomWriteOptions of(Map<String, String> options, StructType schema) {
    return new BloomWriteOptions(options, schema);
  }

  @Override
  public void applyTo(Configuration conf) {
    settings.forEach(conf::set);
    // parquet-java takes the filter of one for the other's where a name with a dot is also a path, and knows no setting
    // that is for such a name.
    if (conf.getBoolean(ENABLED, false) && !columns.stream().allMatch(this::isOnlyOne)) {
      conf.set(ENABLED, "false");
      columns.stream().filter(this::isOnlyOne).forEach(leaf -> conf.setIfUnset(ENABLED + "#" + leaf.path(), "true"));
    }
    columns.stream().filter(leaf -> !isOnlyOne(leaf)).forEach(leaf -> conf.set(ENABLED + "#" + leaf.path(), "false"));
  }

  @Override
  public OutputWriterFactory writers(OutputWriterFactory sparks, Configuration conf) {
    if (planned.isEmpty()) {
      return sparks;
    }
    if (columns.stream().anyMatch(leaf -> leaf.type() instanceof VariantType)) {
      // Spark looks at the first rows before it knows the schema of these files, with a writer of its own for that.
      substitute.forEach(conf::set);
      return sparks;
    }
    return new BloomWriterFactory(sparks, plan, substitute);
  }

  private void add(String path, boolean optional) {
    String told = given.get(ENABLED + "#" + path);
    boolean named = !optional || planned.containsKey(path) && !planned.get(path).optional();
    if (told != null && !Boolean.parseBoolean(told.trim())) {
      return;
    }
    Map<String, String> byParquetJava = new TreeMap<>();
    byParquetJava.put(ADAPTIVE, given.getOrDefault(ADAPTIVE, "true"));
    byParquetJava.put(ENABLED + "#" + path, "true");
    byParquetJava.put(CANDIDATES + "#" + path, given.getOrDefault(CANDIDATES, ENOUGH_CANDIDATES));
    if (named && !given.containsKey(DICTIONARY + "#" + path)) {
      byParquetJava.put(DICTIONARY + "#" + path, "false");
    }
    if (given.containsKey(ADAPTIVE) || given.containsKey(NDV + "#" + path) || given.containsKey(CANDIDATES + "#" + path)) {
      settings.putAll(byParquetJava);
      return;
    }
    String key = FPP + "#" + path;
    String fpp = given.getOrDefault(key, given.getOrDefault("bloomFpp", DEFAULT_FPP));
    double share = WrittenColumns.fpp(given.containsKey(key) ? key : "bloomFpp", fpp);
    planned.put(path, new FilterPlan.Column(share, !named));
    substitute.putAll(byParquetJava);
  }

  /** Spark folds keys to lower case, also behind the #, where parquet-java wants the column's own name. */
  private void addParquetJavas() {
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
    planned.keySet().forEach(path -> settings.put(ENABLED + "#" + path, "false"));
  }

  private boolean isOnlyOne(WrittenColumns.Leaf leaf) {
    return columns.stream().filter(other -> other.path().equals(leaf.path())).count() == 1;
  }

  private boolean mayProfit(WrittenColumns.Leaf leaf) {
    return leaf.refused() == null && leaf.lookedUp() && isOnlyOne(leaf);
  }

  /** The largest power of two that is not above what was given. */
  private static int maxBytes(String option, String given) {
    try {
      long bytes = JavaUtils.byteStringAsBytes(given.trim());
      if (bytes >= SplitBlocks.LEAST_BYTES && bytes <= SplitBlocks.MOST_BYTES) {
        return Integer.highestOneBit((int) bytes);
      }
    } catch (NumberFormatException error) {
      // told below
    }
    throw new IllegalArgumentException(
        "option " + option + " is '" + given + "'; expected a number of bytes from 32 to 128m, such as 16m");
  }
}
