package io.bloomparquet.spark.support;

/** Throws checked exceptions where none is declared, as Scala does. */
public final class Thrown {
  private Thrown() {}

  /** Throws {@code error} as it is; never returns. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
