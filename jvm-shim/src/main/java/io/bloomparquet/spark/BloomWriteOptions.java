package io.bloomparquet.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.VariantType;

/**
 * Which columns get Bloom filters, in short words: {@code bloomColumns="user_id,address.city"}, {@code bloomFpp=0.01}. They
 * become parquet-java's {@code parquet.bloom.filter.enabled#user_id} and so on, and what else it takes for every row group
 * to have a filter of the right size:
 *
 * <ul>
 *   <li>no dictionary for these columns: for a chunk of dictionary pages only, parquet-java writes no filter. The price is
 *       size where there are few values (500 different strings in 200,000 rows: 182 KB, not 103 KB), and nothing where there
 *       are many;
 *   <li>filters that adapt to the values: 1 KiB for these 500 strings, 256 KiB for 200,000, where parquet-java by itself
 *       takes 1 MiB for each.
 * </ul>
 *
 * <p>parquet-java's own options may be given as well, and win.
 */
final class BloomWriteOptions {
  private static final String ENABLED = "parquet.bloom.filter.enabled";
  private static final String FPP = "parquet.bloom.filter.fpp";
  private static final String DICTIONARY = "parquet.enable.dictionary";
  private static final String ADAPTIVE = "parquet.bloom.filter.adaptive.enabled";
  private static final String CANDIDATES = "parquet.bloom.filter.candidates.number";

  /** Each is half as large as the one before, from the largest filter that there may be down to parquet-java's least, 1 KiB. */
  private static final String ENOUGH_CANDIDATES = "15";

  private final Map<String, String> settings = new TreeMap<>();

  private BloomWriteOptions() {}

  /**
   * Checks the options too, and throws {@link IllegalArgumentException}.
   *
   * @param options of a write, of which the keys may have been folded to lower case
   * @param schema of the files
   */
  static BloomWriteOptions of(Map<String, String> options, StructType schema) {
    Map<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    given.putAll(options);
    BloomWriteOptions found = new BloomWriteOptions();
    String fpp = given.get("bloomFpp");
    List<Leaf> leaves = new ArrayList<>();
    leaves(schema, "", leaves);
    if (fpp != null) {
      checkFpp(fpp);
      leaves.forEach(leaf -> found.settings.put(FPP + "#" + leaf.path(), fpp.trim()));
    }
    String columns = given.get("bloomColumns");
    if (columns != null) {
      found.settings.put(ADAPTIVE, given.getOrDefault(ADAPTIVE, "true"));
      for (String column : columns.split(",", -1)) {
        String leaf = leafOf(column.trim(), columns, schema, leaves);
        found.settings.put(ENABLED + "#" + leaf, "true");
        found.settings.put(DICTIONARY + "#" + leaf, "false");
        found.settings.put(CANDIDATES + "#" + leaf, given.getOrDefault(CANDIDATES, ENOUGH_CANDIDATES));
      }
    }
    // Spark folds keys to lower case, also behind the #, where parquet-java wants the column's own name.
    given.forEach(
        (key, value) -> {
          int mark = key.indexOf('#');
          if (mark > 0 && key.regionMatches(true, 0, "parquet.", 0, "parquet.".length())) {
            String setting = key.substring(0, mark).toLowerCase(Locale.ROOT);
            String named = key.substring(mark + 1);
            leaves.stream()
                .filter(leaf -> leaf.path().equalsIgnoreCase(named))
                .forEach(leaf -> found.settings.put(setting + "#" + leaf.path(), value));
          }
        });
    return found;
  }

  void applyTo(Configuration conf) {
    settings.forEach(conf::set);
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
  private record Leaf(String path, String refused) {}

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
      found.add(new Leaf(path, "is VARIANT, of which no filter is used"));
    } else {
      String bool = "is BOOLEAN, for which parquet-java's filters are empty";
      found.add(new Leaf(path, refused == null && type instanceof BooleanType ? bool : refused));
    }
  }

  private static void checkFpp(String fpp) {
    try {
      double found = Double.parseDouble(fpp.trim());
      if (found > 0 && found < 1) {
        return;
      }
    } catch (NumberFormatException error) {
      // told below
    }
    throw new IllegalArgumentException("option bloomFpp is '" + fpp + "'; expected a number between 0 and 1");
  }
}
