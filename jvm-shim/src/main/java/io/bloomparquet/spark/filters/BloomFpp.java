package io.bloomparquet.spark.filters;

import java.util.Map;
import java.util.OptionalDouble;

/**
 * The option {@code bloomFpp}: a false positive probability, or {@code auto} for one that suits the size of the table.
 *
 * <p>A lookup of one value reads, without need, as many row groups as the probabilities of all filters sum up to. With
 * {@code auto} that is about one for a table of {@code bloomRowGroups} row groups. A write sees only its own rows, and
 * tables grow, so the user gives the number of the whole table.
 */
final class BloomFpp {
  private static final String AUTO = "auto";
  private static final double MAX_AUTO_FPP = 0.01;
  private static final double MIN_AUTO_FPP = 1e-6;

  /** Over a terabyte of row groups of Spark's default size. */
  private static final String DEFAULT_ROW_GROUPS = "10000";

  private BloomFpp() {}

  /**
   * The probability, if the option is given.
   *
   * @param given options of a write, by names of any case
   * @throws IllegalArgumentException for a wrong value
   */
  static OptionalDouble of(Map<String, String> given) {
    double auto = Math.min(Math.max(1.0 / rowGroups(given), MIN_AUTO_FPP), MAX_AUTO_FPP);
    String fpp = given.get("bloomFpp");
    if (fpp == null) {
      return OptionalDouble.empty();
    }
    return OptionalDouble.of(fpp.trim().equalsIgnoreCase(AUTO) ? auto : parse("bloomFpp", fpp, ", or auto"));
  }

  /** Parses a probability for one column, in an option of parquet-java. */
  static double ofColumn(String option, String given) {
    return parse(option, given, "");
  }

  private static double parse(String option, String given, String alternative) {
    try {
      double fpp = Double.parseDouble(given.trim());
      if (fpp > 0 && fpp < 1) {
        return fpp;
      }
    } catch (NumberFormatException error) {
      // thrown below
    }
    throw new IllegalArgumentException(
        "option " + option + " is '" + given + "'; expected a number between 0 and 1" + alternative);
  }

  private static long rowGroups(Map<String, String> given) {
    String text = given.getOrDefault("bloomRowGroups", DEFAULT_ROW_GROUPS);
    try {
      long rowGroups = Long.parseLong(text.trim());
      if (rowGroups > 0) {
        return rowGroups;
      }
    } catch (NumberFormatException error) {
      // thrown below
    }
    throw new IllegalArgumentException(
        String.format(
            "option bloomRowGroups is '%s'; expected the number of row groups that the whole table will have, such as "
                + "%s",
            text, DEFAULT_ROW_GROUPS));
  }
}
