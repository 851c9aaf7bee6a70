package io.bloomparquet.spark.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Resolves symbolic links in paths. An instance caches the directories that it resolved, so it serves one check only:
 * ten thousand files of one directory cost one resolution.
 */
public final class RealPaths {
  private static final Set<String> RESOLVING = Set.of("hdfs", "viewfs");
  private static final int MOST_LINKS = 40;

  private final Configuration conf;
  private final Map<Path, Resolved> directories = new HashMap<>();

  public RealPaths(Configuration conf) {
    this.conf = conf;
  }

  /**
   * A path without links.
   *
   * @param links the links that led to it, each by its name in its real directory
   */
  private record Resolved(Path path, Set<Path> links) {}

  public static boolean isLocal(Path path) {
    return "file".equals(path.toUri().getScheme());
  }

  public static java.nio.file.Path local(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }

  /** Whether a local path is a symbolic link. Hadoop reports the link's target instead. */
  public static boolean isLink(Path path) {
    return isLocal(path) && Files.isSymbolicLink(local(path));
  }

  /** Whether {@code path} is {@code directory} or lies in it. Compares names only. */
  public static boolean isIn(Path directory, Path path) {
    String authority = directory.toUri().getAuthority();
    return (authority == null ? path.toUri().getAuthority() == null : authority.equals(path.toUri().getAuthority()))
        && slashed(path).startsWith(slashed(directory));
  }

  private static String slashed(Path path) {
    String text = path.toUri().getPath();
    return text.endsWith("/") ? text : text + "/";
  }

  /** {@code path} without links. Parts that do not exist stay as they are. */
  public Path of(Path path) throws IOException {
    Path qualified = path.toUri().getScheme() == null ? path.getFileSystem(conf).makeQualified(path) : path;
    return isLocal(qualified) ? resolved(qualified, MOST_LINKS).path() : resolvedElsewhere(qualified);
  }

  /** The paths that vanish when {@code path} is deleted: its target, and the name itself, which may be a link. */
  public List<Path> deletedWith(Path path) throws IOException {
    List<Path> deleted = new ArrayList<>(List.of(of(path)));
    if (!path.isRoot()) {
      deleted.add(new Path(of(path.getParent()), path.getName()));
    }
    return deleted;
  }

  /** The paths that must exist to read {@code files} in {@code roots}: the files, and every link that leads to them. */
  public Set<Path> neededBy(List<Path> roots, List<Path> files) throws IOException {
    Map<Path, Path> realRoots = new HashMap<>();
    for (Path root : roots) {
      if (!isLocal(root) && !of(root).equals(root)) {
        realRoots.put(root, of(root));
      }
    }
    Set<Path> needed = new LinkedHashSet<>();
    for (Path file : files) {
      if (isLocal(file)) {
        Resolved resolved = resolved(file, MOST_LINKS);
        needed.addAll(resolved.links());
        needed.add(resolved.path());
      } else {
        needed.add(file);
        realRoots.forEach(
            (root, real) -> {
              if (isIn(root, file)) {
                needed.add(new Path(real + slashed(file).substring(slashed(root).length() - 1)));
              }
            });
      }
    }
    return needed;
  }

  private Resolved resolved(Path path, int links) throws IOException {
    if (path.isRoot()) {
      return new Resolved(path, Set.of());
    }
    Resolved parent = directories.get(path.getParent());
    if (parent == null) {
      parent = resolved(path.getParent(), links);
      directories.put(path.getParent(), parent);
    }
    Path name = new Path(parent.path(), path.getName());
    if (links == 0 || !isLink(name)) {
      return new Resolved(name, parent.links());
    }
    java.nio.file.Path target = local(parent.path()).resolve(Files.readSymbolicLink(local(name)));
    Resolved end = resolved(withoutParents(target), links - 1);
    Set<Path> all = new LinkedHashSet<>(parent.links());
    all.add(name);
    all.addAll(end.links());
    return new Resolved(end.path(), all);
  }

  /** {@code ..} after a link is the directory above the link's target. Hadoop's paths would drop it by name. */
  private static Path withoutParents(java.nio.file.Path path) throws IOException {
    for (java.nio.file.Path name : path) {
      if (name.toString().equals("..") && Files.exists(path)) {
        return ofLocal(path.toRealPath());
      }
    }
    return ofLocal(path.normalize());
  }

  static Path ofLocal(java.nio.file.Path path) {
    return new Path("file", null, path.toString());
  }

  /** Asks only file systems that have links or mounts. They resolve paths that exist. */
  private Path resolvedElsewhere(Path path) throws IOException {
    if (!RESOLVING.contains(path.toUri().getScheme())) {
      return path;
    }
    try {
      return path.getFileSystem(conf).resolvePath(path);
    } catch (FileNotFoundException error) {
      return path.isRoot() ? path : new Path(resolvedElsewhere(path.getParent()), path.getName());
    }
  }
}
