package io.bloomparquet.spark.scan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What a table is made of. Spark passes the paths of a load as the options {@code path} and {@code paths}.
 *
 * @param properties the options of the table itself, with its paths
 * @param options the options of the table and of the session, with the paths
 * @param schema the user's or the catalog's schema; null to infer it
 * @param partitioning the partitioning that the catalog declares; null without a catalog
 * @param fallback the file format by which Spark reads and writes the files itself
 * @param installRules adds our optimizer rules to a session
 */
public record TableDefinition(
    SparkSession session,
    CaseInsensitiveStringMap properties,
    CaseInsensitiveStringMap options,
    StructType schema,
    Transform[] partitioning,
    Class<? extends FileFormat> fallback,
    Consumer<SparkSession> installRules) {
  private static final ObjectMapper JSON = new ObjectMapper();

  List<String> paths() {
    List<String> paths = new ArrayList<>();
    String json = options.get("paths");
    if (json != null) {
      try {
        paths.addAll(List.of(JSON.readValue(json, String[].class)));
      } catch (JsonProcessingException error) {
        throw new IllegalArgumentException("option paths is " + json + "; expected a JSON list of paths", error);
      }
    }
    if (options.get("path") != null) {
      paths.add(options.get("path"));
    }
    return paths;
  }

  static CaseInsensitiveStringMap withoutPaths(CaseInsensitiveStringMap options) {
    Map<String, String> others = new HashMap<>(options.asCaseSensitiveMap());
    others.keySet().removeIf(key -> key.equalsIgnoreCase("path") || key.equalsIgnoreCase("paths"));
    return new CaseInsensitiveStringMap(others);
  }
}
