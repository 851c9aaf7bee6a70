package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.DriverSettings;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;

/**
 * The interpreter that plans. The settings are those of {@link DriverSettings}.
 *
 * @param path where it looks for packages besides its own places; may be empty
 */
record PythonCommand(String interpreter, String path) {
  static final String INTERPRETER = DriverSettings.PYTHON;

  /** What the application's settings name, or else what Spark runs its own Python workers with. */
  static PythonCommand of(SparkSession session) {
    SparkContext context = session.sparkContext();
    String interpreter =
        Stream.of(
                DriverSettings.first(
                    context, DriverSettings.PYTHON, "spark.pyspark.driver.python", "spark.pyspark.python"),
                System.getenv().getOrDefault("PYSPARK_PYTHON", ""),
                "python3")
            .filter(each -> !each.isBlank())
            .findFirst()
            .orElseThrow();
    return new PythonCommand(interpreter, DriverSettings.first(context, DriverSettings.PYTHON_PATH));
  }
}
