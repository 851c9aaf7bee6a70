package io.bloomparquet.spark.support;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.internal.config.TypedConfigBuilder;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Settings that decide which code the driver runs and which files it deletes. They come from the {@link SparkConf} of
 * the application alone. SQL {@code SET}, the options of a load and the properties of a table are open to anyone who
 * may query.
 *
 * @param keyProviders the functions that the option {@code keyProvider} may name
 * @param cacheDirectory the directory of the planner's cache; null for the default
 */
public record DriverSettings(List<String> keyProviders, String cacheDirectory, long cacheMaxBytes) {
  public static final String PYTHON = "spark.bloomparquet.python";
  private static final String PYTHON_PATH = "spark.bloomparquet.pythonPath";
  static final String KEY_PROVIDERS = "spark.bloomparquet.keyProviders";
  static final String CACHE_DIRECTORY = "spark.bloomparquet.cacheDirectory";
  static final String CACHE_MAX_BYTES = "spark.bloomparquet.cacheMaxBytes";

  /** Only the jar registers this setting. A client of Spark Connect reads it to see whether the server has the jar. */
  private static final String VERSION_OF_JAR = "spark.bloomparquet.version";

  private static final String DEFAULT_CACHE_MAX_BYTES = "1g";

  public static DriverSettings of(SparkContext context) {
    SparkConf conf = context.getConf();
    List<String> providers =
        Arrays.stream(conf.get(KEY_PROVIDERS, "").split(","))
            .map(String::trim)
            .filter(each -> !each.isEmpty())
            .toList();
    String directory = conf.get(CACHE_DIRECTORY, "").trim();
    return new DriverSettings(
        providers,
        directory.isEmpty() ? null : directory,
        bytes(CACHE_MAX_BYTES, conf.get(CACHE_MAX_BYTES, DEFAULT_CACHE_MAX_BYTES)));
  }

  private static long bytes(String name, String given) {
    try {
      long bytes = JavaUtils.byteStringAsBytes(given.trim());
      if (bytes > 0) {
        return bytes;
      }
    } catch (NumberFormatException error) {
      // thrown below
    }
    throw new IllegalArgumentException(name + " is '" + given + "'; expected a size such as 128m or 1g");
  }

  /** Makes Spark refuse {@code SET} and {@code spark.conf.set} of these settings, as for its own static ones. */
  public static void makeStatic() {
    for (String name : List.of(PYTHON, PYTHON_PATH, KEY_PROVIDERS, CACHE_DIRECTORY, CACHE_MAX_BYTES)) {
      makeStatic(name, "Read from the SparkConf of the application.", TypedConfigBuilder::createOptional);
    }
    makeStatic(VERSION_OF_JAR, "The version of the jar of bloomparquet.", each -> each.createWithDefault(version()));
  }

  /** The version of this jar. */
  public static String version() {
    return Objects.requireNonNullElse(DriverSettings.class.getPackage().getImplementationVersion(), "unknown");
  }

  private static void makeStatic(String name, String doc, Consumer<TypedConfigBuilder<String>> create) {
    synchronized (SQLConf.class) { // another class loader may hold this class too
      if (!SQLConf.isStaticConfigKey(name)) {
        create.accept(SQLConf.buildStaticConf(name).doc(doc).stringConf());
      }
    }
  }

  /** Sets the planner's interpreter, unless the application's settings name one. */
  public static void attach(SparkContext context, String python, String pythonPath) {
    SparkConf conf = context.conf();
    if (conf.get(PYTHON, "").isBlank()) {
      conf.set(PYTHON, python).set(PYTHON_PATH, pythonPath);
    }
  }

  /** Throws {@link IllegalArgumentException} unless the application's settings name {@code provider}. */
  public void checkKeyProvider(String provider) {
    if (keyProviders.contains(provider)) {
      return;
    }
    // Other text may be a key, given by mistake. No message repeats it.
    boolean isName = provider.matches("[\\w.]+:[\\w.]+");
    throw new IllegalArgumentException(
        String.format(
            "option keyProvider is %s; expected one of the functions that %s names (found: %s). Set it when the "
                + "application starts: spark-defaults.conf, --conf, or SparkSession.builder.config",
            isName ? "'" + provider + "'" : "not of the form module:function",
            KEY_PROVIDERS,
            keyProviders.isEmpty() ? "none" : String.join(", ", keyProviders)));
  }

  /**
   * The Python that plans.
   *
   * @param path directories to add to its PYTHONPATH; may be empty
   */
  public record Python(String interpreter, String path) {}

  /** The Python that the application's settings name; by default the one that Spark's Python workers use. */
  public static Python python(SparkContext context) {
    SparkConf conf = context.getConf();
    String interpreter =
        Stream.of(
                conf.get(PYTHON, ""),
                conf.get("spark.pyspark.driver.python", ""),
                conf.get("spark.pyspark.python", ""),
                System.getenv().getOrDefault("PYSPARK_PYTHON", ""))
            .filter(each -> !each.isBlank())
            .findFirst()
            .orElse("python3");
    return new Python(interpreter, conf.get(PYTHON_PATH, "").isBlank() ? "" : conf.get(PYTHON_PATH));
  }
}
