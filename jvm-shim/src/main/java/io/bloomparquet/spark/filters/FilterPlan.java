package io.bloomparquet.spark.filters;

import java.io.Serializable;
import java.util.Map;

/**
 * The filters that we make for the files of a write.
 *
 * @param columns by path, joined by dots as in parquet-java
 * @param maxBytes the largest filter, a power of two
 * @param maxBytesOption the option that sets {@code maxBytes}
 */
record FilterPlan(Map<String, Column> columns, int maxBytes, String maxBytesOption) implements Serializable {

  /**
   * @param fpp the false positive probability to aim at
   * @param optional whether to leave out the filter of a row group where it would be of little use
   */
  record Column(double fpp, boolean optional) implements Serializable {}
}
