package io.bloomparquet.spark.support;

import java.util.Locale;

/** A file format that can be planned, and its names. */
public enum FileFormat {
  PARQUET("bloomparquet", "row group", "RowGroups"),

  /** A plan keeps or skips whole stripes. Each stripe holds row groups. */
  ORC("bloomorc", "stripe", "Stripes");

  private final String source;
  private final String unit;
  private final String counted;

  FileFormat(String source, String unit, String counted) {
    this.source = source;
    this.unit = unit;
    this.counted = counted;
  }

  /** The name of our data source, as in {@code spark.read.format("bloomparquet")}. */
  public String source() {
    return source;
  }

  /** The name of the format for Spark and for the planner: {@code parquet} or {@code orc}. */
  public String shortName() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** The part of a file that a plan keeps or skips. */
  public String unit() {
    return unit;
  }

  /** The name of a count of units, such as {@code numRowGroupsTotal}, in metrics and in the planner's answers. */
  public String count(String what) {
    return "num" + counted + what;
  }
}
