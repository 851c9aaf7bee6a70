"""Files that parquet-java wrote, through Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support import interop
from tests.support.interop import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

COMMON = {
    "byte": interop.INT8, "short": interop.INT16, "int": interop.INT32, "long": interop.INT64, "float": interop.FLOAT,
    "double": interop.DOUBLE, "string": interop.STRING, "binary": interop.BINARY, "date": interop.DATE,
    "time": interop.time_of_day("us"), "struct.long": interop.INT64, "struct.string": interop.STRING,
}  # fmt: skip
DECIMALS = {
    "decimal_5_2": interop.decimal(5, 2),
    "decimal_9_0": interop.decimal(9, 0),
    "decimal_18_4": interop.decimal(18, 4),
    "decimal_38_10": interop.decimal(38, 10),
}
MICROS = {"timestamp": interop.timestamp("us", "UTC"), "timestamp_ntz": interop.timestamp("us")}

FILES: dict[str, tuple[dict[str, Kind], str, str]] = {
    "int96": ({**COMMON, **DECIMALS, **MICROS}, "INT96", "false"),
    "legacy": ({**DECIMALS, **MICROS, "string": interop.STRING}, "TIMESTAMP_MICROS", "true"),
    "millis": ({"timestamp": interop.timestamp("ms", "UTC")}, "TIMESTAMP_MILLIS", "false"),
}
"""The columns of each file, the type of its timestamps, and whether it has Spark's legacy format."""
CASES = [(file, column) for file, (columns, *_) in FILES.items() for column in columns]

STORED_AS = {
    "int96": {
        "byte": "INT32", "short": "INT32", "timestamp": "INT96", "timestamp_ntz": "INT64", "decimal_5_2": "INT32",
        "decimal_9_0": "INT32", "decimal_18_4": "INT64", "decimal_38_10": "FIXED_LEN_BYTE_ARRAY(16)",
    },
    "legacy": {
        "decimal_5_2": "FIXED_LEN_BYTE_ARRAY(3)", "decimal_9_0": "FIXED_LEN_BYTE_ARRAY(4)", "timestamp": "INT64",
        "decimal_18_4": "FIXED_LEN_BYTE_ARRAY(8)", "decimal_38_10": "FIXED_LEN_BYTE_ARRAY(16)",
    },
    "millis": {"timestamp": "INT64"},
}  # fmt: skip


def frame(spark: SparkSession, columns: dict[str, Kind]) -> DataFrame:
    """The columns as a DataFrame with one partition. Arrow timestamps without a zone become TIMESTAMP_NTZ."""
    made = spark.createDataFrame(interop.table(columns)).coalesce(1)
    if "timestamp_ntz" in columns:
        made = made.withColumn("timestamp_ntz", made.timestamp_ntz.cast("timestamp_ntz"))
    return made


def write(made: DataFrame, path: Path, columns: dict[str, int | None], **options: object) -> str:
    from tests.support import spark as support

    return interop.only_file(support.write(made, path, columns, rows_per_group=interop.ROWS, options=options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet_java")


@pytest.fixture(scope="module")
def files(spark: SparkSession, folder: Path) -> dict[str, str]:
    from tests.support import spark as support

    written = {}
    for name, (columns, timestamps, legacy) in FILES.items():
        settings = {"outputTimestampType": timestamps, "writeLegacyFormat": legacy}
        conf = {f"spark.sql.parquet.{key}": value for key, value in settings.items()}
        with support.conf(spark, {**conf, "spark.sql.timeType.enabled": "true"}):
            written[name] = write(frame(spark, columns), folder / name, dict.fromkeys(columns, 512))
    return written


@pytest.fixture(scope="module")
def strings(spark: SparkSession) -> DataFrame:
    return frame(spark, {"string": interop.STRING}).cache()


def test_a_filter_is_written_for_every_type(files: dict[str, str]) -> None:
    for file, (columns, *_) in FILES.items():
        assert interop.filtered_columns(files[file]) == set(columns)
        assert {column: interop.physical(files[file], column) for column in STORED_AS[file]} == STORED_AS[file]


@pytest.mark.parametrize(("file", "column"), CASES)
def test_filters_of_every_type_are_used(files: dict[str, str], file: str, column: str) -> None:
    interop.assert_filters_are_used(files[file], column, FILES[file][0][column])


@pytest.mark.parametrize(
    ("expected_ndv", "options", "sizes"),
    [
        (None, {}, {1 << 20}),
        (1_000_000, {"parquet.bloom.filter.max.bytes": 32 * 94}, {32 * 94}),
        (512, {"parquet.bloom.filter.fpp#string": 0.0001}, {2_048}),
        (None, {"parquet.bloom.filter.adaptive.enabled": "true"}, {1 << n for n in range(5, 20)}),
        (512, {"parquet.writer.version": "v2"}, {1_024}),
    ],
    ids=["default", "capped", "fpp", "adaptive", "version 2 pages"],
)
def test_filter_bits_equal_ours_for_every_size(
    strings: DataFrame, tmp_path: Path, expected_ndv: int | None, options: dict[str, object], sizes: set[int]
) -> None:
    path = write(strings, tmp_path / "sized", {"string": expected_ndv}, **options)
    assert {one.num_bytes for one in interop.filters_of(path, "string")} <= sizes
    interop.assert_filters_are_used(path, "string", interop.STRING)


def test_bitset_with_a_partial_block_is_not_used(strings: DataFrame, tmp_path: Path) -> None:
    """parquet-java uses its byte limit as the size: 3,000 bytes are 93 blocks and 24 bytes."""
    path = write(strings, tmp_path / "odd", {"string": 1_000_000}, **{"parquet.bloom.filter.max.bytes": 3_000})
    plan = bp.plan(path, bp.Eq("string", interop.STRING.absent[0]))
    assert (plan.kept, len(plan.errors)) == (2, 2)
    with pytest.raises(bp.FormatError, match="3000 bytes"):
        bp.inspect(path)


def test_values_before_dictionary_fallback_are_in_the_filter(spark: SparkSession, tmp_path: Path) -> None:
    few, many = ["a", "c", "e"], [f"k{i}" for i in range(2_000)]
    made = spark.createDataFrame(pa.table({"string": few * 200 + many})).coalesce(1)
    options = {
        "parquet.enable.dictionary#string": "true",
        "parquet.dictionary.page.size": 2_000,
        "parquet.page.row.count.limit": 100,
        "parquet.block.row.count.limit": 10_000,
    }
    path = write(made, tmp_path / "fallback", {"string": 2_000}, **options)
    encodings = set(pq.ParquetFile(path).metadata.row_group(0).column(0).encodings)
    assert "PLAIN" in encodings
    assert encodings & {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
    (bloom,) = interop.filters_of(path, "string")
    ours = bp.SplitBlockBloomFilter.empty(bloom.n_blocks)
    ours.insert(interop.hashes_of(path, "string", few + many))
    assert ours.to_bytes() == bloom.to_bytes()
    for literal in few + many[::200]:
        assert bp.plan(path, bp.Eq("string", literal)).kept == 1
    assert bp.plan(path, bp.Eq("string", "d")).skipped == {"bloom": 1}


def test_no_filter_for_fully_dictionary_encoded_chunks(spark: SparkSession, tmp_path: Path) -> None:
    made = spark.createDataFrame(pa.table({"string": ["a", "c", "e"] * 200})).coalesce(1)
    path = write(made, tmp_path / "dictionary", {"string": 10}, **{"parquet.enable.dictionary#string": "true"})
    assert interop.filtered_columns(path) == set()
    interop.assert_keeps_all(path, "string", ["a", "b", "c", "d"])
    assert bp.plan(path, bp.Eq("string", "z")).skipped == {"statistics": 2}


def test_empty_filter_of_boolean_proves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    made = spark.createDataFrame(pa.table({"flag": [True, True, False], "id": [1, 2, 3]})).coalesce(1)
    path = write(made, tmp_path / "flags", {"flag": 10})
    assert interop.filtered_columns(path) == {"flag"}
    assert [one.bits_set for one in interop.filters_of(path, "flag")] == [0]
    interop.assert_keeps_all(path, "flag", [True, False])
    assert bp.plan(path, bp.In("flag", (True, False))).kept == 1


@pytest.mark.parametrize(("data", "check"), interop.SPECIAL.values(), ids=interop.SPECIAL)
def test_special_values_are_found(spark: SparkSession, tmp_path: Path, data: Any, check: Any) -> None:
    made = spark.createDataFrame(pa.table(data)).coalesce(1)
    check(write(made, tmp_path / "snags", dict.fromkeys(data, 50)))


def test_padded_and_collated_strings_prove_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """In Spark, `code = 'ab'` is true for the stored `ab   `, and `name = 'ABEL'` for the stored `Abel`."""
    options = "'parquet.bloom.filter.enabled' 'true', 'parquet.enable.dictionary' 'false'"
    spark.sql(
        f"CREATE TABLE interop_char (code CHAR(5), name STRING COLLATE UTF8_LCASE) USING parquet OPTIONS ({options}) "
        f"LOCATION '{tmp_path / 'char'}'"
    )
    try:
        spark.sql("INSERT INTO interop_char VALUES ('ab', 'Abel'), ('xy', 'Zoe')")
    finally:
        spark.sql("DROP TABLE interop_char")
    paths = [str(path) for path in (tmp_path / "char").rglob("*.parquet")]
    assert {name for path in paths for name in interop.filtered_columns(path)} == {"code", "name"}
    for path in paths:
        interop.assert_keeps_all(path, "code", ["ab", "ab   ", "xy", "kl"])
        interop.assert_keeps_all(path, "name", ["ABEL", "abel", "Abel", "zoe", "mmm"])


def test_legacy_calendar_values_are_never_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """In the hybrid Julian calendar, 1500-01-01 is another number of days than in the Gregorian calendar."""
    from tests.support import spark as support

    made = spark.sql(
        "SELECT date(day) AS d, timestamp(day) AS t FROM VALUES '1500-01-01', '2020-01-01' AS days(day)"
    ).coalesce(1)
    for output in ("TIMESTAMP_MICROS", "INT96"):
        conf = {
            "spark.sql.parquet.outputTimestampType": output,
            "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
            "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        }
        with support.conf(spark, conf):
            path = write(made, tmp_path / output, {"d": 10, "t": 10})
        assert interop.filtered_columns(path) == {"d", "t"}
        interop.assert_keeps_all(path, "d", [dt.date(1500, 1, 1), dt.date(2020, 1, 1)])
        interop.assert_keeps_all(path, "t", [dt.datetime(1500, 1, 1), dt.datetime(2020, 1, 1)])
        assert bp.plan(path, bp.Eq("d", dt.date(2010, 1, 1))).skipped == {"bloom": 1}
