package io.bloomparquet.spark;

/** Spark's errors are checked exceptions for Java, and thrown where nothing declares them. */
final class Thrown {
  private Thrown() {}

  /** Throws {@code error} as it is; never returns. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
