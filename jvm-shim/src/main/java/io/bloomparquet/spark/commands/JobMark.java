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

/** A file in the directory of a job that says which process it belongs to: "pid start host". */
final class JobMark {
  private static final String NAME = "_temporary/.bloomparquet-job";
  private static final long A_DAY = 24L * 60 * 60 * 1000;
  private static final int MOST_BYTES = 4096;

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

  /** Removes the directories of jobs whose process is gone, or which nobody has touched for a day. */
  static void sweep(FileSystem system, Path jobs) throws IOException {
    FileStatus[] found;
    try {
      found = system.listStatus(jobs);
    } catch (FileNotFoundException none) {
      return;
    }
    for (FileStatus job : found) {
      if (job.isDirectory() && isIn(system, job.getPath()) && isLeft(system, job.getPath())) {
        system.delete(job.getPath(), true);
      }
    }
  }

  private static boolean isLeft(FileSystem system, Path job) throws IOException {
    Path mark = new Path(job, NAME);
    try (FSDataInputStream in = system.open(mark)) {
      String[] said = new String(in.readNBytes(MOST_BYTES), StandardCharsets.UTF_8).split(" ", 3);
      if (said.length == 3 && said[2].equals(host()) && !said[2].equals("?")) {
        Optional<ProcessHandle> process = ProcessHandle.of(Long.parseLong(said[0]));
        return process.isEmpty() || !startOf(process.get()).equals(said[1]);
      }
    } catch (FileNotFoundException gone) {
      return false;
    } catch (NumberFormatException error) {
      // half a mark, of a process that was killed while it wrote it
    }
    return system.getFileStatus(mark).getModificationTime() < System.currentTimeMillis() - A_DAY;
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

  /** Removes a directory with nothing in it. */
  static void removeIfEmpty(FileSystem system, Path directory) throws IOException {
    try {
      if (system.listStatus(directory).length == 0) {
        system.delete(directory, false);
      }
    } catch (FileNotFoundException gone) {
      // by another job
    }
  }
}
