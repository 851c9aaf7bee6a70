package io.bloomparquet.spark.files;

import io.bloomparquet.spark.support.Scala;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.Option;

/**
 * One version of a file. A plan holds for one version of each file.
 *
 * @param size in bytes
 * @param modified modification time, in milliseconds
 * @param inode 0 if unknown, as for a file that is not local
 * @param changed change time, in nanoseconds; 0 if {@code inode} is
 */
public record FileVersion(long size, long modified, long inode, long changed) implements Serializable {
  /** Instead of the modification time of a file whose name has one content, as in a table with a log, or in an index. */
  public static final long NEVER_CHANGES = -1;

  /** The key of the version in the metadata that Spark keeps for each file. */
  private static final String KEY = "bloomparquet.version";
  private static final String ATTRIBUTES = "unix:size,lastModifiedTime,ino,ctime";

  /** The version of {@code file} that was planned. */
  public static FileVersion of(PartitionedFile file) {
    Option<Object> version = file.otherConstantMetadataColumnValues().get(KEY);
    return version.isDefined()
        ? (FileVersion) version.get()
        : new FileVersion(file.fileSize(), file.modificationTime(), 0, 0);
  }

  public static FileVersion of(FileStatus status) {
    return new FileVersion(status.getLen(), status.getModificationTime(), 0, 0);
  }

  /** The version of a file that was listed; null for null. */
  public static FileVersion ofListed(FileStatus status) {
    return status == null ? null : of(status);
  }

  /** The present version of a local file; null if the system has no inodes. */
  static FileVersion ofLocal(Path path) throws IOException {
    Map<String, Object> attributes;
    try {
      attributes = Files.readAttributes(java.nio.file.Path.of(path.toUri().getPath()), ATTRIBUTES);
    } catch (UnsupportedOperationException | IllegalArgumentException error) {
      return null;
    } catch (NoSuchFileException error) {
      throw new FileNotFoundException(path.toString());
    }
    return new FileVersion(
        (Long) attributes.get("size"),
        Math.floorDiv(nanos(attributes, "lastModifiedTime"), 1_000_000L), // as the planner rounds, also before 1970
        (Long) attributes.get("ino"),
        nanos(attributes, "ctime"));
  }

  private static long nanos(Map<String, Object> attributes, String time) {
    return ((FileTime) attributes.get(time)).to(TimeUnit.NANOSECONDS);
  }

  /** {@code file} with this version, which may be newer than the listing that {@code file} is from. */
  public FileStatusWithMetadata applyTo(FileStatusWithMetadata file) {
    FileStatus status = file.fileStatus();
    if (modified != NEVER_CHANGES && (status.getLen() != size || status.getModificationTime() != modified)) {
      status =
          new FileStatus(size, false, status.getReplication(), status.getBlockSize(), modified, status.getPath());
    }
    Map<String, Object> metadata = new HashMap<>(Scala.map(file.metadata()));
    metadata.put(KEY, this);
    return new FileStatusWithMetadata(status, Scala.map(metadata));
  }

  /** A part of {@code file} in this version, which may be newer than the listing that {@code file} is from. */
  public PartitionedFile applyTo(PartitionedFile file, long start, long length, String[] hosts) {
    Map<String, Object> metadata = new HashMap<>(Scala.map(file.otherConstantMetadataColumnValues()));
    metadata.put(KEY, this);
    long time = modified == NEVER_CHANGES ? file.modificationTime() : modified;
    return file.copy(file.partitionValues(), file.filePath(), start, length, hosts, time, size, Scala.map(metadata));
  }

  /** Whether {@code now} is the same version. An inode that either side lacks is not compared. */
  public boolean isStill(FileVersion now) {
    boolean sameFile = inode == 0 || now.inode == 0 || (inode == now.inode && changed == now.changed);
    return sameFile && size == now.size && (modified == NEVER_CHANGES || sameTime(modified, now.modified));
  }

  /** An object store may list milliseconds and report seconds for one file. */
  private static boolean sameTime(long one, long other) {
    return one == other || ((one % 1000 == 0 || other % 1000 == 0) && one / 1000 == other / 1000);
  }

  @Override
  public String toString() {
    String shown = size + " bytes" + (modified == NEVER_CHANGES ? "" : ", modified " + Instant.ofEpochMilli(modified));
    return inode == 0 ? shown : shown + ", inode " + Long.toUnsignedString(inode) + ", changed at " + changed + " ns";
  }
}
