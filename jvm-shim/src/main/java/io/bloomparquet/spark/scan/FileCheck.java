package io.bloomparquet.spark.scan;

import io.bloomparquet.spark.files.FileVersion;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Whether files are still what was planned.
 *
 * @param local whether this is the machine of the driver: inodes of another one are not those that were planned
 * @param ignoreMissing whether files that are gone are passed over, as Spark's option says
 */
record FileCheck(Configuration configuration, boolean local, boolean ignoreMissing) {

  void require(Path path, FileVersion planned) throws IOException {
    FileVersion now = null;
    try {
      if (local && planned.inode() != 0) {
        now = FileVersion.ofLocal(path);
      }
      if (now == null) {
        now = FileVersion.of(path, configuration);
      }
    } catch (FileNotFoundException gone) {
      now = null;
    }
    require(path, planned, now);
  }

  /** @param now what is there; null if nothing is */
  void require(Path path, FileVersion planned, FileVersion now) {
    if (now == null ? !ignoreMissing : !planned.isStill(now)) {
      throw planned.changed(path, now);
    }
  }
}
