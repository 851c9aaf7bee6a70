package io.bloomparquet.spark;

import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.support.DriverSettings;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;

/** The methods that Python calls. */
public final class PythonBridge {

  /**
   * Sets the planner's interpreter, unless the application's settings name one. Starts the planner, so that the first
   * query does not wait for its imports; that query reports a planner that did not start.
   */
  public void attach(SparkSession session, String python, String pythonPath) {
    DriverSettings.makeStatic();
    DriverSettings.attach(session.sparkContext(), python, pythonPath);
    Planner.start(session);
    BloomParquetExtensions.install(session);
  }

  /** The plans of all scans of a query, as a JSON list of objects. Plans a scan that was not planned yet. */
  public String plans(QueryExecution query) {
    return ScanPlans.of(query, false).toString();
  }

  /** The explanations of all scans of a query, as a JSON list of objects. */
  public String explanations(QueryExecution query) {
    return ScanPlans.of(query, true).toString();
  }
}
