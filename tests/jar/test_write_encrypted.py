"""With encryption configured in Spark, files equal Spark's, and their filters are encrypted too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int64
from tests.support import spark_kms
from tests.support.scenarios import Readers, run, texts
from tests.support.spark import conf, rows
from tests.support.spark_kms import PROVIDER, every_key

pytestmark = pytest.mark.slow

KEYS = {"parquet.encryption.column.keys": "k1:id", "parquet.encryption.footer.key": "k2"}
HOW = {
    "plaintext footer": {
        **KEYS,
        "parquet.encryption.plaintext.footer": "true",
        "parquet.encryption.key.material.store.internally": "false",
    },
    "uniform": {"parquet.encryption.uniform.key": "k2", "parquet.encryption.algorithm": "AES_GCM_CTR_V1"},
}


@pytest.fixture(scope="module")
def kms(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of the key server."""
    spark_kms.install(jar_spark, tmp_path_factory.mktemp("kms"))
    return spark_kms.READING


def read_filter(spark: SparkSession, file: Path, column: str, values: list[int]) -> tuple[int, list[bool]]:
    """The first row group's filter, decrypted by parquet-java: its size, and its answer for each value."""
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


@pytest.mark.parametrize("how", HOW)
def test_filters_of_encrypted_columns_are_encrypted_and_found(
    jar_spark: SparkSession, readers: Readers, tmp_path: Path, kms: dict[str, str], how: str
) -> None:
    values = list(range(0, 2_000, 2))
    frame = jar_spark.range(0, 2_000, 2, 1).selectExpr("id", "id + 1 AS open", "id % 2 = 0 AS flag")
    keys = HOW[how]
    with conf(jar_spark, kms):
        frame.write.format("bloomparquet").options(bloomColumns="id,open", **keys).save(str(tmp_path / "t"))
        frame.write.options(**keys).parquet(str(tmp_path / "sparks"))
        (file,) = (tmp_path / "t").glob("*.parquet")
        (sparks,) = (tmp_path / "sparks").glob("*.parquet")
        assert file.read_bytes()[:4] == sparks.read_bytes()[:4] == (b"PAR1" if how == "plaintext footer" else b"PARE")
        size, answers = read_filter(jar_spark, file, "id", [*values, *range(1, 2_000, 2)])
        assert size == 2048
        assert all(answers[: len(values)])
        assert sum(answers[len(values) :]) < 40
        for path in ("t", "sparks"):
            loaded = jar_spark.read.parquet(str(tmp_path / path))
            assert rows(loaded) == rows(frame)
            assert rows(loaded.where("id IN (0, 998, 1998, 999)")) == [(i, i + 1, True) for i in (0, 1998, 998)]
        absent = next(i for i in range(1, 2_000, 2) if not answers[len(values) + i // 2])
        ran = run(readers.jar(tmp_path / "t", keyProvider=PROVIDER).where(f"id = {absent}"))
        assert (ran.rows, ran.plan.skipped["bloom"], ran.plan.errors) == ([], 1, 0)
        ran = run(readers.jar(tmp_path / "t", keyProvider=PROVIDER).where("id = 998"))
        assert (ran.rows, ran.plan.kept) == (texts([(998, 999, True)]), 1)

    given = every_key()
    assert bp.read_table(tmp_path / "t", keys=given)["id"].to_pylist() == values
    some = range(0, 2_000, 9)
    kept = [bp.plan(tmp_path / "t", f"id = {i}", keys=given).kept for i in some]
    assert kept == [int(answers[i // 2 + i % 2 * len(values)]) for i in some], "as parquet-java has it"

    # the bits are nowhere in plain text
    plain = bp.SplitBlockBloomFilter.empty(size // 32)
    plain.insert(xxh64_int64(np.array(values)))
    assert plain.to_bytes()[:64] not in file.read_bytes()


def test_key_provider_on_a_plain_write_is_refused(jar_spark: SparkSession, tmp_path: Path, kms: dict[str, str]) -> None:
    """A user who sets it expects encryption. The session's key provider may be meant for reads, so it is allowed."""
    frame = jar_spark.range(0, 20, 1, 1)
    path = str(tmp_path / "t")
    write = frame.write.format("bloomparquet").option("keyProvider", PROVIDER)
    with pytest.raises(Exception, match="option keyProvider is for reading and encrypts nothing"):
        write.save(path)
    assert not list(tmp_path.rglob("*.parquet"))
    with conf(jar_spark, kms):
        with pytest.raises(Exception, match="option keyProvider is for reading and encrypts nothing"):
            write.mode("overwrite").save(path)
        frame.write.format("bloomparquet").options(**KEYS, keyProvider=PROVIDER).mode("overwrite").save(path)
        (file,) = Path(path).glob("*.parquet")
        assert file.read_bytes()[:4] == b"PARE"
    with conf(jar_spark, {"spark.datasource.bloomparquet.keyProvider": PROVIDER}):
        frame.write.format("bloomparquet").save(str(tmp_path / "plain"))
    assert len(list((tmp_path / "plain").glob("*.parquet"))) == 1
