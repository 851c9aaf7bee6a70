package io.bloomparquet.spark.planner;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The files of a scan, as they are sent to the planner: all sizes (bytes) and all modification times (milliseconds) as
 * big-endian longs, then all paths in UTF-8, each followed by a zero byte. The planner recognizes a listing by its
 * bytes.
 */
record FileListing(int count, byte[] bytes) {

  static FileListing of(List<ListedFile> files) throws PlannerException {
    StringBuilder paths = new StringBuilder((int) Math.min(128L * files.size(), PlannerProcess.MAX_FRAME_BYTES));
    for (ListedFile file : files) {
      paths.append(file.path()).append('\0');
    }
    byte[] text = paths.toString().getBytes(StandardCharsets.UTF_8);
    long size = 2L * Long.BYTES * files.size() + text.length;
    if (size > PlannerProcess.MAX_FRAME_BYTES) {
      throw new PlannerException(
          String.format(
              "the listing of %d files takes %d bytes; the planner accepts at most %d",
              files.size(), size, PlannerProcess.MAX_FRAME_BYTES));
    }
    ByteBuffer buffer = ByteBuffer.allocate((int) size);
    files.forEach(file -> buffer.putLong(file.size()));
    files.forEach(file -> buffer.putLong(file.modified()));
    buffer.put(text);
    return new FileListing(files.size(), buffer.array());
  }
}
