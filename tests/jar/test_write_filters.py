"""The filters of ``bloomColumns`` hold every value and have the right size; a reached limit warns."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.sizes import TOLERANCE
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int32, xxh64_int64
from tests.support.scenarios import ask_all
from tests.support.spark import conf
from tests.support.written_filters import ROWS_PER_GROUP, filtered_columns, filters, save

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("ndv", "fpp"), [(1, 0.01), (30, 0.0001), (20_000, 0.2)])
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


@pytest.mark.parametrize("ndv", [140_000, 6_000])
def test_more_values_than_memory_make_the_same_filter(jar_spark: SparkSession, tmp_path: Path, ndv: int) -> None:
    """As many hashes fit in memory as fill bloomMaxBytes: 131,072 in 1 MiB."""
    frame = jar_spark.range(140_000).selectExpr(f"id * 7919 % {ndv} AS n")
    hashes = xxh64_int64(np.arange(140_000, dtype=np.int64) * 7919 % ndv)
    sizes = []
    for limit in ("1m", "256k"):
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


LEGACY = [name for name in VALUES if name.startswith("DECIMAL")]  # the legacy format stores these in another way


@pytest.mark.parametrize(("types", "legacy"), [([*VALUES], False), (LEGACY, True)])
def test_no_value_is_missing_from_its_filter(
    jar_spark: SparkSession, tmp_path: Path, types: list[str], legacy: bool
) -> None:
    """At the top level and in a struct, among nulls, one row group for each value."""
    columns = {f"v{i}": (sql_type, VALUES[sql_type]) for i, sql_type in enumerate(types)}
    data = [*itertools.zip_longest(*(values for _, values in columns.values()))]
    frame = jar_spark.createDataFrame(data, ", ".join(f"{v} {sql_type}" for v, (sql_type, _) in columns.items()))
    structs = (f"if({v} IS NULL, NULL, named_struct('f', named_struct('v', {v}, 'n', 1))) AS s{v}" for v in columns)
    names = [name for v in columns for name in (v, f"s{v}.f.v")]
    with conf(jar_spark, {"spark.sql.parquet.writeLegacyFormat": str(legacy).lower()}):
        wide = frame.coalesce(1).selectExpr("*", *structs)
        path = save(wide, tmp_path / "t", bloomColumns=",".join(names), **{ROWS_PER_GROUP: 1})
    # a row group with only a null has no filter
    assert filters(path).keys() == {
        (i, name) for v, (_, values) in columns.items() for i in range(len(values)) for name in (v, f"s{v}.f.v")
    }
    loaded, queries = jar_spark.read.parquet(path), []  # parquet-java asks these filters
    for v, (sql_type, values) in columns.items():
        for i, value in enumerate(values):
            for column in ((v,), (f"s{v}", "f", "v")):
                answers = bp.probe(path, column=column, value=value)
                assert answers[i].verdict is bp.Verdict.MIGHT_MATCH
                excluded = sum(answer.verdict is bp.Verdict.CANNOT_MATCH for answer in answers[: len(values)])
                assert excluded == len(values) - 1
            queries.append(
                loaded.where(loaded[v] == F.lit(value).cast(sql_type)).select(F.lit(v).alias("v"), F.lit(i).alias("i"))
            )
    found, _ = ask_all(queries)
    expected = [[(v, i)] for v, (_, values) in columns.items() for i in range(len(values))]
    assert [[tuple(row) for row in rows] for rows in found] == expected


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MILLIS"])
def test_timestamps_of_every_storage_are_found(jar_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = jar_spark.sql(
        "SELECT timestamp'2026-01-02 03:04:05.678' AS t UNION ALL SELECT timestamp'1999-12-31 23:59:59'"
    )
    with conf(jar_spark, {"spark.sql.parquet.outputTimestampType": kind}):
        path = save(frame, tmp_path / "t", bloomColumns="t")
    assert filtered_columns(path) == {"t"}
    loads = [jar_spark.read.format(reader).load(path) for reader in ("parquet", "bloomparquet")]
    values = ("2026-01-02 03:04:05.678", "1999-12-31 23:59:59")
    found, _ = ask_all(load.where(f"t = timestamp'{value}'") for load in loads for value in values)
    assert [len(rows) for rows in found] == [1] * 4


@pytest.mark.parametrize(("width", "value"), [(64, "0.0"), (32, "-0.0"), (64, "an odd NaN"), (32, "NaN")])
def test_zeros_and_nans_are_found_by_each_other(
    jar_spark: SparkSession, tmp_path: Path, width: int, value: str
) -> None:
    sql_type = "DOUBLE" if width == 64 else "FLOAT"
    if value == "an odd NaN":
        source = tmp_path / "source.parquet"
        pq.write_table(pa.table({"v": np.array([0x7FF0000000000123], np.uint64).view(np.float64)}), source)
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


@pytest.mark.usefixtures("compiled")
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
    with conf(jar_spark, {"spark.sql.shuffle.partitions": "1"}):
        stream.option("checkpointLocation", str(tmp_path / "check")).start(str(tmp_path / "out")).awaitTermination()
    blooms = bp.inspect([str(file) for file in (tmp_path / "out").rglob("*.parquet")]).to_pylist()
    assert {row["column"] for row in blooms} == {"u"}
    assert len(blooms) == len(list((tmp_path / "out").rglob("*.parquet"))) >= 7
    assert sum(row["estimated_ndv"] for row in blooms) == pytest.approx(600, rel=0.2)
    assert jar_spark.read.format("bloomparquet").load(str(tmp_path / "out")).where("u = xxhash64(77L)").count() == 1
