package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;

/**
 * What the planner answered: the ranges of files to read, sorted by file, and what it found out. Or, without ranges, why
 * there is no plan; then everything is read.
 */
final class PlanResult {
  private static final int FIELDS = 3;

  private final String notPlanned;
  private final boolean failed;
  private final JsonNode told;
  private final LongBuffer numbers;
  private final int ranges;

  private PlanResult(String notPlanned, boolean failed, JsonNode told, ByteBuffer body) {
    this.notPlanned = notPlanned;
    this.failed = failed;
    this.told = told;
    this.numbers = body.asLongBuffer();
    this.ranges = numbers.remaining() / FIELDS;
  }

  /**
   * @param told counts, by the names of {@link PlanMetric}
   * @param body big-endian: all files, all starts, all lengths
   */
  static PlanResult of(JsonNode told, ByteBuffer body) {
    return new PlanResult(null, false, told, body);
  }

  /** The plan of no files. */
  static PlanResult empty() {
    return of(JsonNodeFactory.instance.objectNode().put("rows", 0), ByteBuffer.allocate(0));
  }

  /** Nobody asked for a plan, or none was wanted. */
  static PlanResult none(String reason) {
    return new PlanResult(reason, false, JsonNodeFactory.instance.objectNode(), ByteBuffer.allocate(0));
  }

  /** A plan was wanted, and something prevented it. */
  static PlanResult failed(String reason) {
    return new PlanResult(reason, true, JsonNodeFactory.instance.objectNode(), ByteBuffer.allocate(0));
  }

  /** What is wrong here would be a row group that is left out. */
  void check(int files) throws PlannerException {
    int before = 0;
    for (int i = 0; i < ranges; i++) {
      if (numbers.get(i) < before || numbers.get(i) >= files || start(i) < 0 || length(i) <= 0) {
        throw new PlannerException(
            String.format(
                "the planner answered bytes %d + %d of file %d of %d", start(i), length(i), numbers.get(i), files));
      }
      before = file(i);
    }
    if (numbers.remaining() != FIELDS * ranges) {
      throw new PlannerException("the planner answered " + numbers.remaining() + " numbers, which make no ranges");
    }
  }

  boolean planned() {
    return notPlanned == null;
  }

  boolean failed() {
    return failed;
  }

  int ranges() {
    return ranges;
  }

  /** The place of the range's file among those that were planned. */
  int file(int range) {
    return (int) numbers.get(range);
  }

  long start(int range) {
    return numbers.get(ranges + range);
  }

  long length(int range) {
    return numbers.get(2 * ranges + range);
  }

  long keptBytes() {
    long sum = 0;
    for (int i = 0; i < ranges; i++) {
      sum += length(i);
    }
    return sum;
  }

  /** At most so many rows will be read; -1 if that is not known. */
  long keptRows() {
    return told.path("rows").asLong(-1);
  }

  long count(String name) {
    return told.path(name).asLong(0);
  }

  /** Everything that is known, for {@code last_plan}. */
  ObjectNode toJson() {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("planned", planned());
    if (!planned()) {
      node.put("reason", notPlanned);
    }
    told.properties().forEach(entry -> node.set(entry.getKey(), entry.getValue()));
    return node;
  }

  /** In short, for EXPLAIN. */
  String describe(FileKind kind) {
    return planned() ? kind.describe(told) : "not planned: " + notPlanned;
  }
}
