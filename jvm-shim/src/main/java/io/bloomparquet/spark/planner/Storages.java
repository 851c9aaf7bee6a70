package io.bloomparquet.spark.planner;

import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.files.PresentVersions;
import io.bloomparquet.spark.support.DaemonThreads;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.ServiceConfigurationError;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * The storages that this JVM reads for planners. A storage is one of Hadoop's {@link FileSystem} objects. The planner
 * knows its number, and keeps what it read through one number apart from all others. So sessions for which Hadoop has
 * different objects share nothing.
 */
final class Storages {
  private static final int MAX_OPEN = 64;
  private static final int MAX_FIRST = 10_000;
  private static final Map<String, String> ENDPOINTS = Map.of("s3", "fs.s3a.endpoint", "gs", "fs.gs.storage.root.url");
  private static final Map<Integer, Storage> OPEN = new LinkedHashMap<>(16, 0.75f, true); // the last used is last
  private static final Map<String, Integer> FIRST = new HashMap<>();
  private static int numbers;

  private Storages() {}

  /**
   * @param root scheme and authority
   * @param key names the files in caches: the URI, and the endpoint if the settings name one
   * @param isFirst whether no other storage had this key before. Only the first one uses the cache on disk, where
   *     nothing tells credentials apart.
   * @param settings that opened it; null if Hadoop caches the object
   */
  record Storage(int number, String root, String key, boolean isFirst, FileSystem files, Settings settings) {}

  /** Whose settings, and a hash of them. */
  private record Settings(UserGroupInformation user, String digest) {}

  /**
   * The storages of those of these paths that are not local, by their roots.
   *
   * @param opener opens them; null for Hadoop
   */
  static Map<String, Storage> of(
      Collection<Path> paths, PresentVersions.Opener opener, Supplier<Configuration> conf) throws PlannerException {
    Map<String, Storage> storages = new LinkedHashMap<>();
    Configuration settings = null;
    for (Path path : paths) {
      if (!LocalPaths.isLocal(path)) {
        settings = settings == null ? conf.get() : settings;
        try {
          storages.put(root(path), of(path, opener, settings));
        } catch (IOException | RuntimeException | LinkageError | ServiceConfigurationError error) {
          throw new PlannerException("cannot open " + root(path) + ": " + error);
        }
      }
    }
    return storages;
  }

  /** Opens file systems outside of the lock: that may take long, and {@link #numbered} must not wait. */
  private static Storage of(Path path, PresentVersions.Opener opener, Configuration conf) throws IOException {
    String root = root(path);
    // Hadoop keeps one object for each root and user, whatever is set later, unless it is told not to.
    boolean isCached =
        opener != null || !conf.getBoolean("fs." + path.toUri().getScheme() + ".impl.disable.cache", false);
    Settings settings = isCached ? null : settings(conf);
    FileSystem cached = opener != null ? opener.open(path) : isCached ? path.getFileSystem(conf) : null;
    Predicate<Storage> isSame =
        each -> isCached ? each.files.equals(cached) : each.root.equals(root) && settings.equals(each.settings);
    Storage known = find(isSame);
    if (known != null) {
      return known;
    }
    FileSystem files = isCached ? cached : path.getFileSystem(conf);
    String key = key(files, conf);
    synchronized (OPEN) {
      known = find(isSame); // another plan may have opened it meanwhile
      return known == null ? add(root, key, files, settings) : known;
    }
  }

  private static Storage find(Predicate<Storage> isSame) {
    synchronized (OPEN) {
      for (Storage each : OPEN.values()) {
        if (isSame.test(each)) {
          return OPEN.get(each.number); // marks it as used
        }
      }
      return null;
    }
  }

  private static Storage add(String root, String key, FileSystem files, Settings settings) {
    int number = ++numbers;
    boolean isFirst = FIRST.size() < MAX_FIRST && FIRST.computeIfAbsent(key, each -> number) == number;
    Storage opened = new Storage(number, root, key, isFirst, files, settings);
    OPEN.put(number, opened);
    for (Iterator<Storage> eldest = OPEN.values().iterator(); OPEN.size() > MAX_OPEN; ) {
      Storage last = eldest.next();
      eldest.remove();
      if (last.settings != null) { // nobody else has the object
        DaemonThreads.of(() -> close(last.files), "bloomparquet-close").start();
      }
    }
    return opened;
  }

  /** The storage with this number; null if it was closed. */
  static Storage numbered(int number) {
    synchronized (OPEN) {
      return OPEN.get(number);
    }
  }

  /** The scheme and the authority of a path. The planner finds them at the beginning of the path. */
  static String root(Path path) {
    String authority = path.toUri().getAuthority();
    return path.toUri().getScheme() + ":" + (authority == null ? "" : "//" + authority);
  }

  private static String key(FileSystem files, Configuration conf) {
    Configuration used = files.getConf() == null ? conf : files.getConf(); // S3A has put the bucket's settings there
    String scheme = files.getUri().getScheme();
    String endpoint = used.getTrimmed(ENDPOINTS.getOrDefault(scheme, "fs." + scheme + ".endpoint"), "");
    return files.getUri() + (endpoint.isEmpty() ? "" : "?endpoint=" + endpoint);
  }

  /** Settings of SQL are left out: they open no storage, and differ from query to query. */
  private static Settings settings(Configuration conf) throws IOException {
    Map<String, String> settings = new TreeMap<>();
    for (Map.Entry<String, String> each : conf) {
      if (!each.getKey().startsWith("spark.sql.") && !each.getKey().startsWith("spark.datasource.bloom")) {
        settings.put(each.getKey(), each.getValue());
      }
    }
    try {
      byte[] text = settings.toString().getBytes(StandardCharsets.UTF_8);
      String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text));
      return new Settings(UserGroupInformation.getCurrentUser(), digest);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // every Java has it
    }
  }

  private static void close(FileSystem files) {
    try {
      files.close();
    } catch (IOException error) {
      // nothing was written to it
    }
  }
}
