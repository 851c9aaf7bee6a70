package io.bloomparquet.spark.commands;

import io.bloomparquet.spark.files.RealPaths;
import io.bloomparquet.spark.files.TableLog;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Commits a job as Hadoop's committer does, and then deletes the files in whose place the new ones are. A job that
 * fails leaves the old ones as they were and nothing else; one that is killed does so as well, unless it was moving the
 * new files to where they belong or deleting the old ones. Then no file is lost, and some of both are there.
 *
 * <p>What a job has in {@code _temporary} is no other's: each has a number of its own there, and removes that and what
 * jobs have left of which the process is gone. Hadoop gives all jobs the number 0, and with it to the next one the files
 * of a killed one that it had not committed; and the first one to commit removes everything. Where such a job has removed
 * what is ours, there is no {@link JobMark} any more, and this one fails.
 */
public final class ReplacingCommitter extends FileOutputCommitter {
  private static final String PARTITIONS = "bloomparquet.overwritten.partitions";
  private static final String TARGET = "bloomparquet.overwritten.path";
  private static final String ATTEMPT = "mapreduce.job.application.attempt.id";
  private static final String MARKS_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs";
  private static final int THREADS = 8;
  private static final int NAMED = 10;

  private final Path output;
  private List<Path> old = new ArrayList<>();
  /** Called by Spark, on the driver once for the job and on executors for each task. */
  public ReplacingCommitter(Path output, TaskAttemptContext context) throws IOException {
    super(output, context);
    this.output = output;
  }

  /**
   * Makes this the committer of a job.
   *
   * @param partitions whether to delete what is in the partitions that the job writes to
   * @param target of which directory to delete what is in it before the job; null for none
   */
  static void prepare(Configuration job, boolean partitions, String target) {
    job.setBoolean(PARTITIONS, partitions);
    job.unset(TARGET);
    if (target != null) {
      job.set(TARGET, target);
    }
    job.setInt(ATTEMPT, ThreadLocalRandom.current().nextInt(1, Integer.MAX_VALUE));
    String name = ReplacingCommitter.class.getName();
    job.set(SQLConf.OUTPUT_COMMITTER_CLASS().key(), name);
    if (job.getClassByNameOrNull(name) == null) {
      // ADD JAR tells only the thread in which it was called.
      job.setClassLoader(ReplacingCommitter.class.getClassLoader());
    }
  }

  @Override
  public void setupJob(JobContext context) throws IOException {
    String target = context.getConfiguration().get(TARGET);
    if (target != null) {
      old = files(new Path(target), context.getConfiguration());
    }
    FileSystem system = output.getFileSystem(context.getConfiguration());
    JobMark.sweep(system, getJobAttemptPath(context).getParent());
    super.setupJob(context);
    JobMark.make(system, getJobAttemptPath(context));
  }

  @Override
  public void commitJob(JobContext context) throws IOException {
    Configuration conf = context.getConfiguration();
    if (!JobMark.isIn(output.getFileSystem(conf), getJobAttemptPath(context))) {
      throw new IOException(
          "another job that wrote to "
              + output
              + " has removed what the tasks of this one had written; nothing of it is committed: run it again");
    }
    if (conf.getBoolean(PARTITIONS, false)) {
      old = new ArrayList<>();
      for (String partition : partitions(context)) {
        old.addAll(files(new Path(output, partition), conf));
      }
    }
    super.commitJob(context);
    FileSystem system = output.getFileSystem(conf);
    Path mark = system.makeQualified(new Path(output, SUCCEEDED_FILE_NAME));
    old.removeIf(file -> file.equals(mark) && conf.getBoolean(MARKS_SUCCESS, true));
    if (!old.isEmpty()) {
      delete(system);
    }
  }

  /** Only what is this job's; Hadoop removes what all jobs have there. */
  @Override
  @SuppressWarnings("deprecation") // which is what Hadoop itself calls, and others override
  public void cleanupJob(JobContext context) throws IOException {
    Path job = getJobAttemptPath(context);
    FileSystem system = job.getFileSystem(context.getConfiguration());
    system.delete(job, true);
    JobMark.removeIfEmpty(system, job.getParent());
  }

  /** All files in a directory and those below it, but for those that are in the making; links are not followed. */
  private List<Path> files(Path directory, Configuration conf) throws IOException {
    FileSystem system = directory.getFileSystem(conf);
    List<Path> found = new ArrayList<>();
    if (system.exists(directory)) {
      gather(system, directory, system.makeQualified(new Path(output, PENDING_DIR_NAME)), found);
    }
    return found;
  }

  private static void gather(FileSystem system, Path directory, Path making, List<Path> found) throws IOException {
    for (FileStatus each : system.listStatus(directory)) {
      Path path = each.getPath();
      TableLog log = RealPaths.isLink(path) ? null : TableLog.at(path, each.isDirectory());
      if (log != null) {
        throw log.unwritable();
      }
      if (each.isFile() || RealPaths.isLink(path)) {
        found.add(path);
      } else if (!path.equals(making)) {
        gather(system, path, making, found);
      }
    }
  }

  private static boolean deleteOne(FileSystem system, Path file) throws IOException {
    if (RealPaths.isLink(file)) {
      return Files.deleteIfExists(RealPaths.local(file));
    }
    return system.delete(file, false) || !system.exists(file);
  }

  /** Where the files of the finished tasks belong, as directories below the output's. */
  private Set<String> partitions(JobContext context) throws IOException {
    Path job = getJobAttemptPath(context);
    FileSystem system = job.getFileSystem(context.getConfiguration());
    Set<String> found = new TreeSet<>();
    for (FileStatus task : system.listStatus(job, path -> !path.getName().equals(PENDING_DIR_NAME))) {
      RemoteIterator<LocatedFileStatus> each = system.listFiles(task.getPath(), true);
      while (each.hasNext()) {
        Path directory = each.next().getPath().getParent();
        if (!directory.equals(task.getPath())) {
          found.add(task.getPath().toUri().relativize(directory.toUri()).getPath());
        }
      }
    }
    return found;
  }

  private void delete(FileSystem system) throws IOException {
    Map<Path, Future<Boolean>> deleted = new HashMap<>();
    ExecutorService threads = Executors.newFixedThreadPool(Math.min(THREADS, old.size()));
    try {
      old.forEach(file -> deleted.put(file, threads.submit(() -> deleteOne(system, file))));
    } finally {
      threads.shutdown();
    }
    List<String> left = new ArrayList<>();
    IOException cause = null;
    Set<Path> directories = new HashSet<>();
    for (Map.Entry<Path, Future<Boolean>> each : deleted.entrySet()) {
      try {
        if (each.getValue().get()) {
          directories.add(each.getKey().getParent());
          continue;
        }
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        cause = new IOException("interrupted", error);
      } catch (ExecutionException error) {
        cause = new IOException(error.getCause());
      }
      left.add(each.getKey().toString());
    }
    if (!left.isEmpty()) {
      throw new IOException(
          String.format(
              "the new rows were written, but %d of the %d files that they replace could not be deleted, and must be by "
                  + "hand, or rows are read twice: %s%s",
              left.size(),
              old.size(),
              String.join(", ", left.subList(0, Math.min(NAMED, left.size()))),
              left.size() > NAMED ? ", …" : ""),
          cause);
    }
    for (Path directory : directories) {
      removeIfEmpty(directory, system);
    }
  }

  /** With the directories above it, up to the output's. */
  private void removeIfEmpty(Path directory, FileSystem system) {
    Path root = system.makeQualified(output);
    try {
      for (Path each = directory; !each.equals(root) && !each.isRoot(); each = each.getParent()) {
        if (system.exists(each) && (system.listStatus(each).length > 0 || !system.delete(each, false))) {
          return;
        }
      }
    } catch (IOException error) {
      // Somebody has just put a file there.
    }
  }
}
