"""A key server for Spark, compiled from Java, and one for pyarrow that unwraps the same keys.

Tests ship this file to Spark's Python processes as the module ``spark_kms``, whose functions are key providers. So it
imports nothing from the tests.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow.parquet.encryption import EncryptionConfiguration, KmsClient

from bloomparquet.parquet.encryption.keys import Keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bloomparquet.writing.encryption import Encryption

JAVA = """
package io.bloomparquet.test;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.crypto.KeyAccessDeniedException;
import org.apache.parquet.crypto.keytools.KmsClient;

public final class TestKms implements KmsClient {
  private String token;

  @Override
  public void initialize(Configuration conf, String id, String url, String token) {
    this.token = token;
  }

  @Override
  public String wrapKey(byte[] key, String master) {
    return Base64.getEncoder().encodeToString(masked(key, master));
  }

  @Override
  public byte[] unwrapKey(String wrapped, String master) {
    if (token.contains("not " + master)) {
      throw new KeyAccessDeniedException("no " + master + " for you");
    }
    return masked(Base64.getDecoder().decode(wrapped), master);
  }

  private static byte[] masked(byte[] key, String master) {
    try {
      byte[] mask = MessageDigest.getInstance("SHA-256").digest(master.getBytes(StandardCharsets.UTF_8));
      byte[] masked = key.clone();
      for (int i = 0; i < masked.length; i++) {
        masked[i] ^= mask[i];
      }
      return masked;
    } catch (java.security.NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }
}
"""
READING = {
    "parquet.crypto.factory.class": "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory",
    "parquet.encryption.kms.client.class": "io.bloomparquet.test.TestKms",
}
"""The settings with which Spark's own reader decrypts files by this key server."""

MODULE = Path(__file__).stem
PROVIDER = f"{MODULE}:every_key"
SECRET = "what the provider's own exception says"
WRONG_KEY = b"0123456789abcdef"
ALLOWED = ",".join(
    [
        *(f"{MODULE}:{name}" for name in ("every_key", "footer_key", "wrong_key", "fails", "no_keys", "evry_key")),
        *("nobodys.keys:all", "nobodys:keys", "no_such:thing", "mistaken for a key"),
    ]
)
"""The key providers that the option ``keyProvider`` may name in tests."""


class Client(KmsClient):  # type: ignore[misc]
    """Wraps keys as the Java class does: with a mask derived from the master key's name."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(_masked(key_bytes, master_key_identifier))

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return _masked(base64.b64decode(wrapped_key), master_key_identifier)


class _FooterClient(Client):
    """Unwraps footer keys only."""

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        if master_key_identifier != "kf":
            raise PermissionError(SECRET)
        return super().unwrap_key(wrapped_key, master_key_identifier)


def _masked(key: bytes, master: str) -> bytes:
    return bytes(a ^ b for a, b in zip(key, hashlib.sha256(master.encode()).digest(), strict=False))


def every_key() -> Keys:
    """A key provider: all keys of the server."""
    return Keys.from_kms(None, Client)


def footer_key() -> Keys:
    """A key provider: only the footer key."""
    return Keys.from_kms(None, _FooterClient)


def wrong_key() -> Keys:
    """A key provider that returns one wrong key for everything."""
    return Keys(retriever=lambda _: WRONG_KEY)


def fails() -> Keys:
    """A key provider that raises."""
    raise RuntimeError(SECRET)


def no_keys() -> str:
    """A key provider that does not return Keys."""
    return WRONG_KEY.decode()


def compile_kms(home: Path) -> Path:
    """A jar with the Java class; parquet-java has such a class in its own tests only."""
    (home / "TestKms.java").write_text(JAVA)
    java_home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{java_home}/bin" if java_home else None) or shutil.which("javac")
    assert javac, "Spark's tests need a JDK"
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    jars = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    command = [javac, "--release", "17", "-proc:none", "-classpath", str(jars), "-d", str(home), "TestKms.java"]
    subprocess.run(command, cwd=home, check=True, stdout=sys.stderr)
    jar = home / "kms.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for compiled in home.rglob("*.class"):
            packed.write(compiled, compiled.relative_to(home))
    return jar


def install(spark: SparkSession, home: Path) -> None:
    """Give the session the Java class, and its Python processes this module."""
    if not _installed(spark):
        spark.sql(f"ADD JAR '{compile_kms(home)}'")
    ship(spark)


def ship(spark: SparkSession) -> None:
    """Give the session's Python processes this module, as users do."""
    spark.sparkContext.addPyFile(__file__)


def _installed(spark: SparkSession) -> bool:
    return "/kms.jar" in spark.sparkContext._jsc.sc().listJars().mkString(" ")  # type: ignore[union-attr]


def encryption(footer: str = "kf", columns: dict[str, list[str]] | None = None, **options: Any) -> Encryption:
    """Encryption with keys of the server: `columns` by master key, or all columns with the footer key if None.

    `options` are those of pyarrow's ``EncryptionConfiguration``.
    """
    from bloomparquet.writing.encryption import Encryption

    given = {"column_keys": columns} if columns else {}
    configuration = EncryptionConfiguration(footer, uniform_encryption=not columns, **given, **options)
    return Encryption.from_kms(None, Client, configuration)
