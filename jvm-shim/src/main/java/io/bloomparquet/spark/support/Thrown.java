package io.bloomparquet.spark.support;

/** Spark's errors are checked exceptions for Java, and thrown where nothing declares them. */
public final class Thrown {
  private Thrown() {}

  /** Throws {@code error} as it is; never returns. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
