package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.files.FileVersion;
import java.nio.LongBuffer;

/**
 * The versions that the files of a listing had when a planner looked at them.
 *
 * @param planner the process that numbered these versions
 * @param revision their number; 0 if the versions are unknown
 * @param numbers for all files the size, the modification time, the inode, the change time
 */
record FileVersions(PlannerProcess planner, long revision, LongBuffer numbers) {
  static final int FIELDS = 4;

  /** The planner does not know the versions of files that are not local. */
  static final FileVersions UNKNOWN = new FileVersions(null, 0, LongBuffer.allocate(0));

  /** The version of the file at this position; null if it is unknown. */
  FileVersion of(int file) {
    int files = numbers.limit() / FIELDS;
    return files == 0
        ? null
        : new FileVersion(
            numbers.get(file),
            numbers.get(files + file),
            numbers.get(2 * files + file),
            numbers.get(3 * files + file));
  }
}
