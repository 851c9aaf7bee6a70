package io.bloomparquet.spark.support;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options from the session's settings, such as {@code spark.datasource.bloomparquet.planning=off}. */
public final class SessionOptions {
  private SessionOptions() {}

  /**
   * The session's options of a format: settings {@code spark.datasource.<format>.<option>}. Throws {@link
   * IllegalArgumentException} for an unknown option, and for {@code where}.
   */
  public static Map<String, String> of(SparkSession session, FileFormat format) {
    String prefix = "spark.datasource." + format.source() + ".";
    Map<String, String> options = new HashMap<>();
    Scala.map(session.sessionState().conf().getAllConfs())
        .forEach(
            (name, value) -> {
              if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), value);
              }
            });
    try {
      refuseWhere(options, "belongs to one load, not to a session");
      OptionNames.check(format, options);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException("in the session's settings " + prefix + "*: " + error.getMessage(), error);
    }
    return OptionNames.merge(options);
  }

  /** The options of the session, overridden by {@code options}. */
  public static CaseInsensitiveStringMap with(
      SparkSession session, FileFormat format, CaseInsensitiveStringMap options) {
    return new CaseInsensitiveStringMap(OptionNames.merge(of(session, format), options.asCaseSensitiveMap()));
  }

  /** Throws {@link IllegalArgumentException} if the options have {@code where}. */
  public static void refuseWhere(Map<String, String> options, String reason) {
    if (OptionNames.merge(options).containsKey("where")) {
      throw new IllegalArgumentException("option where " + reason);
    }
  }
}
