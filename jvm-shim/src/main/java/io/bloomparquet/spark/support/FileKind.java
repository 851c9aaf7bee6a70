package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Locale;

/** A format of files: what its source is called, and what a plan of such files is told in. */
enum FileKind {
  PARQUET("bloomparquet", "row group", "RowGroups"),

  /** The parts that are read or left out are stripes; there are row groups within them. */
  ORC("bloomorc", "stripe", "Stripes");

  private final String source;
  private final String unit;
  private final String counted;

  FileKind(String source, String unit, String counted) {
    this.source = source;
    this.unit = unit;
    this.counted = counted;
  }

  /** The name of the source, by which Spark finds it. */
  String source() {
    return source;
  }

  /** What Spark and the planner call the format. */
  String format() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** What a plan keeps or skips. */
  String unit() {
    return unit;
  }

  /** The name of a count of these, such as {@code numRowGroupsTotal}, in metrics and in the planner's answers. */
  String count(String what) {
    return "num" + counted + what;
  }

  /** A plan in short, of the counts that the planner {@code told}. */
  String describe(JsonNode told) {
    long whole = told.path("numFilesNotUnderstood").asLong();
    return String.format(
        Locale.ROOT,
        "%d of %d %ss (%d skipped by statistics, %d by Bloom filter)%s",
        told.path(count("Read")).asLong(),
        told.path(count("Total")).asLong(),
        unit,
        told.path(count("SkippedByStatistics")).asLong(),
        told.path(count("SkippedByBloomFilter")).asLong(),
        whole == 0 ? "" : ", and " + whole + " files whole");
  }
}
