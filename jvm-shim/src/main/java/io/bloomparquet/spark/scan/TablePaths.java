package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The paths of a load, which Spark passes as the options {@code path} and {@code paths}. */
final class TablePaths {
  private static final ObjectMapper JSON = new ObjectMapper();

  private TablePaths() {}

  static List<String> of(CaseInsensitiveStringMap options) {
    List<String> paths = new ArrayList<>();
    String json = options.get("paths");
    if (json != null) {
      try {
        paths.addAll(Arrays.asList(JSON.readValue(json, String[].class)));
      } catch (JsonProcessingException error) {
        throw new IllegalArgumentException(
            "option paths is " + json + "; expected a JSON list of paths", error);
      }
    }
    if (options.get("path") != null) {
      paths.add(options.get("path"));
    }
    return paths;
  }

  static CaseInsensitiveStringMap without(CaseInsensitiveStringMap options) {
    Map<String, String> rest = new HashMap<>(options.asCaseSensitiveMap());
    rest.keySet().removeIf(key -> key.equalsIgnoreCase("path") || key.equalsIgnoreCase("paths"));
    return new CaseInsensitiveStringMap(rest);
  }
}
