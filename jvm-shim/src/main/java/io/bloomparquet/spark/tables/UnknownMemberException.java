package io.bloomparquet.spark.tables;

/** A class of a connector has not the member that is expected, so this version of it is not known. */
public final class UnknownMemberException extends Exception {
  private static final long serialVersionUID = 1L;

  UnknownMemberException(String message) {
    super("this version of the connector is not supported: " + message);
  }
}
