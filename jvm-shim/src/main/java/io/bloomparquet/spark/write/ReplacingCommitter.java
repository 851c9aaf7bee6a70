package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/**
 * Commits a job like Hadoop's committer, and then deletes the files that the job replaces. A failed job leaves the old
 * files and nothing else. So does a killed job, unless it was already moving new files into place or deleting old ones:
 * then no file is lost, but some old and some new files are there.
 */
public final class ReplacingCommitter extends FileOutputCommitter {
  private static final String REPLACED = "bloomparquet.overwritten.path";
  private static final String TABLE = "bloomparquet.overwritten.table";
  private static final String MARKS_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs";
  private static final int MAX_NAMED = 10;

  private final Path output;
  private final List<Path> old = new ArrayList<>();

  /** The directories of the old files, each after those in it. */
  private final List<Path> directories = new ArrayList<>();

  /** Called by Spark, on the driver once for the job and on executors for each task. */
  public ReplacingCommitter(Path output, TaskAttemptContext context) throws IOException {
    super(output, context);
    this.output = output;
  }

  /** Makes this class the committer of a job. It deletes the files that exist when the job starts. */
  static void prepare(Configuration job, Overwrite overwrite) {
    job.set(REPLACED, overwrite.replaced().toString());
    job.set(TABLE, overwrite.table() == null ? "" : overwrite.table());
    String name = ReplacingCommitter.class.getName();
    job.set(SQLConf.OUTPUT_COMMITTER_CLASS().key(), name);
    if (job.getClassByNameOrNull(name) == null) {
      // ADD JAR sets the class loader of the calling thread only
      job.setClassLoader(ReplacingCommitter.class.getClassLoader());
    }
  }

  @Override
  public void setupJob(JobContext context) throws IOException {
    Path replaced = new Path(context.getConfiguration().get(REPLACED));
    FileSystem system = replaced.getFileSystem(context.getConfiguration());
    // Like Spark's overwrite. Hadoop's committer would also commit the tasks of an earlier job that was killed.
    system.delete(new Path(replaced, PENDING_DIR_NAME), true);
    if (system.exists(replaced)) {
      collect(system, replaced);
      if (!replaced.equals(output)) {
        directories.add(replaced);
      }
    }
    super.setupJob(context);
  }

  @Override
  public void commitJob(JobContext context) throws IOException {
    super.commitJob(context);
    FileSystem system = output.getFileSystem(context.getConfiguration());
    Path mark = system.makeQualified(new Path(output, SUCCEEDED_FILE_NAME));
    old.removeIf(file -> file.equals(mark) && context.getConfiguration().getBoolean(MARKS_SUCCESS, true));
    delete(system);
    String table = context.getConfiguration().get(TABLE);
    if (!table.isEmpty()) {
      Path replaced = system.makeQualified(new Path(context.getConfiguration().get(REPLACED)));
      dropPartitions(SparkSession.active(), table, replaced, system);
    }
  }

  /** Drops partitions from the catalog if all their files were deleted, as Spark does after its overwrites. */
  private static void dropPartitions(SparkSession session, String table, Path replaced, FileSystem system)
      throws IOException {
    try {
      TableIdentifier name = session.sessionState().sqlParser().parseTableIdentifier(table);
      SessionCatalog catalog = session.sessionState().catalog();
      List<scala.collection.immutable.Map<String, String>> dropped = new ArrayList<>();
      for (CatalogTablePartition partition : Scala.list(catalog.listPartitions(name, Option.empty()))) {
        Path location = system.makeQualified(new Path(partition.location()));
        // the one partition that an INSERT names stays, also without rows
        boolean isBelow = LocalPaths.isIn(replaced, location) && !location.equals(replaced);
        if (isBelow && !system.exists(location)) {
          dropped.add(partition.spec());
        }
      }
      catalog.dropPartitions(name, Scala.seq(dropped), true, false, true);
    } catch (AnalysisException error) {
      throw new IOException("the files of " + table + " were replaced, but not its partitions in the catalog", error);
    }
  }

  /** Adds all files below a directory to the old ones. Does not follow links. */
  private void collect(FileSystem system, Path directory) throws IOException {
    for (FileStatus each : system.listStatus(directory)) {
      if (each.isFile() || LocalPaths.isLink(each.getPath())) {
        old.add(each.getPath());
      } else {
        collect(system, each.getPath());
        directories.add(each.getPath());
      }
    }
  }

  private void delete(FileSystem system) throws IOException {
    Map<Path, IOException> errors = new ConcurrentHashMap<>();
    old.parallelStream() // each request to an object store takes a while
        .forEach(
            file -> {
              try {
                if (LocalPaths.isLink(file)) {
                  Files.deleteIfExists(LocalPaths.local(file));
                } else if (!system.delete(file, false) && system.exists(file)) {
                  throw new IOException("cannot delete " + file);
                }
              } catch (IOException error) {
                errors.put(file, error);
              }
            });
    if (!errors.isEmpty()) {
      throw new IOException(
          String.format(
              "the new files were written, but %d of the %d files that they replace could not be deleted. Delete them "
                  + "by hand, or their rows are read too: %s%s",
              errors.size(),
              old.size(),
              errors.keySet().stream().limit(MAX_NAMED).map(Path::toString).collect(Collectors.joining(", ")),
              errors.size() > MAX_NAMED ? ", …" : ""),
          errors.values().iterator().next());
    }
    for (Path directory : directories) {
      try {
        if (system.listStatus(directory).length == 0) {
          system.delete(directory, false);
        }
      } catch (IOException error) {
        // another job has just put a file there, or deleted it
      }
    }
  }
}
