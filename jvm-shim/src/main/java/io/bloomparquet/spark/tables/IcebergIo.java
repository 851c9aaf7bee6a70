package io.bloomparquet.spark.tables;

import io.bloomparquet.spark.files.LocalPaths;
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

  private static final String BROADCAST = "org.apache.iceberg.spark.source.SerializableFileIOWithSize";

  static IcebergIo of(Object given) throws UnknownMemberException {
    Object io = given.getClass().getName().equals(BROADCAST) ? Members.field(given, "fileIO") : given;
    boolean isHadoop = io.getClass().getName().equals("org.apache.iceberg.hadoop.HadoopFileIO");
    return new IcebergIo(io, isHadoop ? Members.call(io, "getConf") : null);
  }

  /**
   * Whether Hadoop's path of {@code location} names this file, and no other. Hadoop's paths have no empty names, and the
   * planner itself reads local files.
   */
  boolean isPath(String location) {
    Path path = new Path(location);
    boolean isRemote = path.toUri().getScheme() != null && !LocalPaths.isLocal(path);
    return conf != null || isRemote && path.toString().equals(location);
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
