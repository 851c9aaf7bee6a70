package io.bloomparquet.spark.partitions;

import io.bloomparquet.spark.files.FileCheck;
import io.bloomparquet.spark.files.FileVersion;
import io.bloomparquet.spark.files.LocalPaths;
import io.bloomparquet.spark.files.PresentVersions;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.Deflater;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * The files that a plan skips, with the versions that were planned. Spark keeps the plan of a DataFrame: a skipped file
 * that changed since may hold matching rows, and no task reads it.
 *
 * @param packed the paths and versions, compressed: paths are long and similar
 */
record SkippedFiles(byte[] packed) implements Serializable {

  static SkippedFiles of(Map<Path, FileVersion> files) {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    Deflater deflater = new Deflater(Deflater.BEST_SPEED);
    try (DataOutputStream out = new DataOutputStream(new DeflaterOutputStream(packed, deflater, 1 << 16))) {
      out.writeInt(files.size());
      for (Map.Entry<Path, FileVersion> file : files.entrySet()) {
        byte[] path = file.getKey().toString().getBytes(StandardCharsets.UTF_8);
        out.writeInt(path.length);
        out.write(path);
        FileVersion version = file.getValue();
        out.writeLong(version.size());
        out.writeLong(version.modified());
        out.writeLong(version.inode());
        out.writeLong(version.changed());
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } finally {
      deflater.end();
    }
    return new SkippedFiles(packed.toByteArray());
  }

  /** Throws unless all files still have their planned versions. */
  void check(FileCheck check) throws IOException {
    Map<Path, FileVersion> remote = new HashMap<>();
    try (DataInputStream in = new DataInputStream(new InflaterInputStream(new ByteArrayInputStream(packed)))) {
      for (int left = in.readInt(); left > 0; left--) {
        byte[] text = in.readNBytes(in.readInt());
        Path path = new Path(new String(text, StandardCharsets.UTF_8));
        FileVersion planned = new FileVersion(in.readLong(), in.readLong(), in.readLong(), in.readLong());
        if (LocalPaths.isLocal(path)) {
          check.require(path, planned);
        } else {
          remote.put(path, planned);
        }
      }
    }
    Map<Path, FileStatus> present =
        PresentVersions.of(
            remote.keySet(), path -> path.getFileSystem(check.configuration()), Integer.MAX_VALUE);
    remote.forEach((path, planned) -> check.require(path, planned, FileVersion.ofListed(present.get(path))));
  }
}
