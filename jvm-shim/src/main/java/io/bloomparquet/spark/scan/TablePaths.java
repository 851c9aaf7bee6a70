package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Where a table's files lie: the options {@code path} and {@code paths}, by which Spark hands over load's arguments. */
final class TablePaths {
  private static final ObjectMapper JSON = new ObjectMapper();

  private TablePaths() {}

  static List<String> of(CaseInsensitiveStringMap options) {
    List<String> found = new ArrayList<>();
    String several = options.get("paths");
    if (several != null) {
      try {
        found.addAll(Arrays.asList(JSON.readValue(several, String[].class)));
      } catch (JsonProcessingException error) {
        throw new IllegalArgumentException(
            "option paths is " + several + "; expected a JSON list of paths", error);
      }
    }
    if (options.get("path") != null) {
      found.add(options.get("path"));
    }
    return found;
  }

  static CaseInsensitiveStringMap without(CaseInsensitiveStringMap options) {
    Map<String, String> rest = new HashMap<>(options.asCaseSensitiveMap());
    rest.keySet().removeIf(key -> key.equalsIgnoreCase("path") || key.equalsIgnoreCase("paths"));
    return new CaseInsensitiveStringMap(rest);
  }
}
