package io.bloomparquet.spark.planner;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.support.FileFormat;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.Locale;

/**
 * What the planner answered: the ranges of files to read, sorted by file, the versions of the files that it is about, and
 * what it found out. Or, without ranges, why there is no plan; then everything is read.
 */
public final class PlanResult {
  private static final int FIELDS = 3;
  private static final int FIELDS_OF_VERSION = 4;

  private final String notPlanned;
  private final boolean failed;
  private final JsonNode told;
  private final LongBuffer numbers;
  private final int ranges;
  private final int versions;

  private PlanResult(String notPlanned, boolean failed, JsonNode told, int versions, ByteBuffer body) {
    this.notPlanned = notPlanned;
    this.failed = failed;
    this.told = told;
    this.numbers = body.asLongBuffer();
    this.versions = versions;
    this.ranges = (numbers.remaining() - FIELDS_OF_VERSION * versions) / FIELDS;
  }

  /**
   * @param told counts, by the names of {@link PlanMetric}
   * @param versions how many versions of files there are: of all that were planned, or 0
   * @param body big-endian: all files, all starts, all lengths; then all sizes, modification times, inodes and change
   *     times of versions
   */
  static PlanResult of(JsonNode told, int versions, ByteBuffer body) {
    return new PlanResult(null, false, told, versions, body);
  }

  /** The plan of no files. */
  static PlanResult empty() {
    return of(JsonNodeFactory.instance.objectNode().put("rows", 0), 0, ByteBuffer.allocate(0));
  }

  /** Nobody asked for a plan, or none was wanted. */
  static PlanResult none(String reason) {
    return new PlanResult(reason, false, JsonNodeFactory.instance.objectNode(), 0, ByteBuffer.allocate(0));
  }

  /** A plan was wanted, and something prevented it. */
  static PlanResult failed(String reason) {
    return new PlanResult(reason, true, JsonNodeFactory.instance.objectNode(), 0, ByteBuffer.allocate(0));
  }

  /** What is wrong here would be a row group that is left out. */
  void check(int files) throws PlannerException {
    if (ranges < 0 || numbers.remaining() != FIELDS * ranges + FIELDS_OF_VERSION * versions) {
      throw new PlannerException("the planner answered " + numbers.remaining() + " numbers, which make no ranges");
    }
    if (versions != 0 && versions != files) {
      throw new PlannerException(String.format("the planner answered versions of %d files of %d", versions, files));
    }
    int before = 0;
    for (int i = 0; i < ranges; i++) {
      if (numbers.get(i) < before || numbers.get(i) >= files || start(i) < 0 || length(i) <= 0) {
        throw new PlannerException(
            String.format(
                "the planner answered bytes %d + %d of file %d of %d", start(i), length(i), numbers.get(i), files));
      }
      before = file(i);
    }
  }

  public boolean planned() {
    return notPlanned == null;
  }

  boolean failed() {
    return failed;
  }

  public int ranges() {
    return ranges;
  }

  /** How many files have something to read. */
  public int files() {
    int count = 0;
    for (int i = 0; i < ranges; i++) {
      count += i == 0 || file(i) != file(i - 1) ? 1 : 0;
    }
    return count;
  }

  /** The place of the range's file among those that were planned. */
  public int file(int range) {
    return (int) numbers.get(range);
  }

  public long start(int range) {
    return numbers.get(ranges + range);
  }

  public long length(int range) {
    return numbers.get(2 * ranges + range);
  }

  /** The version of a file, by its place, that the plan is about; null where the planner does not know it. */
  public FileVersion version(int file) {
    if (versions == 0) {
      return null;
    }
    int first = FIELDS * ranges + file;
    return new FileVersion(
        numbers.get(first),
        numbers.get(first + versions),
        numbers.get(first + 2 * versions),
        numbers.get(first + 3 * versions));
  }

  public long keptBytes() {
    long sum = 0;
    for (int i = 0; i < ranges; i++) {
      sum += length(i);
    }
    return sum;
  }

  /** At most so many rows will be read; -1 if that is not known. */
  public long keptRows() {
    return told.path("rows").asLong(-1);
  }

  long count(String name) {
    return told.path(name).asLong(0);
  }

  /** Everything that is known, for {@code last_plan}. */
  public ObjectNode toJson() {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("planned", planned());
    if (!planned()) {
      node.put("reason", notPlanned);
    }
    told.properties().forEach(entry -> node.set(entry.getKey(), entry.getValue()));
    return node;
  }

  /** One line for EXPLAIN. */
  public String describe(FileFormat format) {
    if (!planned()) {
      return "not planned: " + notPlanned;
    }
    long whole = count("numFilesNotUnderstood");
    return String.format(
        Locale.ROOT,
        "%d of %d %ss (%d skipped by statistics, %d by Bloom filter)%s",
        count(format.count("Read")),
        count(format.count("Total")),
        format.unit(),
        count(format.count("SkippedByStatistics")),
        count(format.count("SkippedByBloomFilter")),
        whole == 0 ? "" : ", and " + whole + " files whole");
  }
}
