"""The filters of ``bloomColumns`` hold every value and have the right size; a reached limit warns."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.split_block import TOLERANCE
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int32, xxh64_int64
from pyspark_bloomparquet import last_plan
from tests.support.spark import conf, rows

pytestmark = pytest.mark.slow

ROWS_PER_GROUP = "parquet.block.row.count.limit"


def save(frame: DataFrame, path: Path, **options: Any) -> str:
    """Write `frame` as one file. ``__`` in the name of an option stands for a dot."""
    given = {key.replace("__", "."): str(value) for key, value in options.items()}
    frame.coalesce(1).write.format("bloomparquet").mode("overwrite").options(**given).save(str(path))
    return str(path)


def filters(path: Path | str) -> dict[tuple[int, str], bp.SplitBlockBloomFilter]:
    """The filters of the only file in `path`, by row group and column."""
    (file,) = Path(path).glob("*.parquet")
    data, metadata = file.read_bytes(), pq.read_metadata(file)
    blooms = {}
    sizes = {(row["row_group"], row["column"]): row["bytes"] for row in bp.inspect(str(path)).to_pylist()}
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(i)
            if chunk.bloom_filter_offset is not None:
                end = chunk.bloom_filter_offset + chunk.bloom_filter_length
                size = sizes[group, chunk.path_in_schema]
                blooms[group, chunk.path_in_schema] = bp.SplitBlockBloomFilter.from_bytes(data[end - size : end])
    return blooms


def filtered_columns(path: Path | str) -> set[str]:
    """The columns with a filter. Asserts that each has one in every row group."""
    blooms = filters(path)
    groups = {group for group, _ in blooms}
    columns = {column for _, column in blooms}
    assert blooms.keys() == {(group, column) for group in groups for column in columns}
    return columns


@contextmanager
def log(spark: SparkSession) -> Iterator[list[str]]:
    """The lines that the jar logs in the block."""
    jvm: Any = spark._jvm
    core, text = jvm.org.apache.logging.log4j.core, jvm.java.io.StringWriter()
    appender = core.appender.WriterAppender.createAppender(None, None, text, "bloomparquet-test", False, True)
    appender.start()
    logger = jvm.org.apache.logging.log4j.LogManager.getLogger("bloomparquet")
    level = logger.getLevel()
    core.config.Configurator.setLevel("bloomparquet", jvm.org.apache.logging.log4j.Level.WARN)
    logger.addAppender(appender)
    lines: list[str] = []
    try:
        yield lines
    finally:
        logger.removeAppender(appender)
        core.config.Configurator.setLevel("bloomparquet", level)
        lines += str(text).splitlines()


@pytest.mark.parametrize("fpp", [0.2, 0.01, 0.0001])
@pytest.mark.parametrize("ndv", [1, 2, 30, 1_000, 20_000])
def test_a_filter_is_the_smallest_within_the_fpp(jar_spark: SparkSession, tmp_path: Path, ndv: int, fpp: float) -> None:
    """30,000 rows with `ndv` distinct strings and numbers."""
    frame = jar_spark.range(30_000).selectExpr(f"xxhash64(id % {ndv}) AS n", f"concat('v', id % {ndv}) AS s")
    path = save(frame, tmp_path / "t", bloomColumns="n,s", bloomFpp=fpp)
    blooms = filters(path)
    assert blooms.keys() == {(0, "n"), (0, "s")}
    for bloom in blooms.values():
        assert bloom.estimated_fpp <= TOLERANCE * fpp
        assert bloom.n_blocks == 1 or bloom.fold().estimated_fpp > TOLERANCE * fpp
        assert bloom.n_blocks & (bloom.n_blocks - 1) == 0
        optimum = bp.SplitBlockBloomFilter.for_ndv(ndv, fpp).num_bytes
        assert optimum / 2 <= bloom.num_bytes <= 2 * optimum


@pytest.mark.parametrize(
    ("options", "fpp"),
    [
        ({}, 1e-4),
        ({"bloomRowGroups": 5}, 0.01),
        ({"bloomRowGroups": 2_000}, 1 / 2_000),
        ({"bloomRowGroups": 10**9}, 1e-6),
    ],
)
def test_auto_fpp_follows_the_row_groups_of_the_table(
    jar_spark: SparkSession, tmp_path: Path, options: dict[str, int], fpp: float
) -> None:
    frame = jar_spark.range(12_000).selectExpr("xxhash64(id) AS n", "id")
    limit = {ROWS_PER_GROUP.replace(".", "__"): 1_000}
    path = save(frame, tmp_path / "t", bloomColumns="n", bloomFpp="Auto", **options, **limit)
    blooms = filters(path)
    assert len(blooms) == 12
    for bloom in blooms.values():
        assert bloom.estimated_fpp <= TOLERANCE * fpp < bloom.fold().estimated_fpp
    found = jar_spark.read.format("bloomparquet").load(path).where("n = xxhash64(7777L)")
    assert rows(found) == rows(jar_spark.read.parquet(path).where("n = xxhash64(7777L)"))
    assert found.count() == 1
    (plan,) = last_plan(found)
    assert (plan.total, plan.kept) == (12, 1)


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "many"])
def test_a_wrong_number_of_row_groups_is_an_error(jar_spark: SparkSession, tmp_path: Path, given: str) -> None:
    frame = jar_spark.range(3).toDF("a")
    with pytest.raises(IllegalArgumentException, match=f"option bloomRowGroups is '{given}'; expected the number of"):
        save(frame, tmp_path / "t", bloomColumns="a", bloomFpp="auto", bloomRowGroups=given)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("rows_there", "ndv"), [(2_200_000, 2_200_000), (2_600_000, 50_000), (2_600_000, 3)])
def test_more_values_than_memory_make_the_same_filter(
    jar_spark: SparkSession, tmp_path: Path, rows_there: int, ndv: int
) -> None:
    """By default two million hashes fit in memory; with bloomMaxBytes of 4 MiB, half a million."""
    frame = jar_spark.range(rows_there).selectExpr(f"id * 7919 % {ndv} AS n")
    hashes = xxh64_int64(np.arange(rows_there, dtype=np.int64) * 7919 % ndv)
    sizes = []
    for limit in ("16m", "4m"):
        path = save(frame, tmp_path / "t", bloomColumns="n", bloomMaxBytes=limit, parquet__block__size=1 << 30)
        (bloom,) = filters(path).values()
        expected = bp.SplitBlockBloomFilter.empty(bloom.n_blocks)
        expected.insert(np.unique(hashes))
        assert np.array_equal(bloom.blocks, expected.blocks)
        assert bloom.estimated_fpp <= TOLERANCE * 0.01
        sizes.append(bloom.num_bytes)
    assert sizes[0] == sizes[1]


def test_each_row_group_has_its_own_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Also for the last row group of a file, and for a row group with far fewer values."""
    for total in (5_000, 5_001, 1_000):
        frame = jar_spark.range(total).selectExpr("id", "if(id div 1000 % 2 = 0, id, id div 1000) AS n")
        path = save(frame, tmp_path / "t", bloomColumns="n", **{ROWS_PER_GROUP: 1_000})
        (file,) = Path(path).glob("*.parquet")
        groups = pq.ParquetFile(file)
        assert groups.num_row_groups == math.ceil(total / 1_000)
        blooms = filters(path)
        assert len(blooms) == groups.num_row_groups
        for group in range(groups.num_row_groups):
            values = np.unique(groups.read_row_group(group, ["n"])["n"].to_numpy())
            expected = bp.SplitBlockBloomFilter.empty(blooms[group, "n"].n_blocks)
            expected.insert(xxh64_int64(values))
            assert np.array_equal(blooms[group, "n"].blocks, expected.blocks)
            assert (blooms[group, "n"].n_blocks == 1) == (len(values) == 1)


def test_dictionary_encoded_chunks_have_filters(jar_spark: SparkSession, tmp_path: Path) -> None:
    """parquet-java's own filters are left out for fully dictionary encoded chunks."""
    frame = jar_spark.range(10_000).selectExpr("concat('city-', id % 500) AS city")
    path = save(frame, tmp_path / "t", bloomColumns="city")
    (file,) = Path(path).glob("*.parquet")
    assert pq.read_metadata(file).row_group(0).column(0).has_dictionary_page
    assert file.stat().st_size < 30_000
    assert filtered_columns(path) == {"city"}
    loaded = jar_spark.read.format("bloomparquet").load(path).where("city = 'city-500'")
    assert [(plan.total, plan.kept) for plan in last_plan(loaded)] == [(1, 0)]


D = Decimal
VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, -1, 0, 1, 127],
    "SMALLINT": [-32768, 0, 32767],
    "INT": [-(2**31), -1, 0, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 2**63 - 1],
    "DECIMAL(9,2)": [D("-1.05"), D("0.00"), D("9999999.99")],
    "DECIMAL(18,4)": [D("-1.0500"), D("0"), D("99999999999999.9999")],
    "DECIMAL(38,10)": [D("-1.05"), D("0"), D("9999999999999999999999999999.9999999999")],
    "STRING": ["", "a", "ü€", "x" * 100, "0123456789012345678901234567890"],
    "BINARY": [b"", b"\x00", b"\xff" * 33],
    "DATE": [dt.date(1582, 10, 15), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "TIMESTAMP": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2026, 1, 2, 3, 4, 5)],
    "TIMESTAMP_NTZ": [dt.datetime(1969, 12, 31), dt.datetime(2026, 1, 2, 3, 4, 5, 6)],
    "DOUBLE": [-1.5, 1e308, 5e-324, math.inf],
    "FLOAT": [-1.5, math.inf, 1.401298464324817e-45],
}


@pytest.mark.parametrize("legacy", [False, True], ids=["", "legacy format"])
@pytest.mark.parametrize("sql_type", VALUES)
def test_no_value_is_missing_from_its_filter(
    jar_spark: SparkSession, tmp_path: Path, sql_type: str, legacy: bool
) -> None:
    """At the top level and in a struct, among nulls, one row group for each value."""
    values = [*VALUES[sql_type], None]
    frame = jar_spark.createDataFrame([(value,) for value in values], f"v {sql_type}").coalesce(1)
    frame = frame.selectExpr("v", "if(v IS NULL, NULL, named_struct('f', named_struct('v', v, 'n', 1))) AS s")
    with conf(jar_spark, {"spark.sql.parquet.writeLegacyFormat": str(legacy).lower()}):
        path = save(frame, tmp_path / "t", bloomColumns="v,s.f.v", **{ROWS_PER_GROUP: 1})
    blooms = filters(path)
    # the row group with only a null has no filter
    assert blooms.keys() == {(i, column) for i in range(len(values) - 1) for column in ("v", "s.f.v")}
    for i, value in enumerate(values[:-1]):
        for column in (("v",), ("s", "f", "v")):
            answers = bp.probe(path, column=column, value=value)
            assert answers[i].verdict is bp.Verdict.MIGHT_MATCH
            assert sum(answer.verdict is bp.Verdict.CANNOT_MATCH for answer in answers[:-1]) == len(values) - 2
    for reader in ("parquet", "bloomparquet"):
        loaded = jar_spark.read.format(reader).load(path)
        for value in values[:-1]:
            (read,) = loaded.where(loaded["v"] == F.lit(value).cast(sql_type)).select("v").collect()
            assert read[0] == value


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_timestamps_of_every_storage_are_found(jar_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = jar_spark.sql(
        "SELECT timestamp'2026-01-02 03:04:05.678' AS t UNION ALL SELECT timestamp'1999-12-31 23:59:59'"
    )
    with conf(jar_spark, {"spark.sql.parquet.outputTimestampType": kind}):
        path = save(frame, tmp_path / "t", bloomColumns="t")
    assert filtered_columns(path) == {"t"}
    for value in ("2026-01-02 03:04:05.678", "1999-12-31 23:59:59"):
        for reader in ("parquet", "bloomparquet"):
            assert jar_spark.read.format(reader).load(path).where(f"t = timestamp'{value}'").count() == 1


ODD_NAN = {64: 0x7FF0000000000123, 32: 0x7F800123}


@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize("value", ["0.0", "-0.0", "NaN", "an odd NaN"])
def test_zeros_and_nans_are_found_by_each_other(
    jar_spark: SparkSession, tmp_path: Path, width: int, value: str
) -> None:
    sql_type = "DOUBLE" if width == 64 else "FLOAT"
    if value == "an odd NaN":
        bits = np.array([ODD_NAN[width]], np.uint64 if width == 64 else np.uint32)
        source = tmp_path / "source.parquet"
        pq.write_table(pa.table({"v": pa.array(bits.view(np.float64 if width == 64 else np.float32))}), source)
        frame = jar_spark.read.parquet(str(source))
    else:
        frame = jar_spark.sql(f"SELECT CAST('{value}' AS {sql_type}) AS v")
    (bloom,) = filters(save(frame, tmp_path / "t", bloomColumns="v")).values()
    floats = [0.0, -0.0] if value.endswith("0.0") else [math.nan, math.copysign(math.nan, -1)]
    if width == 64:
        hashes = xxh64_int64(np.array(floats, np.float64).view(np.int64))
    else:
        hashes = xxh64_int32(np.array(floats, np.float32).view(np.int32))
    assert bloom.check(hashes).all()
    assert not bloom.check(xxh64_int64(np.arange(100, dtype=np.int64))).all()


def test_no_rows_or_values_make_no_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    for name, frame in (
        ("empty", jar_spark.range(0).selectExpr("id AS n")),
        ("nulls", jar_spark.range(10).selectExpr("CAST(NULL AS BIGINT) AS n")),
    ):
        assert filters(save(frame, tmp_path / name, bloomColumns="n")) == {}
        assert rows(jar_spark.read.parquet(str(tmp_path / name))) == rows(frame)


@pytest.fixture
def mixed(jar_spark: SparkSession) -> DataFrame:
    """Columns of many kinds, of which some profit from a filter."""
    return jar_spark.range(4_000).selectExpr(
        "id",
        "xxhash64(id) AS user",
        "concat('k', id % 5) AS kind",
        "concat('name-', id) AS name",
        "cast(id AS DOUBLE) / 7 AS price",
        "id % 2 = 0 AS flag",
        "array(id) AS tags",
        "map('k', id) AS props",
        "named_struct('code', concat('c', id), 'on', id % 3 = 0) AS st",
        "cast(id * 7919 % 100003 AS DECIMAL(30,2)) AS amount",
        "date_add(date'2020-01-01', cast(id % 100 AS INT)) AS day",
        "concat('n', id) COLLATE UTF8_LCASE AS folded",
        "cast(NULL AS STRING) AS nothing",
    )


def test_a_star_selects_the_columns_that_profit(jar_spark: SparkSession, mixed: DataFrame, tmp_path: Path) -> None:
    """Not selected: dense numbers and dates, few values, fractions, lists, maps, strings with a collation."""
    assert filtered_columns(save(mixed, tmp_path / "t", bloomColumns="*")) == {"user", "name", "st.code", "amount"}
    with_named = save(mixed, tmp_path / "t", bloomColumns="*, price,kind")
    assert filtered_columns(with_named) == {"user", "name", "st.code", "amount", "price", "kind"}
    without = save(mixed, tmp_path / "t", bloomColumns="*", **{"parquet.bloom.filter.enabled#name": "false"})
    assert filtered_columns(without) == {"user", "st.code", "amount"}
    assert rows(jar_spark.read.parquet(without)) == rows(mixed)


def test_a_star_that_selects_no_column_is_no_error(jar_spark: SparkSession, tmp_path: Path) -> None:
    frame = jar_spark.range(10).selectExpr("id % 2 = 0 AS flag")
    assert filters(save(frame, tmp_path / "t", bloomColumns="*")) == {}


def test_columns_with_the_same_path_have_no_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    """A field b of a struct a, and a column "a.b": parquet-java would write one filter for both."""
    frame = jar_spark.range(2_000).selectExpr(
        "named_struct('b', id * 2) AS a", "id * 2 + 1 AS `a.b`", "xxhash64(id) AS c"
    )
    assert filtered_columns(save(frame, tmp_path / "star", bloomColumns="*")) == {"c"}
    own = {"parquet.bloom.filter.enabled#a.b": "true", "parquet.enable.dictionary": "false"}
    assert filters(save(frame, tmp_path / "own", **own)) == {}
    assert filters(save(frame, tmp_path / "all", **{**own, "parquet.bloom.filter.enabled": "true"})).keys() == {
        (0, "c")
    }
    with pytest.raises(IllegalArgumentException, match="which is one of several columns"):
        save(frame, tmp_path / "named", bloomColumns="a.b")
    for condition in ("a.b = 20", "`a.b` = 21"):
        assert jar_spark.read.parquet(str(tmp_path / "own")).where(condition).count() == 1


def test_a_reached_limit_warns_once_per_file_and_column(jar_spark: SparkSession, tmp_path: Path) -> None:
    frame = jar_spark.range(20_000).selectExpr("xxhash64(id) AS a", "concat('b', id) AS b", "id % 3 AS c")
    with log(jar_spark) as lines:
        path = save(frame, tmp_path / "t", bloomColumns="a,b,c", bloomMaxBytes="8k", **{ROWS_PER_GROUP: 10_000})
    blooms = filters(path)
    assert {bloom.num_bytes for (_, column), bloom in blooms.items() if column != "c"} == {8192}
    (file,) = Path(path).glob("*.parquet")
    assert len(lines) == 2
    for column, line in zip("ab", sorted(lines, key=lambda each: "column b" in each)):
        worst = max(bloom.estimated_fpp for (_, name), bloom in blooms.items() if name == column)
        assert file.name in line
        assert f"column {column} " in line
        assert "bloomMaxBytes" in line
        assert f"false positive probability is {worst:.3g} instead of 0.01" in line
    with log(jar_spark) as lines:
        save(frame, tmp_path / "t", bloomColumns="a,b,c", **{ROWS_PER_GROUP: 10_000})
    assert lines == []


def test_a_useless_filter_is_left_out_with_a_warning(jar_spark: SparkSession, tmp_path: Path) -> None:
    frame = jar_spark.range(20_000).selectExpr("xxhash64(id) AS a")
    with log(jar_spark) as lines:
        path = save(frame, tmp_path / "t", bloomColumns="a", bloomMaxBytes=32)
    assert filters(path) == {}
    assert len(lines) == 1
    assert "so it is left out" in lines[0]


@pytest.mark.parametrize("given", ["31", "129m", "0", "-1", "much", "", "1.5m"])
def test_a_wrong_limit_is_an_error(jar_spark: SparkSession, tmp_path: Path, given: str) -> None:
    with pytest.raises(
        IllegalArgumentException, match=f"option bloomMaxBytes is '{given}'; expected a number of bytes"
    ):
        save(jar_spark.range(3), tmp_path / "x", bloomColumns="id", bloomMaxBytes=given)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("given", ["1000000", "1023k", " 512k "])
def test_a_limit_is_rounded_down_to_a_power_of_two(jar_spark: SparkSession, tmp_path: Path, given: str) -> None:
    frame = jar_spark.range(500_000).selectExpr("xxhash64(id) AS a")
    (bloom,) = filters(save(frame, tmp_path / "t", bloomColumns="a", bloomMaxBytes=given, bloomFpp=0.0001)).values()
    assert bloom.num_bytes == 524_288


def test_parquet_javas_options_make_its_own_filters(jar_spark: SparkSession, tmp_path: Path) -> None:
    """An adaptive filter has at least 1 KiB; expected.ndv sets the size."""
    frame = jar_spark.range(2_000).selectExpr("xxhash64(id) AS a", "concat('b', id % 3) AS b")
    key = "parquet.bloom.filter."
    adaptive = filters(save(frame, tmp_path / "t", bloomColumns="a,b", **{key + "adaptive.enabled": "true"}))
    assert {column: bloom.num_bytes for (_, column), bloom in adaptive.items()} == {"a": 4096, "b": 1024}
    expected = filters(save(frame, tmp_path / "t", bloomColumns="a,b", **{key + "expected.ndv#a": "100000"}))
    assert {column: bloom.num_bytes for (_, column), bloom in expected.items()} == {"a": 131_072, "b": 32}
    share = filters(save(frame, tmp_path / "t", bloomColumns="a,b", bloomFpp=0.5, **{key + "fpp#a": "0.001"}))
    assert share[0, "a"].estimated_fpp <= TOLERANCE * 0.001
    limited = filters(save(frame, tmp_path / "t", bloomColumns="a", **{key + "max.bytes": "1024"}))
    assert limited[0, "a"].num_bytes == 1024


def test_a_variant_column_costs_no_other_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Spark has a special writer for such files."""
    frame = jar_spark.range(2_000).selectExpr("xxhash64(id) AS a", "parse_json(concat('{\"x\": ', id, '}')) AS v")
    path = save(frame, tmp_path / "t", bloomColumns="a")
    assert filtered_columns(path) == {"a"}
    assert jar_spark.read.parquet(path).where("variant_get(v, '$.x', 'INT') = 77").count() == 1


def test_streams_and_many_open_files_have_filters(jar_spark: SparkSession, tmp_path: Path) -> None:
    jar_spark.range(600).selectExpr("id", "xxhash64(id) AS u", "id % 7 AS p").write.parquet(str(tmp_path / "in"))
    stream = jar_spark.readStream.schema("id BIGINT, u BIGINT, p BIGINT").parquet(str(tmp_path / "in")).writeStream
    stream = stream.format("bloomparquet").option("bloomColumns", "u").partitionBy("p").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "check")).start(str(tmp_path / "out")).awaitTermination()
    blooms = bp.inspect([str(file) for file in (tmp_path / "out").rglob("*.parquet")]).to_pylist()
    assert {row["column"] for row in blooms} == {"u"}
    assert len(blooms) == len(list((tmp_path / "out").rglob("*.parquet"))) >= 7
    assert sum(row["estimated_ndv"] for row in blooms) == pytest.approx(600, rel=0.2)
    assert jar_spark.read.format("bloomparquet").load(str(tmp_path / "out")).where("u = xxhash64(77L)").count() == 1
