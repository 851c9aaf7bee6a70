"""Encrypted files through the jar: the planner gets its keys by ``keyProvider``, Spark's own reader by its properties.

parquet-java assigns a row group to the task whose range holds its midpoint. If the first column has its own key, the
midpoint depends on optional fields of the footer, which writers fill in differently. So there are files of several
writers, and a lookup in each of their row groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.parquet.encryption.modules import Module, parse_file_crypto
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC, TRAILER
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.parquet.thrift.definitions import FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.storage.files import LocalStorage, ReadCount
from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support import spark_kms
from tests.support.kms import full_text, reveals
from tests.support.scenarios import Readers, ask_all, run, texts
from tests.support.spark import conf, write
from tests.support.spark_kms import MODULE, PROVIDER, SECRET, every_key
from tests.support.spark_log import explained, recorded, text_below

pytestmark = pytest.mark.slow

GROUPS, ROWS = 4, 100
COLUMNS: dict[str, dict[str, list[str]]] = {
    "first": {"k1": ["id"], "k2": ["key"]},
    "later": {"k2": ["key"]},
    "uniform": {},
}
"""The master keys of columns. In "first" the first column has its own key."""
LAYOUTS = list(itertools.product(("spark", "pyarrow", "bloomparquet"), COLUMNS, (False, True)))
OFFSETS: dict[str, Callable[[int, int], tuple[int | None, int]]] = {
    "missing": lambda start, size: (None, size),
    "at zero": lambda start, size: (0, size),
    "too early": lambda start, size: (start // 2, size),
    "too late": lambda start, size: (start + 2 * size // 3, size),
    "too small": lambda start, size: (start, 10),
    "too large": lambda start, size: (start, size + 200),
}
"""Wrong offsets and sizes of row groups in footers."""


def table_of(file: int) -> pa.Table:
    """`id` ascends through files and row groups; `key` is mixed."""
    ids = [10_000 * file + row for row in range(GROUPS * ROWS)]
    return pa.table({"id": ids, "key": [key_of(i) for i in ids], "text": [f"t{i}" for i in ids]})


def key_of(i: int) -> int:
    return i * 7919 % 1_000_003


def by_spark(spark: SparkSession, table: pa.Table, path: Path, columns: dict[str, list[str]], plaintext: bool) -> None:
    named = ";".join(f"{key}:{','.join(names)}" for key, names in columns.items())
    keys = {"column.keys": named, "footer.key": "kf"} if columns else {"uniform.key": "kf"}
    options = {f"parquet.encryption.{key}": text for key, text in keys.items()}
    options["parquet.encryption.plaintext.footer"] = str(plaintext).lower()
    write(spark.createDataFrame(table).coalesce(1), path, {"key": ROWS}, rows_per_group=ROWS, options=options)


def by_pyarrow(
    spark: SparkSession, table: pa.Table, path: Path, columns: dict[str, list[str]], plaintext: bool
) -> None:
    given = {"column_keys": columns} if columns else {}
    how = pe.EncryptionConfiguration("kf", uniform_encryption=not columns, plaintext_footer=plaintext, **given)
    factory = pe.CryptoFactory(spark_kms.Client)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), how)
    path.mkdir()
    pq.write_table(table, path / "0.parquet", row_group_size=ROWS, encryption_properties=properties)


def by_us(spark: SparkSession, table: pa.Table, path: Path, columns: dict[str, list[str]], plaintext: bool) -> None:
    encryption = spark_kms.encryption(columns=columns, plaintext_footer=plaintext)
    path.mkdir()
    bp.write_table(
        table, path / "0.parquet", bloom={"key": bp.Bloom(fpp=0.001)}, row_group_size=ROWS, encryption=encryption
    )


WRITERS = {"spark": by_spark, "pyarrow": by_pyarrow, "bloomparquet": by_us}


@pytest.fixture(scope="module")
def kms(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, configured to decrypt with the keys of the key server."""
    spark_kms.install(jar_spark, tmp_path_factory.mktemp("kms"))
    with conf(jar_spark, spark_kms.READING):
        yield jar_spark


def edit_offsets(path: Path, edit: Callable[[int, int], tuple[int | None, int]]) -> None:
    """Change the offsets and sizes of the row groups in an encrypted footer."""
    storage = LocalStorage()
    (footer,) = read_footers(storage, storage.list_files(str(path), recursive=False), ReadCount(), keys=every_key())
    assert footer is not None
    assert footer.crypto is not None
    metadata, _ = read_struct(footer.raw, FileMetaData)
    for group in metadata.row_groups:
        assert group.file_offset is not None
        assert group.total_compressed_size is not None
        group.file_offset, group.total_compressed_size = edit(group.file_offset, group.total_compressed_size)
    data = path.read_bytes()
    before, tail = data[: -footer.size], data[-footer.size : -TRAILER]
    *_, end = parse_file_crypto(tail)
    tail = tail[:end] + footer.crypto.footer().encrypt(write_struct(metadata), Module.FOOTER)
    path.write_bytes(before + tail + len(tail).to_bytes(4, "little") + ENCRYPTED_MAGIC)


@pytest.fixture(scope="module")
def lake(kms: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one file for each layout and for each wrong footer."""
    root = tmp_path_factory.mktemp("lake")
    for i, (writer, columns, plaintext) in enumerate(LAYOUTS):
        WRITERS[writer](kms, table_of(i), root / f"{i:02}", COLUMNS[columns], plaintext)
    for i, edit in enumerate(OFFSETS.values(), len(LAYOUTS)):
        by_us(kms, table_of(i), root / f"{i:02}", COLUMNS["first"], False)
        edit_offsets(root / f"{i:02}" / "0.parquet", edit)
    return root


FILES = len(LAYOUTS) + len(OFFSETS)
OPTIONS = {"keyProvider": PROVIDER, "recursiveFileLookup": "true"}


def row(file: int, at: int) -> tuple[int, int, str]:
    i = 10_000 * file + at
    return i, key_of(i), f"t{i}"


def union(readers: Readers, lake: Path, wheres: list[str]) -> tuple[list[list[tuple[Any, ...]]], list[ScanSummary]]:
    """The rows for each of `wheres`, by one query, and the plans of its scans."""
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        rows, frame = ask_all(readers.jar(str(lake), **OPTIONS).where(where) for where in wheres)
    return [sorted(map(tuple, each)) for each in rows], last_plan(frame)


def test_values_are_found_in_every_row_group(kms: SparkSession, readers: Readers, lake: Path) -> None:
    wanted = [(group,) for group in range(GROUPS)] + [(0, GROUPS - 1), (1, 2)]  # of every file
    expected = [sorted(row(file, ROWS * (g + 1) - 1) for file in range(FILES) for g in groups) for groups in wanted]
    wheres = [f"id IN ({', '.join(str(i) for i, *_ in rows)})" for rows in expected]
    returned, plans = union(readers, lake, wheres)
    assert returned == expected
    for groups, plan in zip(wanted, plans, strict=True):
        assert (plan.total, plan.kept, plan.errors) == (GROUPS * FILES, FILES * len(groups), 0)


def test_encrypted_filters_prune_and_lose_no_row(kms: SparkSession, readers: Readers, lake: Path) -> None:
    filtered = [i for i in range(FILES) if i >= len(LAYOUTS) or LAYOUTS[i][0] != "pyarrow"]
    positions = [(file, ROWS * (file % GROUPS) + 50) for file in filtered[:-1:4]] + [(filtered[-1], GROUPS * ROWS - 1)]
    returned, plans = union(readers, lake, [f"key = {row(*position)[1]}" for position in positions])
    assert returned == [[row(*position)] for position in positions]
    for plan in plans:
        assert plan.errors == 0
        assert plan.skipped["bloom"] > 0.8 * GROUPS * len(filtered)
    everything = sorted(row(file, at) for file in range(FILES) for at in range(GROUPS * ROWS))
    assert sorted(map(tuple, readers.oracle(str(lake), recursiveFileLookup="true").collect())) == everything


def test_without_keys_encrypted_files_are_read_whole(kms: SparkSession, readers: Readers, lake: Path) -> None:
    plaintext = [int(file.parent.name) for file in lake.rglob("*.parquet") if file.read_bytes().endswith(MAGIC)]
    readable = [i for i in plaintext if LAYOUTS[i][1] == "later"]  # the bounds of `id` are not encrypted
    wanted = row(readable[0], GROUPS * ROWS - 1)
    ran = run(readers.jar(str(lake), recursiveFileLookup="true").where(f"id = {wanted[0]}"))
    assert ran.rows == texts([wanted])
    assert (ran.plan.total, ran.plan.skipped["statistics"]) == (GROUPS * len(plaintext), GROUPS * len(readable) - 1)
    assert ran.plan.errors == FILES - len(plaintext) + GROUPS * (len(plaintext) - len(readable))
    with pytest.raises(Py4JJavaError, match="the footer key is not given; pass it in keys"):
        readers.jar(str(lake), recursiveFileLookup="true", onFilterError="fail").where("id = 1").collect()


def test_a_key_that_spark_lacks_is_sparks_error(kms: SparkSession, readers: Readers, lake: Path) -> None:
    """Spark's reader and the planner get their keys separately."""
    later = str(lake / f"{LAYOUTS.index(('spark', 'later', False)):02}")
    at = 10_000 * int(Path(later).name)
    with conf(kms, {"parquet.encryption.key.access.token": "not k2"}):
        frame = readers.jar(later, keyProvider=f"{MODULE}:footer_key").where(f"id = {at + 150}")
        ran = run(frame.select("id", "text"))
        assert (ran.rows, ran.plan.kept, ran.plan.errors) == ([f"({at + 150}, 't{at + 150}')"], 1, 0)
        with pytest.raises((Py4JJavaError, PySparkException)) as raised:
            frame.select("key").collect()
        assert "k2" in str(raised.value)


def data_keys(lake: Path) -> list[bytes]:
    """All keys that the files are encrypted with."""
    storage, keys = LocalStorage(), set()
    for footer in read_footers(storage, storage.list_files(str(lake), recursive=True), ReadCount(), keys=every_key()):
        assert footer is not None
        assert footer.crypto is not None
        chunks = [footer.chunk_cipher(0, leaf) for leaf in range(3)]
        keys |= {cipher._key for cipher in (footer.crypto.footer(), *(chunk.cipher for chunk in chunks if chunk))}
    return sorted(keys)


def test_no_key_appears_in_plans_logs_and_metrics(
    kms: SparkSession, readers: Readers, lake: Path, tmp_path: Path
) -> None:
    keys = data_keys(lake)
    assert len(keys) >= 2 * FILES - 6
    outputs = []
    with recorded(kms, tmp_path):
        for provider in (PROVIDER, f"{MODULE}:footer_key", f"{MODULE}:wrong_key", f"{MODULE}:fails", "no_such:thing"):
            frame = readers.jar(str(lake), **{**OPTIONS, "keyProvider": provider}).where(f"key = {key_of(7)}")
            try:
                run(frame)
                outputs.append(explained(frame))
            except (Py4JJavaError, PySparkException) as error:
                outputs.append(full_text(error))
    text = text_below(tmp_path) + "".join(outputs)
    assert "Asked: " in text
    assert "numRowGroupsSkippedByBloomFilter" in text or "row groups skipped by Bloom filter" in text
    assert "Encrypted data: " in text, "a warning says what could not be decrypted"
    assert reveals(text, *keys, spark_kms.WRONG_KEY, SECRET.encode()) == []
    assert reveals(f"{keys[0].hex()} {keys[1]!r}", *keys[:2]), "the search finds keys that are there"
