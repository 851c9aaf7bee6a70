package io.bloomparquet.spark.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Checks that files are still the versions that were planned.
 *
 * @param local whether this process runs on the driver's machine; inodes of another machine cannot be compared
 * @param ignoreMissing whether missing files are ignored, as Spark's option {@code ignoreMissingFiles} says
 */
public record FileCheck(Configuration configuration, boolean local, boolean ignoreMissing) {

  public void require(Path path, FileVersion planned) throws IOException {
    FileVersion now = null;
    try {
      now = local && planned.inode() != 0 ? FileVersion.ofLocal(path) : null;
      if (now == null) {
        now = FileVersion.of(path.getFileSystem(configuration).getFileStatus(path));
      }
    } catch (FileNotFoundException gone) {
      now = null;
    }
    require(path, planned, now);
  }

  /** @param now the present version; null if there is no file */
  public void require(Path path, FileVersion planned, FileVersion now) {
    if (now == null ? !ignoreMissing : !planned.isStill(now)) {
      throw new IllegalStateException(
          String.format(
              "%s changed after this query was planned: expected %s, found %s; the result may lack rows. "
                  + "Load the DataFrame again or run REFRESH TABLE, then repeat the query",
              path, planned, now == null ? "no file" : now));
    }
  }
}
