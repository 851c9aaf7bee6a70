package io.bloomparquet.spark.files;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.Path;

/** The directories that this JVM has written to, and in which order. A listing that is older than a write is stale. */
public final class WrittenPaths {
  private static final AtomicLong CLOCK = new AtomicLong();
  private static final Map<Path, Long> WRITTEN = new ConcurrentHashMap<>();

  private WrittenPaths() {}

  public static void add(Path directory) {
    WRITTEN.put(directory, CLOCK.incrementAndGet());
  }

  /** The number of writes so far. */
  public static long now() {
    return CLOCK.get();
  }

  /** The number of the last write to one of {@code directories}; 0 if there was none. */
  public static long lastWrite(List<Path> directories) {
    return WRITTEN.isEmpty() ? 0 : directories.stream().mapToLong(each -> WRITTEN.getOrDefault(each, 0L)).max().orElse(0);
  }
}
