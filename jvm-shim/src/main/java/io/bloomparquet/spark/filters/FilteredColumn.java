package io.bloomparquet.spark.filters;

import org.apache.parquet.column.values.bloomfilter.XxHash;
import org.apache.parquet.io.api.Binary;
import org.apache.spark.sql.catalyst.expressions.XXH64;

/** The values of one column, row group by row group, as the hashes that are looked for in its filters. */
final class FilteredColumn {
  /** A filter may have a quarter more false positives than asked for, rather than twice the size. */
  private static final double NEARLY = 1.25;

  /** With more, reading the filter takes longer than what it spares. */
  private static final double USELESS = 0.9;

  private static final double FEW = 16;
  private static final XxHash BYTES = new XxHash();

  private final String path;
  private final FilterPlan.Column plan;
  private final DistinctHashes hashes;
  private long least;
  private long greatest;
  private double worst;

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
    range(value);
    hashes.add(XXH64.hashInt(value, 0));
  }

  void add(long value) {
    range(value);
    hashes.add(XXH64.hashLong(value, 0));
  }

  /** Zeros are equal and so are NaNs, whatever their bits: who looks for one must find the other. */
  void add(float value) {
    if (value == 0) {
      hashes.add(XXH64.hashInt(Float.floatToRawIntBits(0.0f), 0));
      hashes.add(XXH64.hashInt(Float.floatToRawIntBits(-0.0f), 0));
      return;
    }
    if (Float.isNaN(value)) {
      hashes.add(XXH64.hashInt(0x7fc00000, 0));
      hashes.add(XXH64.hashInt(0xffc00000, 0));
    }
    hashes.add(XXH64.hashInt(Float.floatToRawIntBits(value), 0));
  }

  /** As for float. */
  void add(double value) {
    if (value == 0) {
      hashes.add(XXH64.hashLong(Double.doubleToRawLongBits(0.0), 0));
      hashes.add(XXH64.hashLong(Double.doubleToRawLongBits(-0.0), 0));
      return;
    }
    if (Double.isNaN(value)) {
      hashes.add(XXH64.hashLong(0x7ff8000000000000L, 0));
      hashes.add(XXH64.hashLong(0xfff8000000000000L, 0));
    }
    hashes.add(XXH64.hashLong(Double.doubleToRawLongBits(value), 0));
  }

  void add(Binary value) {
    hashes.add(BYTES.hashBytes(value.getBytesUnsafe()));
  }

  private void range(long value) {
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }

  /** The filter of the row group that ends here; null for none. */
  SplitBlocks filter() {
    if (hashes.isEmpty()) {
      return null;
    }
    SplitBlocks found = hashes.filter(NEARLY * plan.fpp());
    if (plan.optional() && isPointless(found.ndv())) {
      return null;
    }
    double fpp = found.fpp();
    if (fpp > NEARLY * plan.fpp()) {
      worst = Math.max(worst, fpp);
    }
    return fpp > USELESS && fpp > plan.fpp() ? null : found;
  }

  /** Few values are in every row group; and integers without many gaps are found as well by their least and greatest. */
  private boolean isPointless(double ndv) {
    double width = (double) greatest - (double) least + 1;
    return ndv <= FEW || (least <= greatest && ndv > width / 2);
  }

  /** Gets ready for the next row group. */
  void clear() {
    hashes.clear();
    least = Long.MAX_VALUE;
    greatest = Long.MIN_VALUE;
  }

  /** What the log should say of this file; null for nothing. */
  String warning(String file, FilterPlan all) {
    if (worst == 0) {
      return null;
    }
    return String.format(
        "%s: column %s has so many different values that a Bloom filter of %d bytes, the most that %s allows, has %.3g false "
            + "positives instead of %s%s; allow more, or write smaller row groups",
        file,
        path,
        all.maxBytes(),
        all.maxBytesOption(),
        worst,
        plan.fpp(),
        worst > USELESS && worst > plan.fpp() ? ", and is left out" : "");
  }
}
