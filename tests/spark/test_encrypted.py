"""Encrypted files without the jar: ``keyProvider`` in Python workers of the driver and of executors."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, LongType, StringType, StructField, StructType

import bloomparquet as bp
from bloomparquet.errors import EncryptionError, OptionError, UnsupportedError
from pyspark_bloomparquet import add_filters, shrink_filters
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.reader import make_reader
from tests.support import spark_kms
from tests.support.kms import full_text, reveals
from tests.support.spark import rows
from tests.support.spark_kms import MODULE, PROVIDER, SECRET, WRONG_KEY, every_key

pytestmark = pytest.mark.slow

ROWS, GROUPS = 100, 3
IDS = [i * 7919 % 100_003 for i in range(2 * GROUPS * ROWS)]
TABLE = pa.table({"id": IDS, "open": [f"o{i}" for i in IDS]})
SCHEMA = StructType([StructField("id", LongType()), StructField("open", StringType())])
COLUMNS = {"k1": ["id"]}


@pytest.fixture(scope="module")
def shipped(spark: SparkSession) -> SparkSession:
    spark_kms.ship(spark)
    return spark


def write(root: Path, *, bloom: str | None = "id", plaintext_footer: bool = False) -> str:
    """Two files of three row groups each; the column `id` is encrypted with its own key."""
    root.mkdir(exist_ok=True)
    encryption = spark_kms.encryption(columns=COLUMNS, plaintext_footer=plaintext_footer)
    for i in range(2):
        half = TABLE.slice(i * GROUPS * ROWS, GROUPS * ROWS)
        bp.write_table(half, root / f"{i}.parquet", bloom=bloom, row_group_size=ROWS, encryption=encryption)
    return str(root)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("encrypted") / "t")


def parts(path: str, **options: str) -> list[tuple[str, int]]:
    """The row groups in the plan of a load."""
    reader = make_reader(Options.parse({"path": path, **options}), SCHEMA)
    splits = pickle.loads(pickle.dumps(reader)).partitions()
    files = (pair for split in splits for pair in zip(split.dataset.files, split.row_groups, strict=True))
    return [(Path(file.path).name, group) for file, groups in files for group in groups]


def test_where_skips_by_encrypted_filters(shipped: SparkSession, table: str) -> None:
    at = len(IDS) - 1
    where = f"id IN ({IDS[at]}, {IDS[150]}, 99_999_999)".replace("_", "")
    kept = parts(table, keyProvider=PROVIDER, where=where)
    assert {("0.parquet", 1), ("1.parquet", GROUPS - 1)} <= set(kept)
    assert len(kept) < 2 * GROUPS - 1
    source = shipped.read.format("bloomparquet").option("keyProvider", PROVIDER)
    loaded, filtered = source.load(table), source.option("where", where).load(table)
    everything = loaded.unionAll(filtered)
    expected = [(i, f"o{i}") for i in (*IDS, IDS[at], IDS[150])]
    assert rows(everything) == sorted(expected, key=repr)


def test_a_load_without_keys_says_how_to_give_them(shipped: SparkSession, table: str) -> None:
    match = "0.parquet: .*the footer key is not given; pass it in keys .in Spark keyProvider"
    with pytest.raises(PySparkException, match=match):
        shipped.read.format("bloomparquet").load(table)
    with pytest.raises(EncryptionError, match=match):
        parts(table)
    with pytest.raises(EncryptionError, match="the key is wrong"):
        parts(table, keyProvider=f"{MODULE}:wrong_key", ignoreCorruptFiles="true")
    with pytest.raises(OptionError, match="raised RuntimeError"):
        parts(table, keyProvider=f"{MODULE}:fails")


def test_reading_a_column_without_its_key_is_an_error(shipped: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "t", plaintext_footer=True)

    def load(schema: StructType) -> DataFrame:
        source = shipped.read.format("bloomparquet").option("keyProvider", f"{MODULE}:footer_key")
        return source.schema(schema).load(path)

    assert len(parts(path, keyProvider=f"{MODULE}:footer_key", where="id = 1")) == 2 * GROUPS, "kept"
    assert rows(load(StructType([SCHEMA["open"]]))) == sorted((f"o{i}",) for i in IDS)
    with pytest.raises(PySparkException, match="column id: the key of column id could not be retrieved") as raised:
        load(SCHEMA).collect()
    assert SECRET not in str(raised.value)


def test_executors_add_and_shrink_encrypted_filters(shipped: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "t", bloom=None)
    outcome = add_filters(shipped, path, {"ID": bp.Bloom(fpp=0.0001)}, key_provider=PROVIDER).collect()
    assert [(row.action, row.filters, row.error) for row in outcome] == [("added", GROUPS, None)] * 2
    assert add_filters(shipped, path, "id", key_provider=PROVIDER).first().action == "unchanged"
    outcome = shrink_filters(shipped, path, 0.1, key_provider=PROVIDER).collect()
    assert [(row.action, row.filters, row.error) for row in outcome] == [("shrunk", GROUPS, None)] * 2
    assert bp.read_table(path, keys=every_key()).equals(TABLE)
    assert sum(bp.plan(path, f"id = {i}", keys=every_key()).skipped["bloom"] for i in IDS[::50]) > 0
    for at in range(0, len(IDS), 29):
        assert bp.read_table(path, f"id = {IDS[at]}", keys=every_key()).num_rows == 1


def test_a_wrong_provider_changes_no_file(shipped: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "t", bloom=None)
    before = {file: file.read_bytes() for file in Path(path).iterdir()}
    for provider, match in {f"{MODULE}:fails": "RuntimeError", "nobodys:keys": "no module nobodys"}.items():
        with pytest.raises(OptionError, match=match) as raised:
            add_filters(shipped, path, "id", key_provider=provider)
        assert reveals(full_text(raised.value), SECRET.encode(), WRONG_KEY) == []
    for provider, error in {None: "the footer key is not given", f"{MODULE}:wrong_key": "the key is wrong"}.items():
        outcome = add_filters(shipped, path, "id", key_provider=provider).collect()
        assert [row.action for row in outcome] == ["failed"] * 2
        assert all(error in row.error for row in outcome)
    assert {file: file.read_bytes() for file in Path(path).iterdir()} == before


def test_errors_show_no_value_of_an_encrypted_column(shipped: SparkSession, tmp_path: Path) -> None:
    value, path = 1_234_567_890, str(tmp_path / "t.parquet")
    secret = pa.table({"id": pa.array([value], pa.int32())})
    bp.write_table(secret, path, encryption=spark_kms.encryption(columns=COLUMNS))
    schema = StructType([StructField("id", ByteType())])
    reader = make_reader(Options.parse({"path": path, "keyProvider": PROVIDER}), schema)
    with pytest.raises(UnsupportedError, match="has a value that does not fit tinyint") as raised:
        list(reader.read(reader.partitions()[0]))
    assert str(value) not in full_text(raised.value)
