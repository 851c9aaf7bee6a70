package io.bloomparquet.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.bloomparquet.spark.planner.Planner;
import io.bloomparquet.spark.support.DriverSettings;
import java.io.IOException;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
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

  /** The planner's Python, and the URLs of this class, one for each jar that has it: JSON. */
  public String setup(SparkSession session) throws IOException {
    DriverSettings.Python python = DriverSettings.python(session.sparkContext());
    ObjectNode setup = JsonNodeFactory.instance.objectNode();
    setup.put("python", python.interpreter()).put("pythonPath", python.path()).put("version", DriverSettings.version());
    String name = PythonBridge.class.getName().replace('.', '/') + ".class";
    var jars = setup.putArray("jars");
    Collections.list(session.sharedState().jarClassLoader().getResources(name)).forEach(url -> jars.add(url.toString()));
    return setup.toString();
  }

  /** The reports of the executors; see {@link ExecutorReport}. */
  public List<String> executors(SparkSession session, String file, long seconds)
      throws ExecutionException, InterruptedException, TimeoutException {
    return ExecutorReport.ofAll(session, file, seconds);
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
