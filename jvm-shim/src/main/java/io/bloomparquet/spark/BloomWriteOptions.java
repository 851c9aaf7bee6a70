package io.bloomparquet.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
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
final class BloomWriteOptions {
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
  private static final String EVERY = "*";

  private final Map<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
  private final List<Leaf> leaves = new ArrayList<>();
  private final Map<String, String> settings = new TreeMap<>();
  private final Map<String, String> substitute = new TreeMap<>();
  private final Map<String, FilterPlan.Column> planned = new TreeMap<>();
  private final FilterPlan plan;

  private BloomWriteOptions(Map<String, String> options, StructType schema) {
    given.putAll(options);
    leaves(schema, "", leaves);
    String fpp = given.get("bloomFpp");
    if (fpp != null) {
      checkFpp("bloomFpp", fpp);
      leaves.forEach(leaf -> settings.put(FPP + "#" + leaf.path(), fpp.trim()));
    }
    int maxBytes = maxBytes("bloomMaxBytes", given.getOrDefault("bloomMaxBytes", DEFAULT_MAX_BYTES));
    if (given.containsKey("bloomMaxBytes") && !given.containsKey(MAX_BYTES)) {
      settings.put(MAX_BYTES, String.valueOf(maxBytes));
    }
    String columns = given.get("bloomColumns");
    if (columns != null) {
      for (String column : columns.split(",", -1)) {
        if (column.trim().equals(EVERY)) {
          leaves.stream().filter(this::mayProfit).forEach(leaf -> add(leaf.path(), true));
        } else {
          add(leafOf(column.trim(), columns, schema, leaves), false);
        }
      }
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
  static BloomWriteOptions of(Map<String, String> options, StructType schema) {
    return new BloomWriteOptions(options, schema);
  }

  /** Sets what parquet-java is to do of itself. */
  void applyTo(Configuration conf) {
    settings.forEach(conf::set);
    // parquet-java takes the filter of one for the other's where a name with a dot is also a path, and knows no setting
    // that is for such a name.
    if (conf.getBoolean(ENABLED, false) && !leaves.stream().allMatch(this::isOnlyOne)) {
      conf.set(ENABLED, "false");
      leaves.stream().filter(this::isOnlyOne).forEach(leaf -> conf.setIfUnset(ENABLED + "#" + leaf.path(), "true"));
    }
    leaves.stream().filter(leaf -> !isOnlyOne(leaf)).forEach(leaf -> conf.set(ENABLED + "#" + leaf.path(), "false"));
  }

  /** Has filters made as planned in the files that {@code sparks} would write. */
  OutputWriterFactory writers(OutputWriterFactory sparks, Configuration conf) {
    if (planned.isEmpty()) {
      return sparks;
    }
    if (leaves.stream().anyMatch(Leaf::variant)) {
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
    checkFpp(given.containsKey(key) ? key : "bloomFpp", fpp);
    planned.put(path, new FilterPlan.Column(Double.parseDouble(fpp.trim()), !named));
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
            leaves.stream()
                .filter(leaf -> leaf.path().equalsIgnoreCase(named))
                .forEach(leaf -> settings.put(setting + "#" + leaf.path(), value));
          }
        });
    planned.keySet().forEach(path -> settings.put(ENABLED + "#" + path, "false"));
  }

  private boolean isOnlyOne(Leaf leaf) {
    return leaves.stream().filter(other -> other.path().equals(leaf.path())).count() == 1;
  }

  private boolean mayProfit(Leaf leaf) {
    return leaf.refused() == null && leaf.lookedUp() && isOnlyOne(leaf);
  }

  private static String leafOf(String column, String given, StructType schema, List<Leaf> leaves) {
    List<Leaf> found = leaves.stream().filter(leaf -> leaf.path().equals(column)).toList();
    if (found.isEmpty()) {
      found = leaves.stream().filter(leaf -> leaf.path().equalsIgnoreCase(column)).toList();
    }
    if (found.size() == 1 && found.get(0).refused() == null) {
      return found.get(0).path();
    }
    String problem;
    if (found.size() > 1) {
      problem = "which is one of several columns: " + found.stream().map(Leaf::path).collect(Collectors.joining(", "));
    } else if (found.size() == 1) {
      problem = "which " + found.get(0).refused();
    } else {
      problem =
          leaves.stream()
              .filter(leaf -> leaf.path().regionMatches(true, 0, column + ".", 0, column.length() + 1))
              .findFirst()
              .map(leaf -> leaf.refused() == null ? "which is a struct; name its fields" : "which " + leaf.refused())
              .orElse("and there is no such column in the files");
    }
    throw new IllegalArgumentException(
        String.format(
            "option bloomColumns is '%s' and names '%s', %s; expected some of: %s",
            given,
            column,
            problem,
            leaves.stream().filter(leaf -> leaf.refused() == null).map(Leaf::path).collect(Collectors.joining(", "))));
  }

  /**
   * A column of the files as parquet-java knows it.
   *
   * @param refused why its filters would serve nothing; null if they do
   */
  private record Leaf(String path, DataType type, String refused) {
    boolean variant() {
      return type instanceof VariantType;
    }

    /** Whether people look for values of this type, and equal values are of equal bytes. */
    boolean lookedUp() {
      return type instanceof StringType string
          ? string.supportsBinaryEquality()
          : LOOKED_UP.stream().anyMatch(each -> each.isInstance(type));
    }
  }

  /** Not FLOAT and DOUBLE: their values are measured, and hardly looked for. */
  private static final Set<Class<? extends DataType>> LOOKED_UP =
      Set.of(
          ByteType.class,
          ShortType.class,
          IntegerType.class,
          LongType.class,
          DecimalType.class,
          BinaryType.class,
          DateType.class,
          TimestampType.class,
          TimestampNTZType.class);

  private static void leaves(StructType struct, String prefix, List<Leaf> found) {
    for (StructField field : struct.fields()) {
      leaves(field.dataType(), prefix + field.name(), null, found);
    }
  }

  private static void leaves(DataType type, String path, String refused, List<Leaf> found) {
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        leaves(field.dataType(), path + "." + field.name(), refused, found);
      }
    } else if (type instanceof ArrayType array) {
      leaves(array.elementType(), path + ".list.element", "is a list; filters on elements prune nothing", found);
    } else if (type instanceof MapType map) {
      String reason = "is a map; filters on keys and values prune nothing";
      leaves(map.keyType(), path + ".key_value.key", reason, found);
      leaves(map.valueType(), path + ".key_value.value", reason, found);
    } else if (type instanceof UserDefinedType<?> user) {
      leaves(user.sqlType(), path, refused, found);
    } else if (type instanceof VariantType) {
      found.add(new Leaf(path, type, "is VARIANT, of which no filter is used"));
    } else {
      String bool = "is BOOLEAN, for which parquet-java's filters are empty";
      found.add(new Leaf(path, type, refused == null && type instanceof BooleanType ? bool : refused));
    }
  }

  private static void checkFpp(String option, String fpp) {
    try {
      double found = Double.parseDouble(fpp.trim());
      if (found > 0 && found < 1) {
        return;
      }
    } catch (NumberFormatException error) {
      // told below
    }
    throw new IllegalArgumentException("option " + option + " is '" + fpp + "'; expected a number between 0 and 1");
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
