package io.bloomparquet.spark.planner;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.MapType;

/** Tells which casts map different values to different values, and keep their order. */
public final class LosslessCast {
  private LosslessCast() {}

  /** Whether the cast keeps every value. From BIGINT to DOUBLE it does not: several values become one. */
  public static boolean isLossless(DataType from, DataType to) {
    if (from instanceof ArrayType before && to instanceof ArrayType after) {
      return isLossless(before.elementType(), after.elementType());
    }
    if (from instanceof MapType before && to instanceof MapType after) {
      return isLossless(before.keyType(), after.keyType()) && isLossless(before.valueType(), after.valueType());
    }
    if (to instanceof DecimalType decimal) {
      return (from instanceof IntegralType || from instanceof DecimalType) && decimal.isWiderThan(from);
    }
    if (from instanceof IntegralType && to instanceof IntegralType) {
      return from.defaultSize() <= to.defaultSize();
    }
    if (from instanceof IntegralType && (to instanceof FloatType || to instanceof DoubleType)) {
      return from.defaultSize() < to.defaultSize();
    }
    return from.equals(to) || (from instanceof FloatType && to instanceof DoubleType);
  }
}
