"""Encrypted files that parquet-java wrote, through Spark, are used here; and what is written here is used by Spark.

Both sides get their keys from one key server, each by its own client.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.interop.test_retrofit import rows_scanned
from tests.support import interop, spark_kms
from tests.support.spark_kms import every_key

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS, ROWS, PAGE = 3, 400, 50
KEYS = [(i * 7919) % 100_003 * 2 for i in range(GROUPS * ROWS)]
"""Even numbers: other ones in each row group, within the same bounds."""
TABLE = pa.table({
    "at": range(GROUPS * ROWS),
    "key": KEYS,
    "name": [f"n{key:06}" for key in KEYS],
    "open": [i % 10 for i in range(GROUPS * ROWS)],
})  # fmt: skip

_COLUMNS = {"parquet.encryption.column.keys": "k1:key,at;k2:name", "parquet.encryption.footer.key": "kf"}
_ALGORITHM = "parquet.encryption.algorithm"
_BITS = "parquet.encryption.data.key.length.bits"
_DOUBLE = "parquet.encryption.double.wrapping"
_FOOTER = "parquet.encryption.plaintext.footer"
_INTERNAL = "parquet.encryption.key.material.store.internally"
BY_SPARK: dict[str, dict[str, str]] = {
    "columns": _COLUMNS,
    "columns-plaintext-single-256": {**_COLUMNS, _FOOTER: "true", _DOUBLE: "false", _BITS: "256"},
    "columns-external-ctr": {**_COLUMNS, _INTERNAL: "false", _ALGORITHM: "AES_GCM_CTR_V1"},
    "columns-external-single-plaintext": {**_COLUMNS, _INTERNAL: "false", _DOUBLE: "false", _FOOTER: "true"},
    "complete": {**_COLUMNS, "parquet.encryption.complete.columns": "true"},
    "uniform-ctr": {"parquet.encryption.uniform.key": "kf", _ALGORITHM: "AES_GCM_CTR_V1", _BITS: "192"},
    "uniform-plaintext": {"parquet.encryption.uniform.key": "kf", _FOOTER: "true"},
}
_OWN_KEYS: dict[str, list[str]] = {"k1": ["key", "at"], "k2": ["name"]}
BY_US: dict[str, dict[str, Any]] = {
    "columns": {"columns": _OWN_KEYS},
    "columns-plaintext-256": {"columns": _OWN_KEYS, "plaintext_footer": True, "data_key_length_bits": 256},
    "columns-single-ctr": {
        "columns": _OWN_KEYS, "double_wrapping": False, "encryption_algorithm": "AES_GCM_CTR_V1",
    },
    "uniform": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def kms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that reads encrypted files with the keys of the key server."""
    from tests.support.spark import conf

    spark_kms.install(spark, tmp_path_factory.mktemp("kms"))
    with conf(spark, spark_kms.READING):
        yield spark


@pytest.fixture(scope="module")
def by_spark(kms: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One file of Spark for each way to encrypt, with oversized filters on `key`."""
    from tests.support.spark import write

    frame = kms.createDataFrame(TABLE).coalesce(1).cache()
    root = tmp_path_factory.mktemp("by_spark")
    pages = {"parquet.page.row.count.limit": PAGE}
    return {
        name: interop.only_file(
            write(frame, root / name, {"key": 8 * ROWS}, rows_per_group=ROWS, options={**options, **pages})
        )
        for name, options in BY_SPARK.items()
    }


@pytest.fixture(scope="module")
def changed(by_spark: dict[str, str]) -> dict[str, str]:
    """The files of Spark with smaller filters on `key`, and new filters on `name`."""
    for path in by_spark.values():
        (outcome,) = bp.shrink_filters(path, keys=every_key())
        assert (outcome.action, outcome.filters) == ("shrunk", GROUPS)
        (outcome,) = bp.add_filters(path, bloom="name", keys=every_key())
        assert (outcome.action, outcome.filters) == ("added", GROUPS)
    return by_spark


@pytest.fixture(scope="module")
def by_us(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One file of bloomparquet for each way to encrypt."""
    root = tmp_path_factory.mktemp("by_us")
    layout: dict[str, Any] = {"row_group_size": ROWS, "write_page_index": True, "max_rows_per_page": PAGE}
    for name, how in BY_US.items():
        encryption = spark_kms.encryption(**how)
        bp.write_table(TABLE, root / f"{name}.parquet", bloom=["key", "name"], encryption=encryption, **layout)
    return {name: str(root / f"{name}.parquet") for name in BY_US}


@pytest.mark.parametrize("how", BY_SPARK)
def test_rows_equal_what_spark_wrote(by_spark: dict[str, str], how: str) -> None:
    path = by_spark[how]
    assert bp.read_table(path, keys=every_key()).equals(TABLE)
    for at in (7, ROWS + 7, len(KEYS) - 7):  # one in each row group
        where = f"key = {KEYS[at]}"
        assert bp.plan(path, where, keys=every_key()).skipped["bloom"] > 0
        assert bp.read_table(path, where, keys=every_key()).to_pylist() == TABLE.slice(at, 1).to_pylist()


def queries(files: list[str], spark: SparkSession, wheres: list[str]) -> DataFrame:
    """One query with a separate scan for each predicate and file."""
    scans = [spark.read.parquet(file).where(where) for file in files for where in wheres]
    return reduce(lambda one, other: one.unionAll(other), scans)


def only(evidence: str) -> dict[str, str]:
    """Settings with which Spark skips only by this evidence."""
    kinds = ("stats", "dictionary", "columnindex", "bloom")
    return {f"parquet.filter.{kind}.enabled": str(kind == evidence).lower() for kind in kinds}


def test_spark_skips_by_our_filters_and_reads_our_files(
    kms: SparkSession, changed: dict[str, str], by_us: dict[str, str]
) -> None:
    from tests.support.spark import conf

    files, last = [*changed.values(), *by_us.values()], len(KEYS) - 1
    expected = [tuple(row.values()) for row in TABLE.to_pylist()]
    assert all(bp.read_table(file, keys=every_key()).equals(TABLE) for file in files)
    assert sorted(map(tuple, kms.read.parquet(*files).collect())) == sorted(expected * len(files))

    with conf(kms, only("bloom")):
        rows, scanned = rows_scanned(queries(files, kms, [f"key = {KEYS[last]}", f"name = 'n{KEYS[7]:06}'"]))
    assert sorted(map(tuple, rows)) == sorted([expected[7], expected[last]] * len(files))
    assert scanned == 2 * ROWS * len(files), "one row group of three for each value"


def test_spark_uses_encrypted_page_indexes(kms: SparkSession, changed: dict[str, str], by_us: dict[str, str]) -> None:
    from tests.support.spark import conf

    files, last = [*changed.values(), *by_us.values()], len(KEYS) - 1
    with conf(kms, only("columnindex")):
        rows, scanned = rows_scanned(queries(files, kms, [f"at IN ({ROWS - 1}, {last})"]))
    assert sorted(row["key"] for row in rows) == sorted([KEYS[last], KEYS[ROWS - 1]] * len(files))
    assert scanned == 2 * PAGE * len(files), "one page for each value"
