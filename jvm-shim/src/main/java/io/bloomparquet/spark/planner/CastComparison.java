package io.bloomparquet.spark.planner;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.LocalDate;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;

/**
 * A comparison that a column must pass, so that a comparison of its cast to another type can be TRUE. It is for casts
 * that do not keep every value, and that Spark leaves in place.
 *
 * @param op {@code =}, {@code in}, {@code <=>}, {@code <}, {@code <=}, {@code >} or {@code >=}
 * @param type of the values, which are compared as they are
 */
record CastComparison(String op, DataType type, List<Object> values) {
  private static final Pattern INTEGER = Pattern.compile("0|-?[1-9][0-9]{0,17}");
  private static final Pattern DATE = Pattern.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}");

  /** Spark divides two rounded numbers. Each step is off by at most half a unit in the last place. */
  private static final int ULPS = 4;

  private static final double LARGEST = 1e18;
  private static final int MOST_VALUES = 16;

  /** Comparisons of the column under {@code cast}, all of which hold; empty if none is known. */
  static List<CastComparison> of(Cast cast, String op, List<Object> values) {
    DataType from = cast.child().dataType();
    DataType to = cast.dataType();
    boolean isEquality = op.equals("=") || op.equals("in") || op.equals("<=>");
    if (op.equals("<=>") && values.contains(null)) {
      return List.of(); // a cast may make NULL of a value
    }
    if (to.equals(DataTypes.StringType) && isEquality) {
      return ofText(op, from, values);
    }
    if (holdsOrFails(from, to, cast)) {
      return List.of(new CastComparison(op, to, values));
    }
    boolean isRounded = to instanceof DoubleType || to instanceof FloatType;
    if (!isRounded || !(from instanceof IntegralType || from instanceof DecimalType)) {
      return List.of();
    }
    int scale = from instanceof DecimalType decimal ? decimal.scale() : 0;
    return ofRounded(op, isEquality, scale, to instanceof FloatType, values);
  }

  /** Whether the cast gives an equal value; or NULL or an error, if the type cannot hold the value. */
  private static boolean holdsOrFails(DataType from, DataType to, Cast cast) {
    if (to instanceof DecimalType decimal) {
      return from instanceof IntegralType && decimal.scale() >= 0
          || from instanceof DecimalType before && before.scale() <= decimal.scale();
    }
    return from instanceof IntegralType && to instanceof IntegralType && cast.evalMode() != EvalMode.LEGACY();
  }

  /** A number or a date has one text. */
  private static List<CastComparison> ofText(String op, DataType from, List<Object> texts) {
    boolean isDate = from instanceof DateType;
    if (!isDate && !(from instanceof IntegralType)) {
      return List.of();
    }
    List<Object> values = new ArrayList<>();
    for (Object text : texts) {
      boolean isKnown = text != null && (isDate ? DATE : INTEGER).matcher(text.toString()).matches();
      if (text == null) {
        values.add(null);
      } else if (isKnown && isDate) {
        try {
          values.add((int) LocalDate.parse(text.toString()).toEpochDay());
        } catch (DateTimeParseException noSuchDay) {
          return List.of();
        }
      } else if (isKnown) {
        values.add(Long.parseLong(text.toString()));
      } else if (isDate || text.toString().length() > 18) {
        return List.of(); // such as a date after the year 9999, whose text begins with +
      }
    }
    DataType type = isDate ? from : DataTypes.LongType;
    boolean isSingle = !op.equals("in") && values.size() == 1;
    return List.of(new CastComparison(isSingle ? op : "in", type, values));
  }

  /** The numbers of {@code scale} that may be rounded to one of {@code values}. */
  private static List<CastComparison> ofRounded(
      String op, boolean isEquality, int scale, boolean isFloat, List<Object> values) {
    List<Object> candidates = new ArrayList<>();
    for (Object value : values) {
      if (value == null && op.equals("in")) {
        continue; // no row equals NULL
      }
      double number = value instanceof Number given ? given.doubleValue() : Double.NaN;
      if (!(Math.abs(number) < LARGEST)) {
        return List.of();
      }
      double ulp = isFloat ? Math.ulp((float) number) : Math.ulp(number);
      BigDecimal margin = new BigDecimal(ulp).multiply(BigDecimal.valueOf(ULPS));
      BigDecimal first = new BigDecimal(number).subtract(margin).setScale(scale, RoundingMode.CEILING);
      BigDecimal last = new BigDecimal(number).add(margin).setScale(scale, RoundingMode.FLOOR);
      if (Math.max(first.precision(), last.precision()) > DecimalType.MAX_PRECISION()) {
        return List.of();
      }
      if (!isEquality) {
        boolean isUpper = op.equals("<") || op.equals("<=");
        return List.of(isUpper ? bound("<=", last) : bound(">=", first));
      }
      if (last.subtract(first).compareTo(BigDecimal.valueOf(MOST_VALUES, scale)) > 0) {
        return values.size() == 1 ? List.of(bound(">=", first), bound("<=", last)) : List.of();
      }
      for (; first.compareTo(last) <= 0; first = first.add(BigDecimal.valueOf(1, scale))) {
        candidates.add(Decimal.apply(first));
      }
    }
    return List.of(new CastComparison("in", DecimalType.SYSTEM_DEFAULT(), candidates));
  }

  private static CastComparison bound(String op, BigDecimal value) {
    return new CastComparison(op, DecimalType.SYSTEM_DEFAULT(), List.of(Decimal.apply(value)));
  }
}
