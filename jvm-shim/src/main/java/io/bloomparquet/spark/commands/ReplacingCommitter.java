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
 * Commits a job like Hadoop's committer, and then deletes the files that the job replaces. A failed job leaves the old
 * files and nothing else. So does a killed job, unless it was already moving new files into place or deleting old ones:
 * then no file is lost, but some old and some new files are there.
 *
 * <p>Each job has a directory of its own in {@code _temporary}, and deletes it, and those of jobs whose process is
 * gone. Hadoop's committer uses one directory for all jobs: a job then commits what a killed job left there, and the
 * first job to commit deletes everything. If such a job deleted our directory, the {@link JobMark} is gone, and this
 * job fails.
 */
public final class ReplacingCommitter extends FileOutputCommitter {
  private static final String PARTITIONS = "bloomparquet.overwritten.partitions";
  private static final String TARGET = "bloomparquet.overwritten.path";
  private static final String ATTEMPT = "mapreduce.job.application.attempt.id";
  private static final String MARKS_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs";
  private static final int THREADS = 8;
  private static final int MAX_NAMED = 10;

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
   * @param partitions whether to delete the old files of the partitions that the job writes to
   * @param target the directory whose files, as of the job's start, are deleted; null for none
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
      // ADD JAR sets the class loader of the calling thread only
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
              + " has removed the temporary files of this job; nothing was committed: run this job again");
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

  /** Deletes the directory of this job only. Hadoop's committer deletes those of all jobs. */
  @Override
  @SuppressWarnings("deprecation") // Hadoop still calls it
  public void cleanupJob(JobContext context) throws IOException {
    Path job = getJobAttemptPath(context);
    FileSystem system = job.getFileSystem(context.getConfiguration());
    system.delete(job, true);
    JobMark.removeIfEmpty(system, job.getParent());
  }

  /** All files below a directory, without those of running jobs. Does not follow links. */
  private List<Path> files(Path directory, Configuration conf) throws IOException {
    FileSystem system = directory.getFileSystem(conf);
    List<Path> files = new ArrayList<>();
    if (system.exists(directory)) {
      collect(system, directory, system.makeQualified(new Path(output, PENDING_DIR_NAME)), files);
    }
    return files;
  }

  private static void collect(FileSystem system, Path directory, Path pending, List<Path> files) throws IOException {
    for (FileStatus each : system.listStatus(directory)) {
      Path path = each.getPath();
      TableLog log = RealPaths.isLink(path) ? null : TableLog.at(path, each.isDirectory());
      if (log != null) {
        throw log.unwritable();
      }
      if (each.isFile() || RealPaths.isLink(path)) {
        files.add(path);
      } else if (!path.equals(pending)) {
        collect(system, path, pending, files);
      }
    }
  }

  private static boolean deleteOne(FileSystem system, Path file) throws IOException {
    if (RealPaths.isLink(file)) {
      return Files.deleteIfExists(RealPaths.local(file));
    }
    return system.delete(file, false) || !system.exists(file);
  }

  /** The partition directories of the finished tasks' files, relative to the output. */
  private Set<String> partitions(JobContext context) throws IOException {
    Path job = getJobAttemptPath(context);
    FileSystem system = job.getFileSystem(context.getConfiguration());
    Set<String> partitions = new TreeSet<>();
    for (FileStatus task : system.listStatus(job, path -> !path.getName().equals(PENDING_DIR_NAME))) {
      RemoteIterator<LocatedFileStatus> each = system.listFiles(task.getPath(), true);
      while (each.hasNext()) {
        Path directory = each.next().getPath().getParent();
        if (!directory.equals(task.getPath())) {
          partitions.add(task.getPath().toUri().relativize(directory.toUri()).getPath());
        }
      }
    }
    return partitions;
  }

  private void delete(FileSystem system) throws IOException {
    Map<Path, Future<Boolean>> deleted = new HashMap<>();
    ExecutorService threads = Executors.newFixedThreadPool(Math.min(THREADS, old.size()));
    try {
      old.forEach(file -> deleted.put(file, threads.submit(() -> deleteOne(system, file))));
    } finally {
      threads.shutdown();
    }
    List<String> undeleted = new ArrayList<>();
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
      undeleted.add(each.getKey().toString());
    }
    if (!undeleted.isEmpty()) {
      throw new IOException(
          String.format(
              "the new files were written, but %d of the %d files that they replace could not be deleted. Delete them by "
                  + "hand, or their rows are read too: %s%s",
              undeleted.size(),
              old.size(),
              String.join(", ", undeleted.subList(0, Math.min(MAX_NAMED, undeleted.size()))),
              undeleted.size() > MAX_NAMED ? ", …" : ""),
          cause);
    }
    for (Path directory : directories) {
      removeIfEmpty(directory, system);
    }
  }

  /** Deletes an empty directory, and its empty ancestors below the output. */
  private void removeIfEmpty(Path directory, FileSystem system) {
    Path root = system.makeQualified(output);
    try {
      for (Path each = directory; !each.equals(root) && !each.isRoot(); each = each.getParent()) {
        if (system.exists(each) && (system.listStatus(each).length > 0 || !system.delete(each, false))) {
          return;
        }
      }
    } catch (IOException error) {
      // another job has just put a file there
    }
  }
}
