package io.bloomparquet.spark.planner;

/** Why there is no plan. The message is told to the user. */
final class PlannerException extends Exception {
  private static final long serialVersionUID = 1L;

  private final boolean fatal;

  PlannerException(String message) {
    this(message, false);
  }

  /** @param fatal whether the user asked for queries to fail by this */
  PlannerException(String message, boolean fatal) {
    super(message);
    this.fatal = fatal;
  }

  boolean fatal() {
    return fatal;
  }
}
