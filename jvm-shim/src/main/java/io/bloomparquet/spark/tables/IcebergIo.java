package io.bloomparquet.spark.tables;

import io.bloomparquet.spark.files.PresentVersions;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * How an Iceberg table reads its files.
 *
 * @param io Iceberg's {@code FileIO}
 * @param conf Hadoop's settings, with those of the table's catalog; null if Hadoop does not read the files
 */
record IcebergIo(Object io, Configuration conf) {

  static IcebergIo of(Object io) throws UnknownMemberException {
    boolean isHadoop = io.getClass().getName().equals("org.apache.iceberg.hadoop.HadoopFileIO");
    return new IcebergIo(io, isHadoop ? Members.call(io, "getConf") : null);
  }

  /** Whether {@code location} is the name of a file for Hadoop too. Its paths have no empty names. */
  boolean isPath(String location) {
    return conf != null || new Path(location).toString().equals(location);
  }

  Path path(String location) {
    Path path = new Path(location);
    return path.toUri().getScheme() == null && conf != null
        ? path.makeQualified(FileSystem.getDefaultUri(conf), new Path("/"))
        : path;
  }

  /** Opens storages by the FileIO; null if Hadoop reads the files. */
  PresentVersions.Opener opener() {
    return conf != null ? null : this::open;
  }

  private FileSystem open(Path path) throws IOException {
    try {
      return new FileIoFiles(path, io);
    } catch (UnknownMemberException error) {
      throw new IOException(error.getMessage(), error);
    }
  }
}
