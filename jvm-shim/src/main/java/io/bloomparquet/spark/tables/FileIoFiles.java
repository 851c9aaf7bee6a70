package io.bloomparquet.spark.tables;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.util.LambdaUtils;

/**
 * Files that an Iceberg {@code FileIO} reads, with the credentials of the table's catalog, as one of Hadoop's file systems. It
 * only reads. Two are equal if the same kind of FileIO with the same properties reads them.
 */
final class FileIoFiles extends FilterFileSystem {
  private final String root;
  private final Object io;
  private final Map<String, String> properties;
  private final Configuration conf = new Configuration(false); // where Hadoop's streams look for settings

  FileIoFiles(Path path, Object io) throws UnknownMemberException {
    this.root = path.toUri().getScheme() + "://" + path.toUri().getRawAuthority();
    this.io = io;
    this.properties = new TreeMap<>(Members.<Map<String, String>>call(io, "properties"));
  }

  /** Names the files in caches: the same bucket may be another one for other properties, such as an endpoint. */
  @Override
  public URI getUri() {
    byte[] text = (io.getClass().getName() + properties).getBytes(StandardCharsets.UTF_8);
    return URI.create(root + "?io=" + UUID.nameUUIDFromBytes(text));
  }

  @Override
  public Configuration getConf() {
    return conf;
  }

  @Override
  public FutureDataInputStreamBuilder openFile(Path path) {
    return createDataInputStreamBuilder(this, path);
  }

  @Override
  protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters) {
    return LambdaUtils.eval(new CompletableFuture<>(), () -> open(path, 0));
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return orFail(
        () -> {
          Class<?> fileIo = Members.type(io, "org.apache.iceberg.io.FileIO");
          Object file = Members.call(fileIo, io, "newInputFile", String.class, path.toString());
          return new FSDataInputStream(new Seekable(Members.call(file, "newStream")));
        });
  }

  /** A stream of Iceberg, which is an {@link InputStream} with a position. */
  private static final class Seekable extends FSInputStream {
    private final InputStream in;

    Seekable(InputStream in) {
      this.in = in;
    }

    @Override
    public void seek(long position) throws IOException {
      Class<?> owner = orFail(() -> Members.type(in, "org.apache.iceberg.io.SeekableInputStream"));
      orFail(() -> Members.call(owner, in, "seek", long.class, position));
    }

    @Override
    public long getPos() throws IOException {
      return orFail(() -> Members.<Long>call(in, "getPos"));
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

  private interface Call<T> {
    T result() throws UnknownMemberException;
  }

  private static <T> T orFail(Call<T> call) throws IOException {
    try {
      return call.result();
    } catch (UnknownMemberException error) {
      throw new IOException(error.getMessage(), error);
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
}
