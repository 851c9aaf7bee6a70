"""A storage that only Hadoop can open: ``vault://``, whose files are encrypted and need a setting."""

from __future__ import annotations

from pathlib import Path

KEY = 0x5A
PIN = "fs.vault.pin"
SETTINGS = {"fs.vault.impl": "io.bloomparquet.test.Vault", PIN: "1234"}
JAVA = """
package io.bloomparquet.test;

import java.io.EOFException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** Files below a directory, whose name is the path, and whose bytes are XORed with a key. */
public final class Vault extends FileSystem {
  private final RawLocalFileSystem local = new RawLocalFileSystem();
  private URI uri;

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setConf(conf);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    local.initialize(URI.create("file:///"), conf);
    if (!"1234".equals(conf.get("fs.vault.pin"))) {
      throw new AccessDeniedException(uri + ": wrong fs.vault.pin");
    }
  }

  private Path local(Path path) {
    return new Path("file", null, path.toUri().getPath());
  }

  private FileStatus status(FileStatus file) {
    Path path = new Path(uri.getScheme(), uri.getAuthority(), file.getPath().toUri().getPath());
    return new FileStatus(file.getLen(), file.isDirectory(), 1, 1 << 25, file.getModificationTime(), path);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return status(local.getFileStatus(local(path)));
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus[] all = local.listStatus(local(path));
    for (int i = 0; i < all.length; i++) {
      all[i] = status(all[i]);
    }
    return all;
  }

  @Override
  public FSDataInputStream open(Path path, int buffer) throws IOException {
    byte[] bytes = Files.readAllBytes(Paths.get(path.toUri().getPath()));
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] ^= 0x5a;
    }
    return new FSDataInputStream(new Bytes(bytes));
  }

  private static final class Bytes extends FSInputStream {
    private final byte[] bytes;
    private int at;

    Bytes(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override
    public int read() {
      return at < bytes.length ? bytes[at++] & 0xff : -1;
    }

    @Override
    public void seek(long position) throws IOException {
      if (position < 0 || position > bytes.length) {
        throw new EOFException("seek to " + position);
      }
      at = (int) position;
    }

    @Override
    public long getPos() {
      return at;
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public Path getWorkingDirectory() {
    return new Path(uri.getScheme(), uri.getAuthority(), "/");
  }

  @Override
  public void setWorkingDirectory(Path path) {}

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int buffer, short copies, long block, Progressable ticks) {
    throw new UnsupportedOperationException();
  }

  @Override
  public FSDataOutputStream append(Path path, int buffer, Progressable progress) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean rename(Path from, Path to) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    throw new UnsupportedOperationException();
  }
}
"""


def encrypt(file: Path) -> None:
    """Encrypt a file in place, as it is in the vault."""
    file.write_bytes(bytes(byte ^ KEY for byte in file.read_bytes()))
