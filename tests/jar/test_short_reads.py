"""A file system that reads fewer bytes than asked for, and filters whose length the footer lacks: no row is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support import files
from tests.support.java import compile_jar
from tests.support.layout import insert_filters

FILTER_BYTES = 1 << 16
FILE_SYSTEM = """
package io.bloomparquet.test;

import java.io.IOException;
import org.apache.hadoop.fs.*;

public final class ShortReads extends LocalFileSystem {
  @Override
  public FSDataInputStream open(Path path, int buffer) throws IOException {
    FSDataInputStream in = super.open(path, buffer);
    return new FSDataInputStream(new FSInputStream() {
      @Override public void seek(long position) throws IOException { in.seek(position); }
      @Override public long getPos() throws IOException { return in.getPos(); }
      @Override public boolean seekToNewSource(long position) { return false; }
      @Override public int read() throws IOException { return in.read(); }
      @Override public int read(byte[] to, int start, int length) throws IOException {
        return in.read(to, start, Math.min(length, 1000));
      }
      @Override public void close() throws IOException { in.close(); }
    });
  }
}
"""
QUERY = """
import json, sys
from pathlib import Path
from pyspark_bloomparquet import attach
from tests.support.spark import start
path, jar, home = sys.argv[1:]
settings = {"spark.driver.extraClassPath": jar, "spark.hadoop.fs.file.impl": "io.bloomparquet.test.ShortReads"}
spark = attach(start(Path(home), **settings))
counts = {}
for pruned in ("false", "true"):
    spark.conf.set("spark.bloomparquet.transparent", pruned)
    queries = [spark.read.parquet(path).where(f"id = {number}") for number in range(0, 1_000, 50)]
    counts[pruned] = sum(query.count() for query in queries)
print(json.dumps(counts))
"""


@pytest.mark.skipif(not pyspark.__version__.startswith("4.0."), reason="later parquet-javas read filters whole")
def test_short_reads_of_filters_lose_no_row(tmp_path: Path) -> None:
    """parquet-java 1.15, which Spark 4.0 has, takes the bytes of a filter that it did not get for zeros."""
    for i in range(2):
        path = files.write(tmp_path / f"data/{i}.parquet", {"id": list(range(i, 1_000, 2))})
        insert_filters(path, FILTER_BYTES, where="behind", columns={0: False})
    jar = compile_jar(tmp_path / "classes", "short.jar", {"ShortReads": FILE_SYSTEM})
    arguments = [str(tmp_path / "data"), str(jar), str(tmp_path / "home")]
    done = subprocess.run([sys.executable, "-c", QUERY, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["true"] == 20
    assert counts["false"] < 20
