package io.bloomparquet.spark.filters;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A split-block Bloom filter, with a power of two as number of blocks (Parquet's BloomFilter.md). */
final class SplitBlocks {
  static final int MIN_BYTES = 32;

  /** The largest filter that parquet-java and Arrow read. */
  static final int MAX_BYTES = 128 << 20;

  private static final int WORDS = 8;

  private final int[] words;

  /** @param bytes a power of two from {@link #MIN_BYTES} to {@link #MAX_BYTES} */
  SplitBlocks(int bytes) {
    this(new int[bytes / 4]);
  }

  private SplitBlocks(int[] words) {
    this.words = words;
  }

  int bytes() {
    return words.length * 4;
  }

  void insert(long hash) {
    int start = WORDS * (int) (((hash >>> 32) * (words.length / WORDS)) >>> 32);
    int key = (int) hash;
    // The eight salts, unrolled: this is the hot loop of a write.
    words[start] |= 1 << ((key * 0x47b6137b) >>> 27);
    words[start + 1] |= 1 << ((key * 0x44974d91) >>> 27);
    words[start + 2] |= 1 << ((key * 0x8824ad5b) >>> 27);
    words[start + 3] |= 1 << ((key * 0xa2b7289d) >>> 27);
    words[start + 4] |= 1 << ((key * 0x705495c7) >>> 27);
    words[start + 5] |= 1 << ((key * 0x2df1424b) >>> 27);
    words[start + 6] |= 1 << ((key * 0x9efc4947) >>> 27);
    words[start + 7] |= 1 << ((key * 0x5c6bfb31) >>> 27);
  }

  /**
   * The false positive probability, from the bits set: a random hash selects any block, and passes it with the product
   * of the fill rates of its words.
   */
  double fpp() {
    double sum = 0;
    for (int start = 0; start < words.length; start += WORDS) {
      long product = 1;
      for (int word = 0; word < WORDS; word++) {
        product *= Integer.bitCount(words[start + word]);
      }
      sum += product;
    }
    return sum / (1L << 40) / (words.length / WORDS);
  }

  /** The number of distinct values, estimated from the bits set; infinite if all are set. */
  double ndv() {
    long set = 0;
    for (int word : words) {
      set += Integer.bitCount(word);
    }
    return Math.log1p(-set / (32.0 * words.length)) / Math.log1p(-1 / (4.0 * words.length));
  }

  /** The filter of half the size: equal, bit for bit, to one into which the hashes were inserted. */
  SplitBlocks folded() {
    int[] half = new int[words.length / 2];
    for (int i = 0; i < half.length; i++) {
      int first = i / WORDS * 2 * WORDS + i % WORDS;
      half[i] = words[first] | words[first + WORDS];
    }
    return new SplitBlocks(half);
  }

  byte[] toBytes() {
    ByteBuffer bytes = ByteBuffer.allocate(bytes()).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asIntBuffer().put(words);
    return bytes.array();
  }
}
