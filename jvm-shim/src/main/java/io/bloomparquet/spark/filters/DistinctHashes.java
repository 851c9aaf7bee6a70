package io.bloomparquet.spark.filters;

import java.util.Arrays;

/**
 * The hashes of one row group. They are kept as they come, and their filter is made when their number is known. More of
 * them than take the memory of the largest filter that there may be go into such a one, which is made smaller at the end.
 * What comes again soon is not kept twice, where this happens often.
 */
final class DistinctHashes {
  private static final int FIRST_KEPT = 1 << 10;

  /** What goes at a time into a filter that is larger than a core's cache, in the order of its parts. */
  private static final int SORTED = 1 << 20;

  private static final int PARTS = 64;
  private static final int LARGE_BYTES = 4 << 20;

  private static final int RECENT = 1 << 12;
  private static final int TRIED = 2 * RECENT;

  private final int maxBytes;
  private final int mostKept;
  private long[] kept = new long[FIRST_KEPT];
  private int size;
  private SplitBlocks large;

  /** The latest hash for each value of its lower bits; null where this saves nothing. */
  private long[] recent;

  private int tried;

  /** @param maxBytes of a filter, a power of two */
  DistinctHashes(int maxBytes) {
    this.maxBytes = maxBytes;
    this.mostKept = Math.max(FIRST_KEPT, maxBytes / Long.BYTES);
    clear();
  }

  void add(long hash) {
    if (recent != null) {
      int slot = (int) hash & (RECENT - 1);
      // Nothing is in the slots at first, and so not in them is a hash of 0.
      if (recent[slot] == hash && hash != 0) {
        return;
      }
      recent[slot] = hash;
      if (++tried == TRIED && size > TRIED / 2) {
        recent = null;
      }
    }
    if (size == kept.length) {
      if (large == null && size < mostKept) {
        kept = Arrays.copyOf(kept, size * 2);
      } else {
        empty();
      }
    }
    kept[size++] = hash;
  }

  private void empty() {
    if (large == null) {
      large = new SplitBlocks(maxBytes);
    }
    insertInto(large);
    kept = kept.length <= SORTED ? kept : new long[SORTED];
    size = 0;
  }

  boolean isEmpty() {
    return size == 0 && large == null;
  }

  /** The smallest filter of which the share of false positives is at most {@code fpp}, or the largest there may be. */
  SplitBlocks filter(double fpp) {
    SplitBlocks found = large == null ? new SplitBlocks(surelyEnough(fpp)) : large;
    insertInto(found);
    while (found.bytes() > SplitBlocks.LEAST_BYTES) {
      SplitBlocks smaller = found.folded();
      if (smaller.fpp() > fpp) {
        break;
      }
      found = smaller;
    }
    return found;
  }

  private int surelyEnough(double fpp) {
    // Twice what the usual formula says, as blocks are filled unevenly; near 1 the root rounds to 1.
    double bits = -8.0 * size / Math.log1p(-Math.min(Math.pow(fpp, 1 / 8.0), Math.nextDown(1.0)));
    double bytes = Math.min(Math.max(bits / 4, SplitBlocks.LEAST_BYTES), maxBytes);
    int power = Integer.highestOneBit((int) bytes);
    return power < bytes ? power * 2 : power;
  }

  private void insertInto(SplitBlocks filter) {
    if (filter.bytes() <= LARGE_BYTES) {
      for (int i = 0; i < size; i++) {
        filter.insert(kept[i]);
      }
      return;
    }
    long[] sorted = new long[Math.min(size, SORTED)];
    for (int start = 0; start < size; start += SORTED) {
      int end = Math.min(size, start + SORTED);
      int[] next = new int[PARTS + 1];
      for (int i = start; i < end; i++) {
        next[part(kept[i]) + 1]++;
      }
      for (int i = 1; i <= PARTS; i++) {
        next[i] += next[i - 1];
      }
      for (int i = start; i < end; i++) {
        sorted[next[part(kept[i])]++] = kept[i];
      }
      for (int i = 0; i < end - start; i++) {
        filter.insert(sorted[i]);
      }
    }
  }

  /** Hashes of one part are in neighbouring blocks. */
  private static int part(long hash) {
    return (int) (hash >>> 58);
  }

  void clear() {
    size = 0;
    large = null;
    recent = new long[RECENT];
    tried = 0;
  }
}
