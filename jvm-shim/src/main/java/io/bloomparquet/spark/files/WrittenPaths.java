package io.bloomparquet.spark.files;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.Path;

/** Which directories this JVM has written files into, and in which order: who listed one before should list it again. */
public final class WrittenPaths {
  private static final AtomicLong CLOCK = new AtomicLong();
  private static final Map<Path, Long> WRITTEN = new ConcurrentHashMap<>();

  private WrittenPaths() {}

  public static void add(Path directory) {
    WRITTEN.put(directory, CLOCK.incrementAndGet());
  }

  public static long now() {
    return CLOCK.get();
  }

  /** When one of {@code directories} was written last; 0 if never. */
  public static long version(List<Path> directories) {
    return WRITTEN.isEmpty() ? 0 : directories.stream().mapToLong(each -> WRITTEN.getOrDefault(each, 0L)).max().orElse(0);
  }
}
