"""Two tables whose join keys prune the files of the larger one, and joins with pruning off and on."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import texts
from tests.support.spark import conf

FILES, ROWS = 10, 10
COLUMNS = ("id", "narrow", "s", "dec", "x", "real", "st.id", "a.b")
OFF = {"spark.bloomparquet.transparent": "false"}
KEYS = list(range(0, FILES * ROWS, 4))

Kept = list[int | None]


def facts_of(file: int) -> pa.Table:
    ids = [file + FILES * (row * 7 % ROWS) for row in range(ROWS)]
    return pa.table(
        {
            "id": pa.array([None if i == 3 else i for i in ids], pa.int64()),
            "narrow": pa.array(ids, pa.int32()),
            "s": [f"s{i:03}" for i in ids],
            "dec": pa.array([Decimal(i) for i in ids], pa.decimal128(12, 2)),
            "x": [float("nan") if i == 9 else float(i) or -0.0 for i in ids],
            "real": pa.array([i + 0.25 for i in ids], pa.float32()),
            "st": [{"id": i} for i in ids],
            "a.b": pa.array(ids, pa.int64()),
        }
    )


def make_views(spark: SparkSession, root: Path) -> None:
    """Make the views `f` of the facts, by partitions, `m`, which adds Spark's metadata, and `d` of the dimension."""
    for i in range(FILES):
        filters = {column: {"ndv": ROWS, "fpp": 1e-5} for column in COLUMNS}
        files.write(root / "facts" / f"part={i % 2}" / f"{i}.parquet", facts_of(i), filters)
    dimension = {
        "k": KEYS,
        "name": [f"n{k}" for k in KEYS],
        "s": [f"s{k:03}" for k in KEYS],
        "small": pa.array(KEYS, pa.int32()),
        "dec": pa.array([Decimal(k) for k in KEYS], pa.decimal128(20, 4)),
        "x": [float("nan") if k == 8 else float(k) for k in KEYS],
        "real": [k + 0.25 for k in KEYS],
        "p": pa.array([k // 4 % 2 for k in KEYS], pa.int32()),
        "maybe": pa.array([None if k < 8 else k for k in KEYS], pa.int64()),
        "huge": [k + (1 << 32) for k in KEYS],
    }
    files.write(root / "dimension" / "d.parquet", dimension)
    facts = spark.read.parquet(str(root / "facts"))
    facts.createOrReplaceTempView("f")
    facts.select("*", "_metadata").createOrReplaceTempView("m")
    spark.read.parquet(str(root / "dimension")).createOrReplaceTempView("d")


def kept(frame: DataFrame) -> Kept:
    """The number of row groups that each scan of the facts kept; None for a scan that was not planned."""
    return [plan.kept if plan.planned else None for plan in last_plan(frame) if plan.paths[0].endswith("facts")]


def inserted(frame: DataFrame) -> bool:
    return "dynamicpruning" in frame._jdf.queryExecution().toString()


def assert_same_rows(joined: SparkSession, sql: str) -> tuple[list[str], DataFrame]:
    """Run `sql` with pruning off and on, and compare the rows."""
    with conf(joined, OFF):
        oracle = texts(joined.sql(sql).collect())
    frame = joined.sql(sql)
    rows = texts(frame.collect())
    assert rows == oracle
    return rows, frame
