package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.Scala;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;

/**
 * The files of a scan, as they are sent to the planner: all sizes (bytes) and all modification times (milliseconds) as
 * big-endian longs, then all paths in UTF-8, each followed by a zero byte. The planner recognizes a listing by its
 * bytes.
 */
public record FileListing(int count, byte[] bytes) {

  public static int count(List<PartitionDirectory> directories) {
    return directories.stream().mapToInt(directory -> directory.files().size()).sum();
  }

  static FileListing of(List<PartitionDirectory> directories) throws PlannerException {
    List<FileStatusWithMetadata> files = new ArrayList<>();
    for (PartitionDirectory directory : directories) {
      files.addAll(Scala.list(directory.files()));
    }
    StringBuilder paths = new StringBuilder(128 * files.size());
    for (FileStatusWithMetadata file : files) {
      paths.append(file.getPath()).append('\0');
    }
    byte[] text = paths.toString().getBytes(StandardCharsets.UTF_8);
    long size = 2L * Long.BYTES * files.size() + text.length;
    if (size > PlannerProcess.MAX_FRAME_BYTES) {
      throw new PlannerException(
          String.format(
              "the listing of %d files takes %d bytes; the planner accepts at most %d",
              files.size(), size, PlannerProcess.MAX_FRAME_BYTES));
    }
    ByteBuffer buffer = ByteBuffer.allocate(2 * Long.BYTES * files.size() + text.length);
    files.forEach(file -> buffer.putLong(file.getLen()));
    files.forEach(file -> buffer.putLong(file.getModificationTime()));
    buffer.put(text);
    return new FileListing(files.size(), buffer.array());
  }
}
