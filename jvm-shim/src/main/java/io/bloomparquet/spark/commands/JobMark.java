package io.bloomparquet.spark.commands;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Optional;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A file in a job's temporary directory that names the process of the job: "pid start host". */
final class JobMark {
  private static final String NAME = "_temporary/.bloomparquet-job";
  private static final long DAY_MILLIS = 24L * 60 * 60 * 1000;
  private static final int MAX_BYTES = 4096;

  private JobMark() {}

  static void make(FileSystem system, Path job) throws IOException {
    try (FSDataOutputStream out = system.create(new Path(job, NAME), true)) {
      ProcessHandle self = ProcessHandle.current();
      out.write((self.pid() + " " + startOf(self) + " " + host()).getBytes(StandardCharsets.UTF_8));
    }
  }

  static boolean isIn(FileSystem system, Path job) throws IOException {
    return system.exists(new Path(job, NAME));
  }

  /** Deletes the directories of jobs whose process is gone; of another host's jobs, those whose mark is a day old. */
  static void sweep(FileSystem system, Path jobs) throws IOException {
    FileStatus[] children;
    try {
      children = system.listStatus(jobs);
    } catch (FileNotFoundException none) {
      return;
    }
    for (FileStatus job : children) {
      if (job.isDirectory() && isIn(system, job.getPath()) && isAbandoned(system, job.getPath())) {
        system.delete(job.getPath(), true);
      }
    }
  }

  private static boolean isAbandoned(FileSystem system, Path job) throws IOException {
    Path mark = new Path(job, NAME);
    try (FSDataInputStream in = system.open(mark)) {
      String[] parts = new String(in.readNBytes(MAX_BYTES), StandardCharsets.UTF_8).split(" ", 3);
      if (parts.length == 3 && parts[2].equals(host()) && !parts[2].equals("?")) {
        Optional<ProcessHandle> process = ProcessHandle.of(Long.parseLong(parts[0]));
        return process.isEmpty() || !startOf(process.get()).equals(parts[1]);
      }
    } catch (FileNotFoundException gone) {
      return false;
    } catch (NumberFormatException error) {
      // incomplete: the process was killed while it wrote the mark
    }
    return system.getFileStatus(mark).getModificationTime() < System.currentTimeMillis() - DAY_MILLIS;
  }

  private static String startOf(ProcessHandle process) {
    return process.info().startInstant().map(Instant::toString).orElse("?");
  }

  private static String host() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException error) {
      return "?";
    }
  }

  /** Deletes a directory if it is empty. */
  static void removeIfEmpty(FileSystem system, Path directory) throws IOException {
    try {
      if (system.listStatus(directory).length == 0) {
        system.delete(directory, false);
      }
    } catch (FileNotFoundException gone) {
      // deleted by another job
    }
  }
}
