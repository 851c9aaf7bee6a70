package io.bloomparquet.spark.files;

import io.bloomparquet.spark.support.FileFormat;
import java.io.IOException;
import java.util.Collection;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.util.VersionInfo;

/** Names the package of a Hadoop connector that is missing. Hadoop names only a class, or only the scheme. */
public final class Connectors {
  private static final String HADOOP = "org.apache.hadoop:%s:" + VersionInfo.getVersion();
  private static final String AWS = String.format(HADOOP, "hadoop-aws");
  private static final String AZURE = String.format(HADOOP, "hadoop-azure");
  private static final Map<String, String> PACKAGES =
      Map.of(
          "s3a", AWS,
          "s3", AWS + " and write the URL as s3a://",
          "s3n", AWS + " and write the URL as s3a://",
          "gs", "com.google.cloud.bigdataoss:gcs-connector, in a version for Hadoop " + VersionInfo.getVersion(),
          "abfs", AZURE,
          "abfss", AZURE,
          "wasb", AZURE,
          "wasbs", AZURE);

  private static final String WITHOUT_JAR =
      "Without bloomparquet's jar, spark.read.format(\"bloomparquet\") reads s3, gs, abfs and fsspec's URLs by Python";
  private static final String WITHOUT_SPARK =
      "Without Spark, bloomparquet.read_table reads s3, gs, abfs and fsspec's URLs by Python";

  private Connectors() {}

  /** Throws {@link IllegalArgumentException} for the first path whose scheme has no file system in Hadoop. */
  public static void require(FileFormat format, Collection<String> paths, Configuration conf) {
    for (String path : paths) {
      String scheme = scheme(path);
      if (scheme != null && !isKnown(scheme, conf)) {
        String added = PACKAGES.getOrDefault(scheme.toLowerCase(Locale.ROOT), "the package of its Hadoop connector");
        throw new IllegalArgumentException(
            String.format(
                "%s: Spark has no file system for %s://. When the application starts, add %s (--packages, or "
                    + "spark.jars.packages). %s, which needs no package",
                path, scheme, added, format == FileFormat.PARQUET ? WITHOUT_JAR : WITHOUT_SPARK));
      }
    }
  }

  private static String scheme(String path) {
    try {
      return new Path(path).toUri().getScheme();
    } catch (IllegalArgumentException error) {
      return null; // Spark says what is wrong with the path
    }
  }

  private static boolean isKnown(String scheme, Configuration conf) {
    try {
      FileSystem.getFileSystemClass(scheme, conf);
    } catch (UnsupportedFileSystemException error) {
      return false;
    } catch (RuntimeException error) {
      return !(error.getCause() instanceof ClassNotFoundException);
    } catch (IOException error) {
      return true; // for Spark to say
    }
    return true;
  }
}
