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
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.Option;

/**
 * What tells one version of a file from any later one. A plan is about one version of each file.
 *
 * @param size in bytes
 * @param modified modification time, in milliseconds
 * @param inode 0 where the file is not local, or the system does not tell it
 * @param changed change time, in nanoseconds; 0 as {@code inode}
 */
public record FileVersion(long size, long modified, long inode, long changed) implements Serializable {
  private static final String KEY = "bloomparquet.version"; // among the metadata of a file that Spark carries along
  private static final String ATTRIBUTES = "unix:size,lastModifiedTime,ino,ctime";
  private static final long SECOND = 1000;

  /** The version that {@code file} is planned to have. */
  public static FileVersion of(PartitionedFile file) {
    Option<Object> known = file.otherConstantMetadataColumnValues().get(KEY);
    return known.isDefined()
        ? (FileVersion) known.get()
        : new FileVersion(file.fileSize(), file.modificationTime(), 0, 0);
  }

  public static FileVersion of(FileStatus status) {
    return new FileVersion(status.getLen(), status.getModificationTime(), 0, 0);
  }

  public static boolean isLocal(Path path) {
    String scheme = path.toUri().getScheme();
    return scheme == null || scheme.equals("file");
  }

  /** The present version of a local file; null where the system tells no inodes. */
  public static FileVersion ofLocal(Path path) throws IOException {
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
        Math.floorDiv(nanos(attributes, "lastModifiedTime"), 1_000_000L), // as the planner rounds, before 1970 too
        (Long) attributes.get("ino"),
        nanos(attributes, "ctime"));
  }

  private static long nanos(Map<String, Object> attributes, String time) {
    return ((FileTime) attributes.get(time)).to(TimeUnit.NANOSECONDS);
  }

  /** The present version of any file. */
  public static FileVersion of(Path path, Configuration configuration) throws IOException {
    return of(path.getFileSystem(configuration).getFileStatus(path));
  }

  /** {@code file} as being of this version, whatever the listing says that it is from. */
  public FileStatusWithMetadata applyTo(FileStatusWithMetadata file) {
    FileStatus status = file.fileStatus();
    if (status.getLen() != size || status.getModificationTime() != modified) {
      status =
          new FileStatus(size, false, status.getReplication(), status.getBlockSize(), modified, status.getPath());
    }
    Map<String, Object> metadata = new HashMap<>(Scala.map(file.metadata()));
    metadata.put(KEY, this);
    return new FileStatusWithMetadata(status, Scala.map(metadata));
  }

  /** Whether {@code now}, which may know less, is the same version. */
  public boolean isStill(FileVersion now) {
    boolean sameFile = inode == 0 || now.inode == 0 || (inode == now.inode && changed == now.changed);
    return sameFile && size == now.size && sameTime(modified, now.modified);
  }

  /** Listings of object stores may know milliseconds where the status of one file knows seconds. */
  private static boolean sameTime(long one, long other) {
    return one == other || ((one % SECOND == 0 || other % SECOND == 0) && one / SECOND == other / SECOND);
  }

  /** @param now what was found; null if nothing was */
  public IllegalStateException changed(Path path, FileVersion now) {
    return new IllegalStateException(
        String.format(
            "%s changed after this query was planned: expected %s, found %s; rows may be missing from what was read; "
                + "load the DataFrame anew, or REFRESH TABLE, and run it again",
            path, this, now == null ? "no file" : now));
  }

  @Override
  public String toString() {
    String shown = size + " bytes, modified " + Instant.ofEpochMilli(modified);
    return inode == 0 ? shown : shown + ", inode " + Long.toUnsignedString(inode) + ", changed at " + changed + " ns";
  }
}
