package io.bloomparquet.spark.support;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag$;

/** Differences between Spark 4.0 and the Spark that the jar is compiled against. */
public final class SparkVersions {
  private SparkVersions() {}

  /** {@code SerializableConfiguration.broadcast} of Spark 4.1. */
  public static Broadcast<SerializableConfiguration> broadcast(SparkContext context, Configuration configuration) {
    return context.broadcast(
        new SerializableConfiguration(configuration), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
  }
}
