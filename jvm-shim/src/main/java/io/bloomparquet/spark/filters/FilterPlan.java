package io.bloomparquet.spark.filters;

import java.io.Serializable;
import java.util.Map;

/**
 * Which filters a write makes itself.
 *
 * @param columns by their paths, joined by dots as parquet-java does it
 * @param maxBytes of one filter, a power of two
 * @param maxBytesOption what the user would have to set for more
 */
record FilterPlan(Map<String, Column> columns, int maxBytes, String maxBytesOption) implements Serializable {

  /**
   * @param fpp the share of false positives to aim at
   * @param optional whether row groups do without, in which a filter would be of little use
   */
  record Column(double fpp, boolean optional) implements Serializable {}
}
