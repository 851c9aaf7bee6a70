package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.files.FileVersion;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The statuses that files had when a plan began. While the plan runs, its reads open the files with them. So S3A and ABFS
 * ask for nothing first, and refuse to read a version that has another ETag: the read is pinned to the version. After
 * other reads the plan must look again.
 */
final class Look {
  private static final Queue<Look> RUNNING = new ConcurrentLinkedQueue<>();

  private final Map<Path, FileStatus> statuses;
  private volatile boolean readUnpinned;

  private Look(Map<Path, FileStatus> statuses) {
    this.statuses = statuses;
  }

  static Look begin(Map<Path, FileStatus> statuses) {
    Look look = new Look(statuses);
    RUNNING.add(look);
    return look;
  }

  void end() {
    RUNNING.remove(this);
  }

  /** Whether a file was read that may have been of another version. */
  boolean readUnpinned() {
    return readUnpinned;
  }

  /** The status with which {@code files} reads this version of a file; null if no running plan has looked at it. */
  static FileStatus of(Path path, FileVersion version, FileSystem files) {
    for (Look each : RUNNING) {
      FileStatus status = each.statuses.get(path);
      if (status != null && version.isStill(FileVersion.of(status))) {
        if (!isPinned(status, files)) {
          RUNNING.stream().filter(look -> look.statuses.containsKey(path)).forEach(look -> look.readUnpinned = true);
        }
        return status;
      }
    }
    return null;
  }

  private static boolean isPinned(FileStatus status, FileSystem files) {
    boolean hasEtag = status instanceof EtagSource source && source.getEtag() != null && !source.getEtag().isEmpty();
    String connector = files.getClass().getName();
    boolean comparesEtags =
        connector.startsWith("org.apache.hadoop.fs.s3a.") || connector.startsWith("org.apache.hadoop.fs.azurebfs.");
    Configuration conf = files.getConf();
    return hasEtag
        && comparesEtags
        && conf != null
        && conf.get("fs.s3a.change.detection.mode", "server").equals("server")
        && conf.get("fs.s3a.change.detection.source", "etag").equals("etag")
        && !conf.getBoolean("fs.azure.io.read.tolerate.concurrent.append", false);
  }
}
