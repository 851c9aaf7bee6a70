package io.bloomparquet.spark.filters;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
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
import org.apache.spark.unsafe.types.UTF8String;

/** The columns of files that are to be written, as the options of filters name them. */
record WrittenColumns(List<Leaf> leaves) {
  private static final String EVERY = "*";

  /**
   * A column that has values itself.
   *
   * @param path its names, joined by dots
   * @param refused why a filter of its would serve nothing; null if it may
   */
  record Leaf(String path, DataType type, String refused) {

    /** Whether people look for values of this type, and equal values are of equal bytes. */
    boolean lookedUp() {
      return type instanceof StringType string
          ? string.supportsBinaryEquality()
          : LOOKED_UP.stream().anyMatch(each -> each.isInstance(type));
    }

    Leaf refused(String why) {
      return new Leaf(path, type, why);
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

  /** In the order of the files. Elements of lists and maps have paths as in Parquet, and are refused. */
  static WrittenColumns of(StructType schema) {
    List<Leaf> found = new ArrayList<>();
    for (StructField field : schema.fields()) {
      add(field.dataType(), field.name(), null, found);
    }
    return new WrittenColumns(found);
  }

  private static void add(DataType type, String path, String refused, List<Leaf> found) {
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        add(field.dataType(), path + "." + field.name(), refused, found);
      }
    } else if (type instanceof ArrayType array) {
      add(array.elementType(), path + ".list.element", "is a list; filters on elements prune nothing", found);
    } else if (type instanceof MapType map) {
      String reason = "is a map; filters on keys and values prune nothing";
      add(map.keyType(), path + ".key_value.key", reason, found);
      add(map.valueType(), path + ".key_value.value", reason, found);
    } else if (type instanceof UserDefinedType<?> user) {
      add(user.sqlType(), path, refused, found);
    } else if (type instanceof VariantType) {
      found.add(new Leaf(path, type, "is VARIANT, of which no filter is used"));
    } else {
      String bool = "is BOOLEAN, whose filters are written empty";
      found.add(new Leaf(path, type, refused == null && type instanceof BooleanType ? bool : refused));
    }
  }

  /** The same columns in the same order, each as {@code change} has it. */
  WrittenColumns changed(UnaryOperator<Leaf> change) {
    return new WrittenColumns(leaves.stream().map(change).toList());
  }

  Stream<Leaf> stream() {
    return leaves.stream();
  }

  /**
   * Takes the columns that the option {@code bloomColumns} names, and whether only by a star.
   *
   * @param given the option's text
   * @param mayProfit the columns that a star stands for
   * @throws IllegalArgumentException for a name that is none of a column with use for a filter
   */
  void choose(String given, Predicate<Leaf> mayProfit, BiConsumer<Leaf, Boolean> take) {
    for (String column : given.split(",", -1)) {
      if (column.trim().equals(EVERY)) {
        leaves.stream().filter(mayProfit).forEach(leaf -> take.accept(leaf, true));
      } else {
        take.accept(named(column.trim(), given), false);
      }
    }
  }

  private Leaf named(String column, String given) {
    List<Leaf> found = leaves.stream().filter(leaf -> leaf.path().equals(column)).toList();
    if (found.isEmpty()) {
      found = leaves.stream().filter(leaf -> leaf.path().equalsIgnoreCase(column)).toList();
    }
    if (found.size() == 1 && found.get(0).refused() == null) {
      return found.get(0);
    }
    List<String> choices = leaves.stream().filter(leaf -> leaf.refused() == null).map(Leaf::path).toList();
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
              .orElse("and there is no such column in the files" + nearest(column, choices));
    }
    throw new IllegalArgumentException(
        String.format(
            "option bloomColumns is '%s' and names '%s', %s; %s",
            given,
            column,
            problem,
            choices.isEmpty() ? "no column here can have one" : "expected some of: " + String.join(", ", choices)));
  }

  private static String nearest(String column, List<String> choices) {
    UTF8String asked = UTF8String.fromString(column.toLowerCase(Locale.ROOT));
    return choices.stream()
        .min(Comparator.comparingInt(each -> distance(asked, each)))
        .filter(each -> distance(asked, each) <= 1 + column.length() / 3)
        .map(each -> "; did you mean '" + each + "'?")
        .orElse("");
  }

  private static int distance(UTF8String asked, String choice) {
    return asked.levenshteinDistance(UTF8String.fromString(choice.toLowerCase(Locale.ROOT)));
  }

  /** The number; {@link IllegalArgumentException} for what is no share of false positives. */
  static double fpp(String option, String given) {
    try {
      double found = Double.parseDouble(given.trim());
      if (found > 0 && found < 1) {
        return found;
      }
    } catch (NumberFormatException error) {
      // told below
    }
    throw new IllegalArgumentException("option " + option + " is '" + given + "'; expected a number between 0 and 1");
  }
}
