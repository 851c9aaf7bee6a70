package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.files.PresentVersions;
import java.io.IOException;
import java.lang.ref.SoftReference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;

/**
 * The files of a scan, as Spark listed them, or as the log of their table names them. The planner's answers give their
 * positions here.
 *
 * <p>The planner knows a listing by its digest, so that the paths are not sent for each query. Spark keeps the statuses
 * of a DataFrame's files: a listing of the same objects is the same listing, and its digest is not computed again.
 */
public final class FileListing {
  private static final int MAX_RECENT = 16;
  private static final Deque<SoftReference<FileListing>> RECENT = new ArrayDeque<>(); // the latest is first
  private static final Map<FileIndex, SoftReference<FileListing>> LATEST = new WeakHashMap<>();

  private final FileStatus[] files;
  private final boolean neverChange;
  private final PresentVersions.Opener opener;
  private final Configuration conf;
  private String digest;
  private Collection<Path> storages;
  private volatile FileVersions versions = FileVersions.UNKNOWN;

  private FileListing(
      FileStatus[] files, boolean neverChange, PresentVersions.Opener opener, Configuration conf) {
    this.files = files;
    this.neverChange = neverChange;
    this.opener = opener;
    this.conf = conf;
  }

  /**
   * The data files of a table with a log. Their names have one content each, so only sizes are compared.
   *
   * @param opener the storages of the table; null for those of Hadoop
   * @param conf Hadoop's settings for the table; null for those of the query
   */
  public static FileListing ofTable(
      List<FileStatus> files, PresentVersions.Opener opener, Configuration conf) {
    return new FileListing(files.toArray(FileStatus[]::new), true, opener, conf);
  }

  public static FileListing of(List<FileStatusWithMetadata> files) {
    FileStatus[] statuses = files.stream().map(FileStatusWithMetadata::fileStatus).toArray(FileStatus[]::new);
    synchronized (RECENT) {
      FileListing listing = null;
      for (Iterator<SoftReference<FileListing>> each = RECENT.iterator(); each.hasNext() && listing == null; ) {
        FileListing recent = each.next().get();
        if (recent == null || recent.isOf(statuses)) {
          each.remove();
          listing = recent;
        }
      }
      listing = listing == null ? new FileListing(statuses, false, null, null) : listing;
      RECENT.addFirst(new SoftReference<>(listing));
      if (RECENT.size() > MAX_RECENT) {
        RECENT.removeLast();
      }
      return listing;
    }
  }

  /** The files that a scan of {@code location} read last; null if that is unknown. */
  public static FileListing latestOf(FileIndex location) {
    synchronized (LATEST) {
      SoftReference<FileListing> latest = LATEST.get(location);
      return latest == null ? null : latest.get();
    }
  }

  /** Remembers these files as the latest of {@code location}. */
  public void rememberFor(FileIndex location) {
    synchronized (LATEST) {
      LATEST.put(location, new SoftReference<>(this));
    }
  }

  private boolean isOf(FileStatus[] others) {
    return Arrays.equals(files, others, (one, other) -> one == other ? 0 : 1);
  }

  public int count() {
    return files.length;
  }

  public Path path(int file) {
    return files[file].getPath();
  }

  /** The version that Spark listed. */
  public FileVersion version(int file) {
    FileVersion listed = FileVersion.of(files[file]);
    return neverChange ? new FileVersion(listed.size(), FileVersion.NEVER_CHANGES, 0, 0) : listed;
  }

  /** The version that was planned; the listed one if the planner does not know it, or if the file never changes. */
  public FileVersion version(int file, PlanResult plan) {
    FileVersion planned = plan.version(file);
    return planned == null || neverChange ? version(file) : planned;
  }

  /** Whether the files are those of a table with a log. */
  public boolean neverChange() {
    return neverChange;
  }

  /** Whether the files that were planned have the listed sizes, and modification times if they may change. */
  public boolean isStill(PlanResult result) {
    for (int i = 0; i < files.length; i++) {
      FileVersion planned = result.version(i);
      if (planned != null && !version(i).isStill(planned)) {
        return false;
      }
    }
    return true;
  }

  /**
   * The present statuses of these files, none of which is local. Spark lists them when a DataFrame is loaded, and evidence
   * may have been read then or later. Throws if one no longer has the version that Spark listed.
   */
  Map<Path, FileStatus> look(PresentVersions.Opener opener, long millis) throws PlannerException {
    Map<Path, FileStatus> present;
    try {
      present = PresentVersions.of(Arrays.stream(files).map(FileStatus::getPath).toList(), opener, millis);
    } catch (IOException | RuntimeException error) {
      throw new PlannerException("cannot look at the present versions of " + files.length + " files: " + error);
    }
    for (int i = 0; i < files.length; i++) {
      FileVersion now = FileVersion.ofListed(present.get(path(i)));
      if (now == null || !version(i).isStill(now)) {
        throw new PlannerException(
            String.format(
                "%s changed since Spark listed it: expected %s, found %s. Load the DataFrame again or run REFRESH TABLE",
                path(i), version(i), now == null ? "no file" : now));
      }
    }
    return present;
  }

  /** The storages of the files that are not local, by their roots. Throws if only some of the files are local. */
  Map<String, Storages.Storage> storages(Supplier<Configuration> ofQuery) throws PlannerException {
    return Storages.of(onePerStorage(), opener, conf == null ? ofQuery : () -> conf);
  }

  private synchronized Collection<Path> onePerStorage() throws PlannerException {
    if (storages == null) {
      Map<String, Path> paths = new LinkedHashMap<>();
      for (FileStatus file : files) {
        paths.putIfAbsent(Storages.root(file.getPath()), file.getPath());
      }
      storages = paths.values();
    }
    if (storages.stream().map(LocalPaths::isLocal).distinct().count() > 1) {
      throw new PlannerException("some files of the scan are local, and others are not: " + storages);
    }
    return storages;
  }

  /** The SHA-256 of {@link #bytes}, in hexadecimal digits. */
  synchronized String digest() throws PlannerException {
    if (digest == null) {
      try {
        digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes()));
      } catch (NoSuchAlgorithmException error) {
        throw new IllegalStateException(error); // every Java has it
      }
    }
    return digest;
  }

  /**
   * The files as they are sent to the planner: all sizes (bytes) and all modification times (milliseconds, or {@link
   * FileVersion#NEVER_CHANGES}) as big-endian longs, then all paths in UTF-8, each followed by a zero byte.
   */
  byte[] bytes() throws PlannerException {
    StringBuilder paths = new StringBuilder((int) Math.min(128L * files.length, Frames.MAX_FRAME_BYTES));
    for (FileStatus file : files) {
      paths.append(file.getPath()).append('\0');
    }
    byte[] text = paths.toString().getBytes(StandardCharsets.UTF_8);
    long size = 2L * Long.BYTES * files.length + text.length;
    if (size > Frames.MAX_FRAME_BYTES) {
      throw new PlannerException(
          String.format(
              "the listing of %d files takes %d bytes; the planner accepts at most %d",
              files.length, size, Frames.MAX_FRAME_BYTES));
    }
    ByteBuffer buffer = ByteBuffer.allocate((int) size);
    for (FileStatus file : files) {
      buffer.putLong(file.getLen());
    }
    for (FileStatus file : files) {
      buffer.putLong(neverChange ? FileVersion.NEVER_CHANGES : Math.max(0, file.getModificationTime()));
    }
    return buffer.put(text).array();
  }

  /** The versions that {@code planner} told last; {@link FileVersions#UNKNOWN} if it has told none. */
  FileVersions versions(PlannerProcess planner) {
    FileVersions known = versions;
    return known.planner() == planner ? known : FileVersions.UNKNOWN;
  }

  void remember(FileVersions known) {
    versions = known;
  }
}
