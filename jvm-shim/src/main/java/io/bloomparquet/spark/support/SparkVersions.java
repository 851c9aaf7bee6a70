package io.bloomparquet.spark.support;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag$;

/** Differences between Spark 4.0 and the Spark that the jar is compiled against. */
public final class SparkVersions {
  /** Whether scans can take the fields of a VARIANT that a query asks for: Spark 4.1 and later. */
  public static final boolean HAS_VARIANT_EXTRACTION =
      find("org.apache.spark.sql.connector.read.SupportsPushDownVariantExtractions") != null;

  private SparkVersions() {}

  /** {@code SerializableConfiguration.broadcast} of Spark 4.1. */
  public static Broadcast<SerializableConfiguration> broadcast(SparkContext context, Configuration configuration) {
    return context.broadcast(
        new SerializableConfiguration(configuration), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
  }

  /** The class of this name, or null if this Spark has none. */
  private static Class<?> find(String name) {
    try {
      return Class.forName(name, false, SparkVersions.class.getClassLoader());
    } catch (ClassNotFoundException absent) {
      return null;
    }
  }
}
