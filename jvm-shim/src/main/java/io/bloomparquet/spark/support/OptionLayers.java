package io.bloomparquet.spark.support;

import java.util.Map;
import java.util.TreeMap;

/** Options that come from several places. Their keys are the same in any case, as for Spark. */
public final class OptionLayers {
  private OptionLayers() {}

  /** All options of all {@code layers}; a later one wins. */
  @SafeVarargs
  public static Map<String, String> of(Map<String, String>... layers) {
    Map<String, String> found = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    for (Map<String, String> layer : layers) {
      found.putAll(layer);
    }
    return found;
  }
}
