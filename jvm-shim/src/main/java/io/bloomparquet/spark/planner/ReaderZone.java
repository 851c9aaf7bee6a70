package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.TimeZone;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.types.DataTypes;

/**
 * The time zone in which ORC's reader interprets a TIMESTAMP. ORC stores local time. Its reader takes it for local time
 * in the default zone of its JVM, which is the executor's; the session's zone plays no part.
 */
final class ReaderZone {
  private static final Pattern SET = Pattern.compile("(?:^|\\s)-Duser\\.timezone=(\\S+)");

  private ReaderZone() {}

  /** Null if unknown: remote executors may have any zone, unless their options set one. */
  static TimeZone of(SparkContext context) {
    return context.isLocal() ? TimeZone.getDefault() : ofExecutors(context.getConf());
  }

  /** Spark appends the user's options to the defaults, and the JVM takes the last value. */
  static TimeZone ofExecutors(SparkConf conf) {
    String options =
        conf.get("spark.executor.defaultJavaOptions", "") + " " + conf.get("spark.executor.extraJavaOptions", "");
    String zone = null;
    for (Matcher matcher = SET.matcher(options); matcher.find(); ) {
      zone = matcher.group(1);
    }
    return zone == null ? null : TimeZone.getTimeZone(zone);
  }

  /**
   * Adds the zone's name to a request, and its offset from UTC (ms) at each timestamp of {@code predicate}: the
   * planner's time zone database may be of another version.
   */
  static void addTo(ObjectNode request, TimeZone zone, PlannerPredicate predicate) {
    request.put("timeZone", zone == null ? null : zone.toZoneId().getId());
    ArrayNode offsets = request.putArray("offsets");
    if (zone != null) {
      predicate.judged()
          .filter(leaf -> PlannerValue.typeName(DataTypes.TimestampType).equals(leaf.type()))
          .flatMap(leaf -> leaf.values().stream())
          .filter(value -> !value.isNull())
          .mapToLong(JsonNode::asLong)
          .forEach(micros -> offsets.addArray().add(micros).add(zone.getOffset(Math.floorDiv(micros, 1000))));
    }
  }
}
