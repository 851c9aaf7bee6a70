"""With encryption configured in Spark, files are written as Spark writes them, and their filters are encrypted too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.hashing import xxh64_int64
from tests.support.spark import conf, rows

KMS = """
package io.bloomparquet.test;

import java.util.Base64;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.crypto.keytools.KmsClient;

public final class OpenKms implements KmsClient {
  @Override
  public void initialize(Configuration conf, String id, String url, String token) {}

  @Override
  public String wrapKey(byte[] key, String master) {
    return master + ":" + Base64.getEncoder().encodeToString(key);
  }

  @Override
  public byte[] unwrapKey(String wrapped, String master) {
    return Base64.getDecoder().decode(wrapped.substring(master.length() + 1));
  }
}
"""
SETTINGS = {
    "parquet.crypto.factory.class": "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory",
    "parquet.encryption.kms.client.class": "io.bloomparquet.test.OpenKms",
}
KEYS = {"parquet.encryption.column.keys": "k1:id", "parquet.encryption.footer.key": "k2"}


@pytest.fixture(scope="module")
def kms(shim: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What to set for a key server that wraps nothing; compiled here, as parquet-java has none."""
    home = tmp_path_factory.mktemp("kms")
    (home / "OpenKms.java").write_text(KMS)
    java_home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{java_home}/bin" if java_home else None) or shutil.which("javac")
    assert javac, "the jar was compiled, so there is a javac"
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    jars = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    command = [javac, "--release", "17", "-proc:none", "-classpath", str(jars), "-d", str(home), "OpenKms.java"]
    subprocess.run(command, cwd=home, check=True, stdout=sys.stderr)
    jar = home / "kms.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for compiled in home.rglob("*.class"):
            packed.write(compiled, compiled.relative_to(home))
    shim.sql(f"ADD JAR '{jar}'")
    return SETTINGS


def read_filter(spark: SparkSession, file: Path, column: str, values: list[int]) -> tuple[int, list[bool]]:
    """The size of the filter of the first row group as parquet-java decrypts it, and which values check true in it."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.parquet.hadoop
    settings = spark._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
    source = hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(str(file)), settings)
    options = jvm.org.apache.parquet.HadoopReadOptions.builder(settings, source.getPath()).build()
    reader = hadoop.ParquetFileReader.open(source, options)
    try:
        block = reader.getFooter().getBlocks().get(0)
        (chunk,) = (each for each in block.getColumns() if each.getPath().toDotString() == column)
        bloom = reader.readBloomFilter(chunk)
        hashes = xxh64_int64(np.array(values)).view(np.int64).tolist()
        return bloom.getBitsetSize(), [bloom.findHash(each) for each in hashes]
    finally:
        reader.close()


@pytest.mark.parametrize("plaintext_footer", [False, True], ids=["", "plaintext footer"])
def test_filters_of_encrypted_columns_are_encrypted_and_found(
    shim: SparkSession, tmp_path: Path, kms: dict[str, str], plaintext_footer: bool
) -> None:
    values = list(range(0, 2_000, 2))
    frame = shim.range(0, 2_000, 2, 1).selectExpr("id", "id + 1 AS open", "id % 2 = 0 AS flag")
    keys = {**KEYS, "parquet.encryption.plaintext.footer": str(plaintext_footer).lower()}
    with conf(shim, kms):
        frame.write.format("bloomparquet").options(bloomColumns="id,open", **keys).save(str(tmp_path / "t"))
        frame.write.options(**keys).parquet(str(tmp_path / "sparks"))
        (file,) = (tmp_path / "t").glob("*.parquet")
        (sparks,) = (tmp_path / "sparks").glob("*.parquet")
        assert file.read_bytes()[:4] == sparks.read_bytes()[:4] == (b"PAR1" if plaintext_footer else b"PARE")
        size, found = read_filter(shim, file, "id", [*values, *range(1, 2_000, 2)])
        assert size == 2048
        assert all(found[: len(values)])
        assert sum(found[len(values) :]) < 40
        for path in ("t", "sparks"):
            loaded = shim.read.parquet(str(tmp_path / path))
            assert rows(loaded) == rows(frame)
            for value in (0, 998, 1998):
                assert rows(loaded.where(f"id = {value}")) == [(value, value + 1, True)]
            assert loaded.where("id = 999").count() == 0

    # The bits themselves are nowhere in the file in clear text.
    plain = bp.SplitBlockBloomFilter.empty(size // 32)
    plain.insert(xxh64_int64(np.array(values)))
    assert plain.to_bytes()[:64] not in file.read_bytes()
