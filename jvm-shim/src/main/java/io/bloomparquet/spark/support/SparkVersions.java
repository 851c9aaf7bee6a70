package io.bloomparquet.spark.support;

import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** What Spark 4.0 names or lacks otherwise than the Spark that the jar is compiled against. */
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

  public static Sink newFileStreamSink(
      SparkSession session,
      String path,
      FileFormat format,
      Seq<String> partitionColumns,
      scala.collection.immutable.Map<String, String> options) {
    try {
      return (Sink)
          FileStreamSink.CLASS
              .getConstructor(
                  SparkSession.class,
                  String.class,
                  FileFormat.class,
                  Seq.class,
                  scala.collection.immutable.Map.class)
              .newInstance(session, path, format, partitionColumns, options);
    } catch (ReflectiveOperationException error) {
      throw unwrapped(error);
    }
  }

  /** Whether {@code paths} is one directory that a file stream wrote. */
  public static boolean hasStreamMetadata(List<String> paths, Configuration configuration, SQLConf conf) {
    try {
      return (boolean)
          FileStreamSink.CLASS
              .getMethod("hasMetadata", Seq.class, Configuration.class, SQLConf.class)
              .invoke(null, Scala.seq(paths), configuration, conf);
    } catch (ReflectiveOperationException error) {
      throw unwrapped(error);
    }
  }

  /** Spark 4.1 moved the class. Looked up at the first use. */
  private static final class FileStreamSink {
    static final Class<?> CLASS = find();

    private static Class<?> find() {
      Class<?> sink = SparkVersions.find("org.apache.spark.sql.execution.streaming.sinks.FileStreamSink");
      return sink != null ? sink : SparkVersions.find("org.apache.spark.sql.execution.streaming.FileStreamSink");
    }
  }

  /** The class of this name, or null if this Spark has none. */
  private static Class<?> find(String name) {
    try {
      return Class.forName(name, false, SparkVersions.class.getClassLoader());
    } catch (ClassNotFoundException absent) {
      return null;
    }
  }

  private static RuntimeException unwrapped(ReflectiveOperationException error) {
    boolean isThrownBySpark = error instanceof InvocationTargetException;
    return Thrown.unchecked(isThrownBySpark ? error.getCause() : error);
  }
}
