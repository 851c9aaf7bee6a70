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
 * The planner's answer: the byte ranges to read, sorted by file, the versions of the files, and counts. Or the reason
 * why there is no plan; then everything is read.
 */
public final class PlanResult {
  private static final int FIELDS = 3;
  private static final int FIELDS_OF_VERSION = 4;

  private final String notPlanned;
  private final boolean failed;
  private final JsonNode counts;
  private final LongBuffer numbers;
  private final int ranges;
  private final int versions;

  private PlanResult(String notPlanned, boolean failed, JsonNode counts, int versions, ByteBuffer body) {
    this.notPlanned = notPlanned;
    this.failed = failed;
    this.counts = counts;
    this.numbers = body.asLongBuffer();
    this.versions = versions;
    this.ranges = (numbers.remaining() - FIELDS_OF_VERSION * versions) / FIELDS;
  }

  /**
   * @param counts by the names of {@link PlanMetric}
   * @param versions the number of file versions: one for each planned file, or 0
   * @param body big-endian longs: for all ranges the file's position, the start, the length; for all versions the size,
   *     the modification time, the inode, the change time
   */
  static PlanResult of(JsonNode counts, int versions, ByteBuffer body) {
    return new PlanResult(null, false, counts, versions, body);
  }

  /** The plan of no files. */
  static PlanResult empty() {
    return of(JsonNodeFactory.instance.objectNode().put("rows", 0), 0, ByteBuffer.allocate(0));
  }

  /** No plan was asked for. */
  public static PlanResult none(String reason) {
    return new PlanResult(reason, false, JsonNodeFactory.instance.objectNode(), 0, ByteBuffer.allocate(0));
  }

  /** A plan was asked for, and failed. */
  static PlanResult failed(String reason) {
    return new PlanResult(reason, true, JsonNodeFactory.instance.objectNode(), 0, ByteBuffer.allocate(0));
  }

  /** Rejects an inconsistent answer: a wrong range could skip a row group that matches. */
  void check(int files) throws PlannerException {
    if (ranges < 0 || numbers.remaining() != FIELDS * ranges + FIELDS_OF_VERSION * versions) {
      throw new PlannerException(
          String.format(
              "invalid answer from the planner: %d numbers do not make whole ranges", numbers.remaining()));
    }
    if (versions != 0 && versions != files) {
      throw new PlannerException(
          String.format("invalid answer from the planner: versions of %d of %d files", versions, files));
    }
    int before = 0;
    for (int i = 0; i < ranges; i++) {
      if (numbers.get(i) < before || numbers.get(i) >= files || start(i) < 0 || length(i) <= 0) {
        throw new PlannerException(
            String.format(
                "invalid answer from the planner: start %d, length %d, file %d (of %d files)",
                start(i), length(i), numbers.get(i), files));
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

  /** The number of files with a range. */
  public int files() {
    int count = 0;
    for (int i = 0; i < ranges; i++) {
      count += i == 0 || file(i) != file(i - 1) ? 1 : 0;
    }
    return count;
  }

  /** The position of the range's file in the listing. */
  public int file(int range) {
    return (int) numbers.get(range);
  }

  public long start(int range) {
    return numbers.get(ranges + range);
  }

  public long length(int range) {
    return numbers.get(2 * ranges + range);
  }

  /** The version that was planned of the file at this position in the listing; null if the planner does not know it. */
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

  /** The number of rows in the ranges; -1 if unknown. */
  public long keptRows() {
    return counts.path("rows").asLong(-1);
  }

  long count(String name) {
    return counts.path(name).asLong(0);
  }

  /** All counts, or the reason, for {@code last_plan}. */
  public ObjectNode toJson() {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("planned", planned());
    if (!planned()) {
      node.put("reason", notPlanned);
    }
    counts.properties().forEach(entry -> node.set(entry.getKey(), entry.getValue()));
    return node;
  }

  /** One line for EXPLAIN. */
  public String describe(FileFormat format) {
    if (!planned()) {
      return "not planned: " + notPlanned;
    }
    long indexed = count("numFilesIndexed");
    long whole = count("numFilesReadWhole");
    return String.format(
        Locale.ROOT,
        "%d of %d %ss (%d skipped by statistics, %d by Bloom filter)%s%s",
        count(format.count("Read")),
        count(format.count("Total")),
        format.unit(),
        count(format.count("SkippedByStatistics")),
        count(format.count("SkippedByBloomFilter")),
        indexed == 0 ? "" : String.format(Locale.ROOT, "; index: %,d of %,d files", indexed, count("numFilesTotal")),
        whole == 0 ? "" : "; " + whole + " files could not be planned and are read completely");
  }
}
