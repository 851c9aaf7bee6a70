package io.bloomparquet.spark.filters;

import java.util.Arrays;

/**
 * Collects the hashes of one column in one row group, and makes their filter when their number is known. Hashes that
 * would take more memory than the largest filter are inserted into such a filter, which is folded at the end. A hash
 * that repeats soon is dropped, while that pays.
 */
final class DistinctHashes {
  private static final int INITIAL_CAPACITY = 1 << 10;

  /** A larger filter does not fit a core's cache: batches are sorted so that inserts go through it part by part. */
  private static final int CACHE_BYTES = 4 << 20;

  private static final int BATCH = 1 << 20;
  private static final int PARTS = 64;

  /** Slots of a small table of recent hashes, by their lower bits, to drop repeats. */
  private static final int RECENT = 1 << 12;

  /** After so many additions it is decided whether dropping repeated hashes pays. */
  private static final int TRIAL = 2 * RECENT;

  private final int maxBytes;
  private final int maxSize;
  private long[] hashes = new long[INITIAL_CAPACITY];
  private int size;
  private SplitBlocks large;

  /** The table of recent hashes; null if few hashes repeat. */
  private long[] recent;

  private int added;

  /** @param maxBytes of a filter, a power of two */
  DistinctHashes(int maxBytes) {
    this.maxBytes = maxBytes;
    this.maxSize = Math.max(INITIAL_CAPACITY, maxBytes / Long.BYTES);
    clear();
  }

  void add(long hash) {
    if (recent != null) {
      int slot = (int) hash & (RECENT - 1);
      // 0 marks an empty slot.
      if (recent[slot] == hash && hash != 0) {
        return;
      }
      recent[slot] = hash;
      if (++added == TRIAL && size > TRIAL / 2) {
        recent = null;
      }
    }
    if (size == hashes.length) {
      if (large == null && size < maxSize) {
        hashes = Arrays.copyOf(hashes, size * 2);
      } else {
        empty();
      }
    }
    hashes[size++] = hash;
  }

  private void empty() {
    if (large == null) {
      large = new SplitBlocks(maxBytes);
    }
    insertInto(large);
    hashes = hashes.length <= BATCH ? hashes : new long[BATCH];
    size = 0;
  }

  boolean isEmpty() {
    return size == 0 && large == null;
  }

  /** The smallest filter with a false positive probability of at most {@code fpp}; else the largest allowed filter. */
  SplitBlocks filter(double fpp) {
    SplitBlocks filter = large == null ? new SplitBlocks(sufficientBytes(fpp)) : large;
    insertInto(filter);
    while (filter.bytes() > SplitBlocks.MIN_BYTES) {
      SplitBlocks smaller = filter.folded();
      if (smaller.fpp() > fpp) {
        break;
      }
      filter = smaller;
    }
    return filter;
  }

  private int sufficientBytes(double fpp) {
    // Twice the usual formula, because blocks fill unevenly. Math.min: for an FPP near 1 the root rounds to 1.
    double bits = -8.0 * size / Math.log1p(-Math.min(Math.pow(fpp, 1 / 8.0), Math.nextDown(1.0)));
    double bytes = Math.min(Math.max(bits / 4, SplitBlocks.MIN_BYTES), maxBytes);
    int power = Integer.highestOneBit((int) bytes);
    return power < bytes ? power * 2 : power;
  }

  private void insertInto(SplitBlocks filter) {
    if (filter.bytes() <= CACHE_BYTES) {
      for (int i = 0; i < size; i++) {
        filter.insert(hashes[i]);
      }
      return;
    }
    long[] sorted = new long[Math.min(size, BATCH)];
    for (int start = 0; start < size; start += BATCH) {
      int end = Math.min(size, start + BATCH);
      int[] next = new int[PARTS + 1];
      for (int i = start; i < end; i++) {
        next[part(hashes[i]) + 1]++;
      }
      for (int i = 1; i <= PARTS; i++) {
        next[i] += next[i - 1];
      }
      for (int i = start; i < end; i++) {
        sorted[next[part(hashes[i])]++] = hashes[i];
      }
      for (int i = 0; i < end - start; i++) {
        filter.insert(sorted[i]);
      }
    }
  }

  /** Hashes of one part select neighbouring blocks. */
  private static int part(long hash) {
    return (int) (hash >>> 58);
  }

  void clear() {
    size = 0;
    large = null;
    recent = new long[RECENT];
    added = 0;
  }
}
