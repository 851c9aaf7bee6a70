package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.support.Scala;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;

/**
 * The files of a scan as the planner is told of them: all sizes (bytes), all modification times (milliseconds), both as
 * big-endian longs, then all paths in UTF-8, each ended by a zero byte. The planner knows a listing again by its bytes.
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
    if (size > PlannerProcess.LARGEST_FRAME) {
      throw new PlannerException(files.size() + " files are more than a planner can be told of");
    }
    ByteBuffer buffer = ByteBuffer.allocate(2 * Long.BYTES * files.size() + text.length);
    files.forEach(file -> buffer.putLong(file.getLen()));
    files.forEach(file -> buffer.putLong(file.getModificationTime()));
    buffer.put(text);
    return new FileListing(files.size(), buffer.array());
  }
}
