package io.bloomparquet.spark.files;

import io.bloomparquet.spark.support.DaemonThreads;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Finds the present versions of files that are not local, with few requests for each storage: by listing the tree of
 * several directories, else each directory, else by asking for the file.
 *
 * <p>There may be many more files than those that are looked for. So a listing ends after as many pages as the requests
 * that it replaces.
 */
public final class PresentVersions {
  private static final int PAGE = 1000; // files that S3 lists for one request
  private static final ExecutorService THREADS = DaemonThreads.pool(32, "bloomparquet-look");

  private final FileSystem storage;
  private final Set<Path> left = ConcurrentHashMap.newKeySet();
  private final Map<Path, FileStatus> statuses = new ConcurrentHashMap<>();

  private PresentVersions(FileSystem storage) {
    this.storage = storage;
  }

  /** Finds the storage of a path. */
  @FunctionalInterface
  public interface Opener {
    FileSystem open(Path path) throws IOException;
  }

  /** The statuses of those of {@code files} that exist. Throws if this takes longer than {@code millis}. */
  public static Map<Path, FileStatus> of(Collection<Path> files, Opener opener, long millis) throws IOException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    Map<Path, FileStatus> present = new HashMap<>();
    for (List<Path> some : files.stream().collect(Collectors.groupingBy(PresentVersions::root)).values()) {
      PresentVersions look = new PresentVersions(opener.open(some.get(0)));
      look.left.addAll(some);
      look.find(end);
      present.putAll(look.statuses);
    }
    return present;
  }

  private static List<String> root(Path path) {
    return Arrays.asList(path.toUri().getScheme(), path.toUri().getAuthority());
  }

  private void find(long end) throws IOException {
    Set<Path> directories = left.stream().map(Path::getParent).collect(Collectors.toSet());
    if (directories.size() > 1 && listsTrees()) {
      Path root = directories.stream().reduce(PresentVersions::common).orElseThrow();
      await(List.of(job(() -> list(storage.listFiles(root, true), left.size(), directories.size()))), end);
    }
    Map<Path, List<Path>> rest = left.stream().collect(Collectors.groupingBy(Path::getParent));
    rest.values().removeIf(files -> files.size() == 1); // to ask for it is one request, whatever the directory holds
    await(rest.entrySet().stream().map(each -> job(() -> list(each.getKey(), each.getValue()))).toList(), end);
    await(left.stream().map(file -> job(() -> add(storage.getFileStatus(file)))).toList(), end);
  }

  /** Whether the storage lists all files below a directory at once. Spark lists by the same setting. */
  private boolean listsTrees() {
    String schemes = SQLConf.get().useListFilesFileSystemList();
    return Arrays.asList(schemes.split(",")).contains(storage.getUri().getScheme());
  }

  private static Path common(Path one, Path other) {
    while (!one.equals(other)) {
      if (one.depth() >= other.depth()) {
        one = one.getParent();
      } else {
        other = other.getParent();
      }
    }
    return one;
  }

  private void list(Path directory, List<Path> files) throws IOException {
    if (list(storage.listStatusIterator(directory), files.size(), files.size())) {
      files.forEach(left::remove); // what was not found is gone
    }
  }

  /** Adds {@code files} files from a listing. Returns false if {@code pages} of it do not have them, and there are more. */
  private boolean list(RemoteIterator<? extends FileStatus> listing, int files, int pages) throws IOException {
    for (long seen = 0; files > 0; seen++) {
      if (seen == (long) pages * PAGE) {
        return false;
      }
      if (!listing.hasNext()) {
        return true;
      }
      files -= add(listing.next()) ? 1 : 0;
    }
    return true;
  }

  private boolean add(FileStatus status) {
    boolean isWanted = left.remove(status.getPath());
    if (isWanted) {
      statuses.put(status.getPath(), status);
    }
    return isWanted;
  }

  @FunctionalInterface
  private interface Requests {
    void run() throws IOException;
  }

  private static Callable<Void> job(Requests requests) {
    return () -> {
      try {
        requests.run();
      } catch (FileNotFoundException gone) {
        // not found
      }
      return null;
    };
  }

  private static void await(List<Callable<Void>> jobs, long end) throws IOException {
    try {
      for (Future<Void> each : THREADS.invokeAll(jobs, end - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        each.get();
      }
    } catch (ExecutionException error) {
      throw error.getCause() instanceof IOException cause ? cause : new IOException(error.getCause());
    } catch (CancellationException late) {
      throw new InterruptedIOException("the storage did not answer in time");
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted");
    }
  }
}
