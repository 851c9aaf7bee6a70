package io.bloomparquet.spark.plain;

import io.bloomparquet.spark.support.Scala;
import java.security.CodeSource;
import org.apache.spark.SparkContext;

/** This jar, on executors. A jar that only the driver's class path names would fail their tasks. */
public final class ExecutorJar {
  private ExecutorJar() {}

  /** Sends the jar to executors, unless Spark does so already. False if it is not known where the jar is. */
  public static boolean isAvailable(SparkContext context) {
    CodeSource source = ExecutorJar.class.getProtectionDomain().getCodeSource();
    if (context.isLocal()) {
      return true;
    }
    if (source == null || source.getLocation() == null) {
      return false;
    }
    String path = source.getLocation().getPath();
    String name = path.substring(path.lastIndexOf('/') + 1);
    if (Scala.list(context.listJars()).stream().noneMatch(jar -> jar.endsWith("/" + name))) {
      context.addJar(source.getLocation().toString());
    }
    return true;
  }
}
