package io.bloomparquet.spark.filters;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The bits of a split-block Bloom filter, whose number of blocks is a power of two (Parquet's BloomFilter.md). */
final class SplitBlocks {
  static final int LEAST_BYTES = 32;

  /** What parquet-java and Arrow read at most. */
  static final int MOST_BYTES = 128 << 20;

  private static final int WORDS = 8;

  private final int[] words;

  /** @param bytes a power of two from {@link #LEAST_BYTES} to {@link #MOST_BYTES} */
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
    // One by one with their salts: this is where the time goes.
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
   * The share of hashes that were not inserted and check true all the same. Exact for random ones: these pick any block,
   * and pass it with the product of the shares of bits set in its words.
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

  /** How many different hashes were inserted, estimated by the bits that they set; infinite when all are. */
  double ndv() {
    long set = 0;
    for (int word : words) {
      set += Integer.bitCount(word);
    }
    return Math.log1p(-set / (32.0 * words.length)) / Math.log1p(-1 / (4.0 * words.length));
  }

  /** The filter of half the size that inserting the same hashes would have made, bit for bit. */
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
