package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.TimeZone;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.types.DataTypes;

/**
 * The zone of the clock that shows a TIMESTAMP of ORC: the reader's JVM has it, which is the executor's, whatever zone
 * the session has. Such a timestamp is what a clock showed where it was written, and is taken for the moment at which the
 * reader's clock shows the same.
 */
final class ReaderZone {
  private static final Pattern SET = Pattern.compile("(?:^|\\s)-Duser\\.timezone=(\\S+)");

  private ReaderZone() {}

  /** Null where it is not known, as executors elsewhere may have any unless their options name one. */
  static TimeZone of(SparkContext context) {
    return context.isLocal() ? TimeZone.getDefault() : ofExecutors(context.getConf());
  }

  /** As Spark hands them to executors: the user's behind the defaults, and of two the JVM takes the last. */
  static TimeZone ofExecutors(SparkConf conf) {
    String options =
        conf.get("spark.executor.defaultJavaOptions", "") + " " + conf.get("spark.executor.extraJavaOptions", "");
    String found = null;
    for (Matcher matcher = SET.matcher(options); matcher.find(); ) {
      found = matcher.group(1);
    }
    return found == null ? null : TimeZone.getTimeZone(found);
  }

  /**
   * Tells the planner of the clock: the zone's name, and by how many milliseconds it is ahead of UTC at each moment of
   * {@code predicate}, for what the planner knows of zones may be of another year.
   */
  static void tell(TimeZone zone, JsonNode predicate, ObjectNode request) {
    request.put("timeZone", zone == null ? null : zone.toZoneId().getId());
    ArrayNode offsets = request.putArray("offsets");
    if (zone != null) {
      tell(zone, predicate, offsets);
    }
  }

  private static void tell(TimeZone zone, JsonNode node, ArrayNode offsets) {
    if (!node.path("type").asText().equals(PlannerValue.typeName(DataTypes.TimestampType))) {
      node.forEach(part -> tell(zone, part, offsets));
      return;
    }
    for (JsonNode value : node.has("values") ? node.get("values") : List.of(node.get("value"))) {
      if (!value.isNull()) {
        long moment = value.asLong();
        offsets.addArray().add(moment).add(zone.getOffset(Math.floorDiv(moment, 1000)));
      }
    }
  }
}
