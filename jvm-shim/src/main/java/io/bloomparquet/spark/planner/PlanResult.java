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
 * The planner's answer: the byte ranges to read, sorted by file, the versions of the files, and counts. If there is
 * no plan, it holds the reason, and everything is read.
 */
public final class PlanResult {
  private static final int FIELDS = 3;

  private final String notPlanned;
  private final boolean failed;
  private final JsonNode counts;
  private final LongBuffer numbers;
  private final int ranges;
  private final FileVersions versions;

  private PlanResult(String notPlanned, boolean failed) {
    this(notPlanned, failed, JsonNodeFactory.instance.objectNode(), LongBuffer.allocate(0), FileVersions.UNKNOWN);
  }

  private PlanResult(String notPlanned, boolean failed, JsonNode counts, LongBuffer numbers, FileVersions versions) {
    this.notPlanned = notPlanned;
    this.failed = failed;
    this.counts = counts;
    this.numbers = numbers;
    this.ranges = numbers.limit() / FIELDS;
    this.versions = versions;
  }

  /**
   * The result in an answer. Rejects an inconsistent answer: a wrong range could skip a row group that matches.
   *
   * @param files the number of planned files
   * @param known the versions that the request named
   * @param body big-endian longs: for all ranges the file's position, the start, the length; then the versions of the
   *     files, unless they are {@code known}
   */
  static PlanResult of(JsonNode answer, ByteBuffer body, int files, PlannerProcess planner, FileVersions known)
      throws PlannerException {
    // Defaults would make a plan that reads nothing of an answer that has lost its parts.
    if (!answer.path("plan").isObject() || !answer.path("ranges").isInt() || !answer.path("revision").isIntegralNumber()) {
      throw new PlannerException("invalid answer from the planner: it has no plan, or no counts of its ranges");
    }
    int ranges = answer.path("ranges").asInt();
    long revision = answer.path("revision").asLong();
    LongBuffer numbers = body.asLongBuffer();
    int rest = revision == known.revision() || revision == FileVersions.UNKNOWN.revision() ? 0 : files;
    if (ranges < 0 || numbers.limit() != (long) FIELDS * ranges + (long) FileVersions.FIELDS * rest) {
      throw new PlannerException(
          String.format(
              "invalid answer from the planner: %d numbers are not %d ranges and the versions of %d files",
              numbers.limit(), ranges, rest));
    }
    FileVersions versions = revision == known.revision() ? known : FileVersions.UNKNOWN;
    if (rest > 0) {
      versions = new FileVersions(planner, revision, numbers.slice(FIELDS * ranges, FileVersions.FIELDS * rest));
    }
    PlanResult result = new PlanResult(null, false, answer.path("plan"), numbers.slice(0, FIELDS * ranges), versions);
    result.check(files);
    return result;
  }

  /** The plan of no files. */
  static PlanResult empty() {
    return new PlanResult(null, false);
  }

  /** The result without a plan, for a reason that is not a failure. */
  public static PlanResult none(String reason) {
    return new PlanResult(reason, false);
  }

  /** The result without a plan because planning failed. */
  static PlanResult failed(String reason) {
    return new PlanResult(reason, true);
  }

  private void check(int files) throws PlannerException {
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

  public boolean isPlanned() {
    return notPlanned == null;
  }

  public boolean failed() {
    return failed;
  }

  /** Whether every row group, or stripe, is read. */
  public boolean keepsAll(FileFormat format) {
    return isPlanned() && count(format.count("Read")) == count(format.count("Total"));
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
    return versions.of(file);
  }

  FileVersions versions() {
    return versions;
  }

  public long keptBytes() {
    long sum = 0;
    for (int i = 0; i < ranges; i++) {
      sum += length(i);
    }
    return sum;
  }

  /** Whether a Bloom filter was asked about each row group that is kept. */
  public boolean filtersDecided() {
    return counts.path("filtersDecided").asBoolean();
  }

  long count(String name) {
    return counts.path(name).asLong(0);
  }

  /** All counts, or the reason, for {@code last_plan}. */
  public ObjectNode toJson() {
    ObjectNode node = JsonNodeFactory.instance.objectNode().put("planned", isPlanned()).put("failed", failed);
    if (!isPlanned()) {
      node.put("reason", notPlanned);
    }
    counts.properties().forEach(entry -> node.set(entry.getKey(), entry.getValue()));
    return node;
  }

  /** One line for EXPLAIN. */
  public String describe(FileFormat format) {
    if (!isPlanned()) {
      return "not planned: " + notPlanned;
    }
    long indexed = count("numFilesIndexed");
    long whole = count("numFilesReadWhole");
    long total = count(format.count("Total"));
    StringBuilder unfiltered = new StringBuilder();
    for (var column : counts.path("withoutFilters").properties()) {
      String text = "; %,d of %,d %ss have no Bloom filter on %s";
      unfiltered.append(String.format(Locale.ROOT, text, column.getValue().asLong(), total, format.unit(), column.getKey()));
    }
    return String.format(
        Locale.ROOT,
        "%d of %d %ss (%d skipped by statistics, %d by Bloom filter)%s%s%s",
        count(format.count("Read")),
        total,
        format.unit(),
        count(format.count("SkippedByStatistics")),
        count(format.count("SkippedByBloomFilter")),
        indexed == 0 ? "" : String.format(Locale.ROOT, "; index: %,d of %,d files", indexed, count("numFilesTotal")),
        whole == 0 ? "" : "; " + whole + " files could not be planned and are read completely",
        unfiltered);
  }
}
