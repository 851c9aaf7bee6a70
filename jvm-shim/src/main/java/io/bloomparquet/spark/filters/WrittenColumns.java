package io.bloomparquet.spark.filters;

import io.bloomparquet.spark.support.OptionNames;
import io.bloomparquet.spark.support.SparkVersions;
import java.util.ArrayList;
import java.util.List;
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

/** The leaf columns of files to be written, and the choice of columns that get a filter. */
record WrittenColumns(List<Leaf> leaves) {
  private static final String EVERY = "*";

  /**
   * A leaf column.
   *
   * @param path the names, joined by dots
   * @param noFilterReason why a filter would be of no use; null if it can be used
   */
  record Leaf(String path, DataType type, String noFilterReason) {

    /** Whether a star stands for the column: its type is looked up by equality, and equal values have equal bytes. */
    boolean mayProfit() {
      return noFilterReason == null
          && (type instanceof StringType string
              ? SparkVersions.isBinary(string)
              : LOOKED_UP.stream().anyMatch(each -> each.isInstance(type)));
    }

    Leaf withoutFilter(String reason) {
      return new Leaf(path, type, reason);
    }
  }

  /** Without FLOAT and DOUBLE: these are rarely looked up by equality. */
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

  /** The leaf columns in the order of the schema. Paths into lists and maps are as in Parquet. */
  static WrittenColumns of(StructType schema) {
    List<Leaf> leaves = new ArrayList<>();
    for (StructField field : schema.fields()) {
      add(field.dataType(), field.name(), null, leaves);
    }
    return new WrittenColumns(leaves);
  }

  private static void add(DataType type, String path, String noFilterReason, List<Leaf> leaves) {
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        add(field.dataType(), path + "." + field.name(), noFilterReason, leaves);
      }
    } else if (type instanceof ArrayType array) {
      add(array.elementType(), path + ".list.element", "is a list; this option makes no filters of elements", leaves);
    } else if (type instanceof MapType map) {
      String reason = "is a map; this option makes no filters of keys and values";
      add(map.keyType(), path + ".key_value.key", reason, leaves);
      add(map.valueType(), path + ".key_value.value", reason, leaves);
    } else if (type instanceof UserDefinedType<?> user) {
      add(user.sqlType(), path, noFilterReason, leaves);
    } else if (SparkVersions.isVariant(type)) {
      leaves.add(new Leaf(path, type, "is VARIANT; filters on it cannot be used to skip"));
    } else {
      String reason = type instanceof BooleanType ? "is BOOLEAN; parquet-java writes empty filters for it" : null;
      leaves.add(new Leaf(path, type, noFilterReason == null ? reason : noFilterReason));
    }
  }

  WrittenColumns map(UnaryOperator<Leaf> change) {
    return new WrittenColumns(leaves.stream().map(change).toList());
  }

  Stream<Leaf> stream() {
    return leaves.stream();
  }

  /**
   * Takes the columns that the option {@code bloomColumns} names.
   *
   * @param option the option's text
   * @param mayProfit the columns for which a star stands
   * @param take gets each column, and whether it is optional: named by a star only
   * @throws IllegalArgumentException for a name that is not a column, or whose filter would be of no use
   */
  void choose(String option, Predicate<Leaf> mayProfit, BiConsumer<Leaf, Boolean> take) {
    for (String name : option.split(",", -1)) {
      if (name.trim().equals(EVERY)) {
        leaves.stream().filter(mayProfit).forEach(leaf -> take.accept(leaf, true));
      } else {
        take.accept(named(name.trim(), option), false);
      }
    }
  }

  private Leaf named(String name, String option) {
    List<Leaf> matches = leaves.stream().filter(leaf -> leaf.path().equals(name)).toList();
    if (matches.isEmpty()) {
      matches = leaves.stream().filter(leaf -> leaf.path().equalsIgnoreCase(name)).toList();
    }
    if (matches.size() == 1 && matches.get(0).noFilterReason() == null) {
      return matches.get(0);
    }
    List<String> choices = leaves.stream().filter(leaf -> leaf.noFilterReason() == null).map(Leaf::path).toList();
    String expected =
        choices.isEmpty() ? "no column here can have a filter" : "expected some of: " + String.join(", ", choices);
    throw new IllegalArgumentException(
        String.format(
            "option bloomColumns is '%s' and names '%s', %s; %s",
            option, name, problem(name, matches, choices), expected));
  }

  private String problem(String name, List<Leaf> matches, List<String> choices) {
    if (matches.size() > 1) {
      return "which is one of several columns: " + matches.stream().map(Leaf::path).collect(Collectors.joining(", "));
    }
    if (matches.size() == 1) {
      return "which " + matches.get(0).noFilterReason();
    }
    return leaves.stream()
        .filter(leaf -> leaf.path().regionMatches(true, 0, name + ".", 0, name.length() + 1))
        .findFirst()
        .map(leaf -> leaf.noFilterReason() == null ? "is a struct; name its fields" : leaf.noFilterReason())
        .map(reason -> "which " + reason)
        .orElseGet(
            () ->
                "and the files will have no such column"
                    + OptionNames.nearest(name, choices).map(each -> "; did you mean '" + each + "'?").orElse(""));
  }
}
