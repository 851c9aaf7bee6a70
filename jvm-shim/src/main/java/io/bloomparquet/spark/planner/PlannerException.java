package io.bloomparquet.spark.planner;

/** Says why there is no plan. The message is for the user. */
final class PlannerException extends Exception {
  private static final long serialVersionUID = 1L;

  private final boolean fatal;

  PlannerException(String message) {
    this(message, false);
  }

  /** @param fatal whether the query fails, as by onFilterError=fail */
  PlannerException(String message, boolean fatal) {
    super(message);
    this.fatal = fatal;
  }

  boolean fatal() {
    return fatal;
  }
}
