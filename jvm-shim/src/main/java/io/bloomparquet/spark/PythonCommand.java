package io.bloomparquet.spark;

import java.io.File;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkFiles;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The interpreter that plans.
 *
 * @param path where it looks for packages besides its own places; may be empty
 */
record PythonCommand(String interpreter, String path) {
  static final String INTERPRETER = "spark.bloomparquet.python";
  static final String PATH = "spark.bloomparquet.pythonPath";

  /** That of the session that was attached last: one without settings of its own may be its sister. */
  private static volatile PythonCommand attached;

  static PythonCommand attach(SparkSession session) {
    attached = of(session);
    return attached;
  }

  /** What the session names, or another session did; or else what Spark runs its own Python workers with. */
  static PythonCommand of(SparkSession session) {
    SQLConf conf = session.sessionState().conf();
    if (attached != null && conf.getConfString(INTERPRETER, "").isBlank()) {
      return attached;
    }
    String interpreter =
        Stream.of(
                conf.getConfString(INTERPRETER, ""),
                conf.getConfString("spark.pyspark.driver.python", ""),
                conf.getConfString("spark.pyspark.python", ""),
                env("PYSPARK_PYTHON"),
                "python3")
            .filter(each -> !each.isBlank())
            .findFirst()
            .orElseThrow();
    String path =
        Stream.of(conf.getConfString(PATH, ""), shipped())
            .filter(each -> !each.isEmpty())
            .collect(Collectors.joining(File.pathSeparator));
    return new PythonCommand(interpreter, path);
  }

  /** Where a driver has what {@code addPyFile} ships: what executors can import, the planner can. */
  private static String shipped() {
    String root = SparkFiles.getRootDirectory();
    return root.equals(".") ? "" : root; // of a process that has no such place
  }

  private static String env(String name) {
    return System.getenv().getOrDefault(name, "");
  }
}
