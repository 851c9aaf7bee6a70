package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.planner.Storages.Storage;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;

/**
 * The location of an index, from the option {@code index}. Anyone who may query may name a directory: an index is only
 * read, runs no code, and decides the rows of the queries that name it alone, as {@code pathGlobFilter} does.
 */
final class IndexLocation {
  private IndexLocation() {}

  /** The location for the planner: a word, or a directory as Spark resolves paths. */
  static String qualified(SparkSession session, String location) throws PlannerException {
    if (!location.contains("/")) {
      return location;
    }
    Configuration conf = session.sessionState().newHadoopConf();
    try {
      Path path = new Path(location);
      if (path.toUri().getScheme() == null) {
        path = FileSystem.get(conf).makeQualified(path);
      }
      return LocalPaths.isLocal(path) ? path.toUri().getPath() : path.toString(); // no escapes in local paths
    } catch (IOException | RuntimeException error) {
      throw new PlannerException("option index is '" + location + "': " + error.getMessage());
    }
  }

  /** The storage of a location for the planner, by its root; none for a word and for local directories. */
  static Map<String, Storage> storage(String location, Supplier<Configuration> conf) throws PlannerException {
    if (!location.contains("/") || location.startsWith("/")) {
      return Map.of();
    }
    try {
      return Storages.of(List.of(new Path(location)), null, conf);
    } catch (PlannerException error) {
      throw new PlannerException("option index is '" + location + "': " + error.getMessage());
    }
  }
}
