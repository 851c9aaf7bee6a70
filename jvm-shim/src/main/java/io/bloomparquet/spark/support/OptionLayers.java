package io.bloomparquet.spark.support;

import java.util.Map;
import java.util.TreeMap;

/** Merges options of several sources: a session, a table, a load. Names ignore case, as in Spark. */
public final class OptionLayers {
  private OptionLayers() {}

  /** The options of all layers. A later layer overrides an earlier one. */
  @SafeVarargs
  public static Map<String, String> of(Map<String, String>... layers) {
    Map<String, String> options = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    for (Map<String, String> layer : layers) {
      options.putAll(layer);
    }
    return options;
  }
}
