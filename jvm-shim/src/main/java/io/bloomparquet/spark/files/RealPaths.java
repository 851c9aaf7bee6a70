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
 * Where paths lead when symbolic links are followed. An instance remembers the directories that it has resolved, so that
 * ten thousand files of one directory cost one resolution; it serves one check.
 */
public final class RealPaths {
  private static final Set<String> RESOLVING = Set.of("hdfs", "viewfs");
  private static final int MOST_LINKS = 40;

  private final Configuration conf;
  private final Map<Path, Resolved> directories = new HashMap<>();

  public RealPaths(Configuration conf) {
    this.conf = conf;
  }

  /** A path without links, and the links on the way to it, each as a name in its real directory. */
  private record Resolved(Path path, Set<Path> links) {}

  static boolean isLocal(Path path) {
    return "file".equals(path.toUri().getScheme());
  }

  public static java.nio.file.Path local(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }

  /** Hadoop lists local links as what they lead to; other file systems have none, or say so. */
  public static boolean isLink(Path path) {
    return isLocal(path) && Files.isSymbolicLink(local(path));
  }

  /** Whether {@code path} is {@code directory} or lies in it, by their names. */
  public static boolean isIn(Path directory, Path path) {
    String authority = directory.toUri().getAuthority();
    return (authority == null ? path.toUri().getAuthority() == null : authority.equals(path.toUri().getAuthority()))
        && slashed(path).startsWith(slashed(directory));
  }

  private static String slashed(Path path) {
    String text = path.toUri().getPath();
    return text.endsWith("/") ? text : text + "/";
  }

  /** {@code path} without links; names that do not exist yet are kept. */
  public Path of(Path path) throws IOException {
    Path qualified = path.toUri().getScheme() == null ? path.getFileSystem(conf).makeQualified(path) : path;
    return isLocal(qualified) ? resolved(qualified, MOST_LINKS).path() : resolvedElsewhere(qualified);
  }

  /** What goes when {@code path} is deleted: what it leads to, and the name itself, which may be a link. */
  public List<Path> deletedWith(Path path) throws IOException {
    List<Path> deleted = new ArrayList<>(List.of(of(path)));
    if (!path.isRoot()) {
      deleted.add(new Path(of(path.getParent()), path.getName()));
    }
    return deleted;
  }

  /** What {@code files}, which lie in {@code roots}, need to be read: themselves, and every link that leads to them. */
  public Set<Path> neededBy(List<Path> roots, List<Path> files) throws IOException {
    Map<Path, Path> moved = new HashMap<>();
    for (Path root : roots) {
      if (!isLocal(root) && !of(root).equals(root)) {
        moved.put(root, of(root));
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
        moved.forEach(
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
    // `..` after a link is the directory above the link's target, and Hadoop's paths drop it by name.
    Resolved end = resolved(localPath(target), links - 1);
    Set<Path> all = new LinkedHashSet<>(parent.links());
    all.add(name);
    all.addAll(end.links());
    return new Resolved(end.path(), all);
  }

  private static Path localPath(java.nio.file.Path path) throws IOException {
    for (java.nio.file.Path name : path) {
      if (name.toString().equals("..") && Files.exists(path)) {
        return new Path("file", null, path.toRealPath().toString());
      }
    }
    return new Path("file", null, path.normalize().toString());
  }

  /** Elsewhere, only some file systems have links and mounts, and resolve what exists; the others are not asked. */
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
