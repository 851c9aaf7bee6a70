package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.support.Scala;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.MRJobConfig;
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
 * then no file is lost, but some old and some new files are there. Of several jobs that replace the same files at once,
 * those that started earlier fail: see {@link OverwriteMark}.
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
    // Hadoop commits all tasks in the directory of an attempt. All of Spark's jobs are attempt 0, so that one would
    // commit the tasks of another.
    job.setInt(MRJobConfig.APPLICATION_ATTEMPT_ID, ThreadLocalRandom.current().nextInt(1, Integer.MAX_VALUE));
    // the commit must call cleanupJob, and stop at its errors
    job.setBoolean(FILEOUTPUTCOMMITTER_CLEANUP_SKIPPED, false);
    job.setBoolean(FILEOUTPUTCOMMITTER_CLEANUP_FAILURES_IGNORED, false);
  }

  @Override
  public void setupJob(JobContext context) throws IOException {
    Path replaced = new Path(context.getConfiguration().get(REPLACED));
    FileSystem system = replaced.getFileSystem(context.getConfiguration());
    OverwriteMark mark = mark(context);
    mark.set();
    super.setupJob(context);
    // Not earlier: until its mark is removed, another overwrite may move files here.
    if (!replaced.equals(output)) {
      system.delete(new Path(replaced, PENDING_DIR_NAME), true); // like Spark's overwrite
    }
    if (system.exists(replaced)) {
      collect(system, replaced, mark.pending());
      if (!replaced.equals(output)) {
        directories.add(replaced);
      }
    }
  }

  private OverwriteMark mark(JobContext context) throws IOException {
    Configuration conf = context.getConfiguration();
    FileSystem system = output.getFileSystem(conf);
    return new OverwriteMark(system, output, new Path(conf.get(REPLACED)), getJobAttemptPath(context));
  }

  /** Hadoop calls this in {@link #commitJob}, after it has moved all files. */
  @Override
  @SuppressWarnings("deprecation")
  public void cleanupJob(JobContext context) throws IOException {
    OverwriteMark mark = mark(context);
    mark.require();
    mark.remove();
  }

  /** Hadoop's would remove the temporary files of all jobs. */
  @Override
  public void abortJob(JobContext context, JobStatus.State state) throws IOException {
    mark(context).remove();
  }

  @Override
  public void commitJob(JobContext context) throws IOException {
    commitNew(context);
    FileSystem system = output.getFileSystem(context.getConfiguration());
    Path mark = system.makeQualified(new Path(output, SUCCEEDED_FILE_NAME));
    old.removeIf(file -> file.equals(mark) && context.getConfiguration().getBoolean(MARKS_SUCCESS, true));
    deleteOld(system);
    String table = context.getConfiguration().get(TABLE);
    if (!table.isEmpty()) {
      Path replaced = system.makeQualified(new Path(context.getConfiguration().get(REPLACED)));
      dropPartitions(SparkSession.active(), table, replaced, system);
    }
  }

  /** Moves the new files into place. If that fails, deletes those that were moved. */
  private void commitNew(JobContext context) throws IOException {
    FileSystem system = output.getFileSystem(context.getConfiguration());
    mark(context).require();
    List<Path> added = added(system, context);
    Set<Path> parents = parents(system, added);
    refuseLinks(parents);
    try {
      super.commitJob(context);
    } catch (IOException | RuntimeException error) {
      try {
        deleteNew(system, added, parents);
      } catch (IOException | RuntimeException another) {
        error.addSuppressed(another);
      }
      throw error;
    }
  }

  /** Where the files of the committed tasks will be, except in the place of an old file. */
  private List<Path> added(FileSystem system, JobContext context) throws IOException {
    Path target = system.makeQualified(output);
    Set<Path> added = new HashSet<>();
    for (FileStatus task : system.listStatus(getJobAttemptPath(context))) {
      if (!task.getPath().getName().equals(PENDING_DIR_NAME)) { // not of tasks that have not committed
        addFiles(system, task.getPath(), target, added);
      }
    }
    added.removeAll(Set.copyOf(old));
    return List.copyOf(added);
  }

  /** Adds the path that each file below {@code directory} has when it is moved to {@code target}. */
  private static void addFiles(FileSystem system, Path directory, Path target, Set<Path> added) throws IOException {
    // FileSystem.listFiles also asks for blocks, and starts a process for each local file
    for (FileStatus each : system.listStatus(directory)) {
      Path moved = Path.mergePaths(target, new Path(Path.SEPARATOR + each.getPath().getName()));
      if (each.isFile()) {
        added.add(moved);
      } else {
        addFiles(system, each.getPath(), moved, added);
      }
    }
  }

  /** The directories of new files, below the output. */
  private Set<Path> parents(FileSystem system, List<Path> added) {
    Path target = system.makeQualified(output);
    Set<Path> parents = new HashSet<>();
    for (Path file : added) {
      for (Path each = file.getParent(); !each.equals(target) && parents.add(each); each = each.getParent()) {}
    }
    return parents;
  }

  /** New files would be moved through an old link, and be lost when the link is deleted. */
  private void refuseLinks(Set<Path> parents) throws IOException {
    Set<Path> existing = Set.copyOf(old);
    for (Path each : parents) {
      if (existing.contains(each) && LocalPaths.isLink(each)) {
        throw new IOException(
            each
                + " is a symbolic link, and this overwrite has new files for that directory. It has replaced nothing. "
                + "Put a directory in the place of the link, or remove it, and run the overwrite again");
      }
    }
  }

  /** Deletes the files and the directories that a failed commit has made. */
  private void deleteNew(FileSystem system, List<Path> added, Set<Path> parents) throws IOException {
    Map<Path, IOException> errors = delete(system, added);
    if (!errors.isEmpty()) {
      throw new IOException(
          String.format(
              "the old files are kept, but of %d new files %d could not be deleted. Delete them by hand, or their rows "
                  + "are read too: %s",
              added.size(),
              errors.size(),
              named(errors)),
          errors.values().iterator().next());
    }
    Set<Path> made = new HashSet<>(parents);
    made.removeAll(Set.copyOf(directories));
    made.removeIf(LocalPaths::isLink);
    deleteEmpty(system, made.stream().sorted(Comparator.comparingInt(Path::depth).reversed()).toList());
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

  /**
   * Adds all files below a directory to the old ones. Does not follow links.
   *
   * @param pending the directory of the jobs' temporary files
   */
  private void collect(FileSystem system, Path directory, Path pending) throws IOException {
    for (FileStatus each : system.listStatus(directory)) {
      if (each.isFile() || LocalPaths.isLink(each.getPath())) {
        old.add(each.getPath());
      } else if (!each.getPath().equals(pending)) {
        collect(system, each.getPath(), pending);
        directories.add(each.getPath());
      }
    }
  }

  private void deleteOld(FileSystem system) throws IOException {
    Map<Path, IOException> errors = delete(system, old);
    if (!errors.isEmpty()) {
      throw new IOException(
          String.format(
              "the new files were written, but %d of the %d files that they replace could not be deleted. Delete them "
                  + "by hand, or their rows are read too: %s",
              errors.size(),
              old.size(),
              named(errors)),
          errors.values().iterator().next());
    }
    deleteEmpty(system, directories);
  }

  private static Map<Path, IOException> delete(FileSystem system, Collection<Path> files) {
    Map<Path, IOException> errors = new ConcurrentHashMap<>();
    files.parallelStream() // each request to an object store takes a while
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
    return errors;
  }

  private static String named(Map<Path, IOException> errors) {
    String names = errors.keySet().stream().limit(MAX_NAMED).map(Path::toString).collect(Collectors.joining(", "));
    return errors.size() > MAX_NAMED ? names + ", …" : names;
  }

  /** @param directories each after those in it */
  private static void deleteEmpty(FileSystem system, List<Path> directories) {
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
