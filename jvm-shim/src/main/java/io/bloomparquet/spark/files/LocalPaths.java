package io.bloomparquet.spark.files;

import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.fs.Path;

/** Paths of local files, and symbolic links among them. */
public final class LocalPaths {
  private LocalPaths() {}

  public static boolean isLocal(Path path) {
    return "file".equals(path.toUri().getScheme());
  }

  public static java.nio.file.Path local(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }

  /** An existing local path without symbolic links. */
  public static Path real(Path path) throws IOException {
    return ofLocal(local(path).toRealPath());
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

  static Path ofLocal(java.nio.file.Path path) {
    return new Path("file", null, path.toString());
  }
}
