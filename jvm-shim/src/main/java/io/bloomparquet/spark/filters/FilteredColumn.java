package io.bloomparquet.spark.filters;

import org.apache.parquet.column.values.bloomfilter.XxHash;
import org.apache.parquet.io.api.Binary;
import org.apache.spark.sql.catalyst.expressions.XXH64;

/** Hashes the values of one column, and makes its filter for each row group. */
final class FilteredColumn {
  /** Tolerated excess over the requested FPP: the next larger filter would have twice the size. */
  private static final double FPP_TOLERANCE = 1.25;

  /** Above this FPP, reading a filter costs more than it saves. */
  private static final double USELESS_FPP = 0.9;

  /** Optional columns get no filter in a row group with up to so many distinct values. */
  private static final double FEW_VALUES = 16;

  private static final XxHash BYTES = new XxHash();

  private final String path;
  private final FilterPlan.Column plan;
  private final DistinctHashes hashes;
  private long min;
  private long max;
  private double worstFpp;

  FilteredColumn(String path, FilterPlan.Column plan, int maxBytes) {
    this.path = path;
    this.plan = plan;
    this.hashes = new DistinctHashes(maxBytes);
    clear();
  }

  String path() {
    return path;
  }

  void add(int value) {
    extend(value);
    addBits(value);
  }

  void add(long value) {
    extend(value);
    addBits(value);
  }

  /** Adds both zeros for a zero, and both usual NaNs for a NaN: a query for one must find the other. */
  void add(float value) {
    if (value == 0 || Float.isNaN(value)) {
      int bits = value == 0 ? 0 : 0x7fc00000;
      addBits(bits);
      addBits(bits | Integer.MIN_VALUE);
    }
    if (value != 0) {
      addBits(Float.floatToRawIntBits(value));
    }
  }

  /** Adds both zeros for a zero, and both usual NaNs for a NaN. */
  void add(double value) {
    if (value == 0 || Double.isNaN(value)) {
      long bits = value == 0 ? 0 : 0x7ff8000000000000L;
      addBits(bits);
      addBits(bits | Long.MIN_VALUE);
    }
    if (value != 0) {
      addBits(Double.doubleToRawLongBits(value));
    }
  }

  private void addBits(int bits) {
    hashes.add(XXH64.hashInt(bits, 0));
  }

  private void addBits(long bits) {
    hashes.add(XXH64.hashLong(bits, 0));
  }

  void add(Binary value) {
    hashes.add(BYTES.hashBytes(value.getBytesUnsafe()));
  }

  private void extend(long value) {
    min = Math.min(min, value);
    max = Math.max(max, value);
  }

  /** The filter of the row group that just ended; null for none. */
  SplitBlocks filter() {
    if (hashes.isEmpty()) {
      return null;
    }
    SplitBlocks filter = hashes.filter(FPP_TOLERANCE * plan.fpp());
    if (plan.optional() && isPointless(filter.ndv())) {
      return null;
    }
    double fpp = filter.fpp();
    if (fpp > FPP_TOLERANCE * plan.fpp()) {
      worstFpp = Math.max(worstFpp, fpp);
    }
    return fpp > USELESS_FPP && fpp > plan.fpp() ? null : filter;
  }

  /** Few values are likely in every row group. For integers without many gaps, min and max exclude as much. */
  private boolean isPointless(double ndv) {
    double width = (double) max - (double) min + 1;
    return ndv <= FEW_VALUES || (min <= max && ndv > width / 2);
  }

  /** Gets ready for the next row group. */
  void clear() {
    hashes.clear();
    min = Long.MAX_VALUE;
    max = Long.MIN_VALUE;
  }

  /** The warning to log about this file; null for none. */
  String warning(String file, FilterPlan all) {
    if (worstFpp == 0) {
      return null;
    }
    return String.format(
        "%s: column %s has too many distinct values for a Bloom filter of %d bytes, the limit by %s: its false "
            + "positive probability is %.3g instead of %s%s; raise the limit, or write smaller row groups",
        file,
        path,
        all.maxBytes(),
        all.maxBytesOption(),
        worstFpp,
        plan.fpp(),
        worstFpp > USELESS_FPP && worstFpp > plan.fpp() ? ", so it is left out" : "");
  }
}
