package io.bloomparquet.spark.tables;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Files that an Iceberg {@code FileIO} reads, with the credentials of the table's catalog, as one of Hadoop's file systems.
 * Two are equal if the same kind of FileIO with the same properties reads them.
 */
final class FileIoFiles extends FileSystem {
  private final URI root;
  private final Object io;
  private final Map<String, String> properties;

  FileIoFiles(Path path, Object io) throws UnknownMemberException {
    this.root = URI.create(path.toUri().getScheme() + "://" + path.toUri().getRawAuthority());
    this.io = io;
    this.properties = new TreeMap<>(Members.<Map<String, String>>call(io, "properties"));
    setConf(new Configuration(false)); // Hadoop's streams look for settings
  }

  /** Names the files in caches: the same bucket may be another one for other properties, such as an endpoint. */
  @Override
  public URI getUri() {
    return URI.create(root + "?io=" + Integer.toHexString(properties.hashCode()) + io.getClass().getName().hashCode());
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    try {
      Class<?> fileIo = Members.type(io, "org.apache.iceberg.io.FileIO");
      Object file = Members.call(fileIo, io, "newInputFile", String.class, path.toString());
      return new FSDataInputStream(new Seekable(Members.call(file, "newStream")));
    } catch (UnknownMemberException error) {
      throw new IOException(error.getMessage(), error);
    }
  }

  /** A stream of Iceberg, which is an {@link InputStream} with a position. */
  private static final class Seekable extends FSInputStream {
    private final InputStream in;

    Seekable(InputStream in) {
      this.in = in;
    }

    @Override
    public void seek(long position) throws IOException {
      try {
        Members.call(Members.type(in, "org.apache.iceberg.io.SeekableInputStream"), in, "seek", long.class, position);
      } catch (UnknownMemberException error) {
        throw new IOException(error.getMessage(), error);
      }
    }

    @Override
    public long getPos() throws IOException {
      try {
        return Members.<Long>call(in, "getPos");
      } catch (UnknownMemberException error) {
        throw new IOException(error.getMessage(), error);
      }
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public int read() throws IOException {
      return in.read();
    }

    @Override
    public int read(byte[] bytes, int start, int length) throws IOException {
      return in.read(bytes, start, length);
    }

    @Override
    public void close() throws IOException {
      in.close();
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof FileIoFiles that
        && root.equals(that.root)
        && io.getClass() == that.io.getClass()
        && properties.equals(that.properties);
  }

  @Override
  public int hashCode() {
    return root.hashCode();
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int buffer, short copies, long block, Progressable progress) {
    throw onlyReads();
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw onlyReads();
  }

  @Override
  public boolean rename(Path from, Path to) {
    throw onlyReads();
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    throw onlyReads();
  }

  @Override
  public FileStatus[] listStatus(Path path) {
    throw onlyReads();
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    throw onlyReads();
  }

  @Override
  public FileStatus getFileStatus(Path path) {
    throw onlyReads();
  }

  @Override
  public void setWorkingDirectory(Path path) {
    throw onlyReads();
  }

  @Override
  public Path getWorkingDirectory() {
    return new Path(root + "/");
  }

  private static UnsupportedOperationException onlyReads() {
    return new UnsupportedOperationException("the planner only reads files");
  }
}
