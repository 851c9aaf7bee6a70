"""A connector for ``s3a://`` in Hadoop: Spark reads a local directory through it, as it would read a bucket."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.fs
from pyspark.sql import SparkSession

from tests.support.java import compile_jar
from tests.support.s3 import S3Server

JAVA = """
package io.bloomparquet.test;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** Reads the buckets in the directory that a setting names. */
public final class LocalBuckets extends FileSystem {
  private final RawLocalFileSystem files = new RawLocalFileSystem();
  private URI uri;
  private String root;

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setConf(conf);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    root = conf.get("fs.test.buckets") + "/" + name.getAuthority();
    files.initialize(URI.create("file:///"), conf);
  }

  private Path local(Path path) {
    return new Path("file", null, root + path.toUri().getPath());
  }

  private FileStatus status(FileStatus local) {
    String below = local.getPath().toUri().getPath().substring(root.length());
    Path path = new Path(uri.getScheme(), uri.getAuthority(), below);
    return new FileStatus(local.getLen(), local.isDirectory(), 1, 1 << 25, local.getModificationTime(), path);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return status(files.getFileStatus(local(path)));
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus[] all = files.listStatus(local(path));
    for (int i = 0; i < all.length; i++) {
      all[i] = status(all[i]);
    }
    return all;
  }

  @Override
  public FSDataInputStream open(Path path, int buffer) throws IOException {
    return files.open(local(path), buffer);
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


def install(spark: SparkSession, home: Path) -> None:
    """Give the session the connector, compiled in the directory `home`."""
    add_to_hadoop(spark, [compile_jar(home, "buckets.jar", {"LocalBuckets": JAVA})])


def add_to_hadoop(spark: SparkSession, jars: Sequence[Path]) -> None:
    """Let Hadoop find connectors in `jars`."""
    spark.sql("ADD JARS " + " ".join(f"'{jar}'" for jar in jars))
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, len(jars))  # type: ignore[union-attr]
    for i, jar in enumerate(jars):
        urls[i] = jvm.java.io.File(str(jar)).toURI().toURL()
    conf = context.hadoopConfiguration()
    # Hadoop finds connectors by the class loader of the configuration, which Spark made before the jar was added.
    conf.setClassLoader(jvm.java.net.URLClassLoader(urls, conf.getClassLoader()))


def settings(server: S3Server, buckets: Path, key: str) -> dict[str, str]:
    """Hadoop's settings for a bucket in the directory `buckets`, which is on the server too."""
    return {
        "fs.s3a.impl": "io.bloomparquet.test.LocalBuckets",
        "fs.test.buckets": str(buckets),
        "fs.s3a.endpoint": f"http://{server.address}",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": key,
        "fs.s3a.secret.key": f"secret-of-{key}",
    }


def publish(server: S3Server, buckets: Path, bucket: str) -> None:
    """Copy a bucket in the directory `buckets` to the server, and give both copies the same modification times."""
    server.filesystem.create_dir(bucket)
    for file in sorted(path for path in (buckets / bucket).rglob("*") if path.is_file()):
        name = f"{bucket}/{file.relative_to(buckets / bucket)}"
        with server.filesystem.open_output_stream(name) as out:
            out.write(file.read_bytes())
        (info,) = server.filesystem.get_file_info([name])
        assert info.type == pyarrow.fs.FileType.File
        os.utime(file, ns=(info.mtime_ns, info.mtime_ns))
