package io.bloomparquet.spark.write;

import io.bloomparquet.spark.files.LocalPaths;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;

/**
 * A file that says which directory a running overwrite replaces. It lies beside the overwrite's temporary files.
 *
 * <p>Two overwrites of the same files would leave the rows of both. So an overwrite that starts removes the marks of
 * the others that replace the same files, and these fail when they commit. It cannot refuse to start instead: nothing
 * tells a running job from a killed one.
 */
final class OverwriteMark {
  private static final String SUFFIX = ".overwrite";

  private final FileSystem system;
  private final Path pending;
  private final Path attempt;
  private final Path mark;
  private final String replaced;

  /**
   * @param output where the overwrite writes to
   * @param replaced the directory that it replaces: {@code output}, or a partition below it
   * @param attempt the directory of its temporary files, which no other job writes to
   */
  OverwriteMark(FileSystem system, Path output, Path replaced, Path attempt) {
    this.system = system;
    this.pending = system.makeQualified(new Path(output, FileOutputCommitter.PENDING_DIR_NAME));
    this.attempt = attempt;
    this.mark = new Path(pending, attempt.getName() + SUFFIX);
    // relative, because another job may have reached the directory by another path
    this.replaced = Path.SEPARATOR + output.toUri().relativize(replaced.toUri()).getPath();
  }

  /** The directory of the temporary files of all jobs. */
  Path pending() {
    return pending;
  }

  /**
   * Writes the mark, and then removes those of the other overwrites: of two that start together, at least one fails. An
   * overwrite of all files also removes the temporary files of other jobs, as Spark's does.
   */
  void set() throws IOException {
    try (FSDataOutputStream file = system.create(mark)) {
      file.writeUTF(replaced);
    }
    List<Path> removed = new ArrayList<>();
    for (FileStatus each : system.listStatus(pending)) {
      Path path = each.getPath();
      String name = path.getName();
      if (name.equals(mark.getName()) || name.equals(attempt.getName())) {
        continue;
      }
      if (!name.endsWith(SUFFIX)) {
        if (replacesAll()) {
          removed.add(path);
        }
      } else if (overlaps(path)) {
        system.delete(path, false); // before the files: see require
        removed.add(new Path(pending, name.substring(0, name.length() - SUFFIX.length())));
      }
    }
    for (Path path : removed) {
      system.delete(path, true);
    }
  }

  private boolean replacesAll() {
    return replaced.equals(Path.SEPARATOR);
  }

  private boolean overlaps(Path other) throws IOException {
    if (replacesAll()) {
      return true;
    }
    try (FSDataInputStream file = system.open(other)) {
      Path own = new Path(replaced);
      Path others = new Path(file.readUTF());
      return LocalPaths.isIn(own, others) || LocalPaths.isIn(others, own);
    } catch (FileNotFoundException error) {
      return false; // that overwrite has just ended
    } catch (EOFException error) {
      return true; // that overwrite has just started, or was killed then
    }
  }

  /**
   * Throws if another job has removed the mark. If it returns after the new files were moved, all of them were there:
   * another overwrite removes the mark first, and then the files.
   */
  void require() throws IOException {
    if (!system.exists(mark)) {
      throw new IOException(
          "another job removed the temporary files of this overwrite in "
              + pending
              + ": a later overwrite of the same files does so, and every other write to this directory when it ends. "
              + "This overwrite has replaced nothing. Run it again when no other job writes there");
    }
  }

  /** Removes the temporary files of this overwrite, and leaves those of other jobs. */
  void remove() throws IOException {
    system.delete(attempt, true);
    system.delete(mark, false);
    try {
      if (system.listStatus(pending).length == 0) {
        system.delete(pending, false);
      }
    } catch (IOException error) {
      // another job has just put a file there, or removed the directory
    }
  }
}
