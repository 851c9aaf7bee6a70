"""Files of every writer with added filters: every reader reads the same rows, and readers that use filters skip."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.writing.retrofit.retrofit import add_filters
from tests.interop.test_datafusion import pruned_by_filter
from tests.support import interop
from tests.support.layout import assert_only_filters_changed
from tests.support.stored import assert_filters_hold_all

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

duckdb = pytest.importorskip("duckdb")
datafusion = pytest.importorskip("datafusion")
polars = pytest.importorskip("polars")

GROUPS, ROWS = 4, 2_048


def make(rows: int = GROUPS * ROWS) -> pa.Table:
    """Every quarter of the rows has other values in every column, within the same bounds. Every second value exists."""
    keys = (np.arange(rows) * 2_654_435_761 % (2 * rows)) // 2 * 2
    return pa.table({
        "id": keys,
        "text": [f"key {key:06}" for key in keys.tolist()],
        "few": [f"{'ab'[key % 2]}{key % 7}" for key in keys.tolist()],
        "real": keys / 8,
        "day": pa.array((keys % 40_000).astype(np.int32), pa.int32()).cast(pa.date32()),
        "moment": pa.array(keys * 1_000_003, pa.timestamp("us")),
        "price": pa.array([Decimal(key) / 4 for key in keys.tolist()], pa.decimal128(12, 2)),
    })  # fmt: skip


TABLE = make()


def by_duckdb(path: str) -> None:
    with duckdb.connect() as connection:
        connection.register("made", TABLE)
        connection.execute(f"COPY made TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {ROWS}, WRITE_BLOOM_FILTER false)")


def by_datafusion(path: str) -> None:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.from_arrow(TABLE, name="made")
    options = f"'format.max_row_group_size' '{ROWS}'"
    context.sql(f"COPY (SELECT * FROM made) TO '{path}' STORED AS PARQUET OPTIONS ({options})").collect()


def by_fastparquet(path: str) -> None:
    fastparquet = pytest.importorskip("fastparquet")
    frame = TABLE.drop_columns(["day", "price"]).to_pandas()
    frame["maybe"] = [None if i % 3 else f"{i}" for i in range(len(frame))]
    fastparquet.write(path, frame, row_group_offsets=ROWS, compression="GZIP")


WRITERS: dict[str, Callable[[str], None]] = {
    "pyarrow": lambda path: pq.write_table(TABLE, path, row_group_size=ROWS, write_page_index=True),
    "pyarrow, version 2 pages": lambda path: pq.write_table(
        TABLE, path, row_group_size=ROWS, data_page_version="2.0", version="1.0", compression="zstd"
    ),
    "DuckDB": by_duckdb,
    "DataFusion": by_datafusion,
    "polars": lambda path: polars.from_arrow(TABLE).write_parquet(path, row_group_size=ROWS),
    "fastparquet": by_fastparquet,
}


def all_rows(path: str) -> list[list[tuple[Any, ...]]]:
    """The rows as pyarrow, polars, DuckDB and DataFusion read them."""
    context = datafusion.SessionContext()
    context.register_parquet("file", path)
    readers = [
        pq.read_table(path).to_pylist(),
        polars.read_parquet(path).to_dicts(),
        [tuple(row) for row in duckdb.sql(f"SELECT * FROM read_parquet('{path}')").fetchall()],
        pa.Table.from_batches(context.table("file").collect()).to_pylist(),
    ]
    return [sorted(map(str, rows)) for rows in readers]  # type: ignore[misc]


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writers_files_keep_rows_and_are_skipped(tmp_path: Path, writer: str) -> None:
    path, before = str(tmp_path / "a.parquet"), str(tmp_path / "before.parquet")
    WRITERS[writer](path)
    Path(before).write_bytes(Path(path).read_bytes())
    columns = [name for name in pq.read_schema(path).names if name not in ("few", "moment")]
    (outcome,) = add_filters(path, bloom=columns)
    assert outcome.action == "added"
    assert_only_filters_changed(before, path)
    names = pq.read_schema(path).names
    assert_filters_hold_all(path, {names.index(column) for column in columns})
    assert all_rows(path) == all_rows(before)

    groups = pq.read_metadata(path).num_row_groups
    assert groups >= GROUPS
    for key, expected in [(2, 1), (5_000, 1), (3, 0), (5_001, 0)]:
        plan = bp.plan(path, bp.Eq("text", f"key {key:06}"))
        assert expected <= plan.kept <= expected + 1
        probe = f"parquet_bloom_probe('{path}', 'text', 'key {key:06}')"
        probed = duckdb.sql(f"SELECT bloom_filter_excludes FROM {probe}").fetchall()
        assert len(probed) == groups
        assert [excluded for (excluded,) in probed].count(False) == plan.kept
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
        context.register_parquet("file", path)
        assert pruned_by_filter(context, f"SELECT * FROM file WHERE text = 'key {key:06}'") >= groups - plan.kept - 1


ZEROS = pa.table({"double": [-0.0, -1.0, 1.0] * 3, "float": pa.array([-0.0, -1.0, 1.0] * 3, pa.float32())})


def test_every_engine_finds_zero_under_either_sign(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(ZEROS, path)
    add_filters(path, bloom=["double", "float"])
    context = datafusion.SessionContext()
    context.register_parquet("file", path)
    for column in ZEROS.column_names:
        for zero in ("0.0", "-0.0"):
            assert bp.plan(path, f"{column} = {zero}").kept == 1
            query = f"SELECT count(*) FROM read_parquet('{path}') WHERE {column} = {zero}"
            assert duckdb.sql(query).fetchall() == [(3,)]
            assert context.table("file").filter(f"{column} = {zero}").count() == 3
    with_nan = str(tmp_path / "nan.parquet")
    pq.write_table(pa.table({"v": [float("nan"), 1.0]}), with_nan, write_statistics=False)
    add_filters(with_nan, bloom="v")
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{with_nan}') WHERE v = 'nan'::DOUBLE").fetchall() == [(1,)]


def rows_scanned(frame: Any) -> tuple[list[Any], int]:
    """The rows of a query, and the number of rows that its scan returned before the filter."""
    rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    scans, scanned = [plan], 0
    while scans:
        node = scans.pop()
        if node.nodeName() == "AdaptiveSparkPlan":
            scans.append(node.executedPlan())
            continue
        children = node.children()
        scans += [children.apply(i) for i in range(children.size())]
        if "QueryStage" in node.nodeName():
            scans.append(node.plan())
        if node.nodeName().startswith("Scan"):
            scanned += node.metrics().apply("numOutputRows").value()
    return rows, scanned


@pytest.fixture(scope="module")
def of_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of parquet-java with several row groups and every column type, without filters."""
    from tests.support import spark as support

    frame = spark.createDataFrame(TABLE).coalesce(1)
    path = tmp_path_factory.mktemp("spark") / "plain"
    conf = {"spark.sql.parquet.outputTimestampType": "INT96"}
    with support.conf(spark, conf):
        return interop.only_file(support.write(frame, path, rows_per_group=ROWS))


def test_spark_reads_only_row_groups_that_may_match(spark: SparkSession, of_spark: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    add_filters(of_spark, path, bloom=["id", "text", "real", "day", "price"])
    assert_filters_hold_all(path, {0, 1, 3, 4, 6}, int96="us")
    before, all_scanned = rows_scanned(spark.read.parquet(of_spark).where("id = 5000"))
    assert (len(before), all_scanned) == (1, GROUPS * ROWS)
    frame = spark.read.parquet(path)
    for where in ("id = 5000", "text = 'key 005000'", "real = 625.0", "price = 1250.00", "id IN (5000, 5001, 5003)"):
        assert rows_scanned(frame.where(where)) == (before, ROWS), where
    assert rows_scanned(frame.where("text = 'key 005001'")) == ([], 0)
    assert frame.collect() == spark.read.parquet(of_spark).collect()


def test_spark_finds_the_same_rows_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    columns = ["int8", "int16", "int32", "int64", "uint8", "uint32", "float32", "float64", "date32", "timestamp_us",
               "utc_ms", "string", "decimal_5_2", "decimal_18_4", "decimal_20_2", "decimal_38_10"]  # fmt: skip
    from pyspark.sql import DataFrame, functions

    without, filtered = str(tmp_path / "without.parquet"), str(tmp_path / "with.parquet")
    table = interop.table({column: interop.TYPES[column] for column in columns})
    pq.write_table(table, without, row_group_size=interop.ROWS)
    add_filters(without, filtered, bloom=columns)
    types = {field.name: field.dataType for field in spark.read.parquet(filtered).schema.fields}
    frame, queries, expected = spark.read.parquet(filtered), [], []
    for column in columns:
        last = table[column].drop_null()[-1].as_py()  # in the second row group alone
        text = str(last).removesuffix("+00:00") if isinstance(last, (Decimal, dt.datetime)) else last
        wanted = functions.col(column) == functions.lit(text).cast(types[column])
        queries.append(frame.where(wanted).agg(functions.count("*")))
        expected.append(table[column].to_pylist().count(last))
    assert [row[0] for row in reduce(DataFrame.unionAll, queries).collect()] == expected
    assert min(expected) > 0
