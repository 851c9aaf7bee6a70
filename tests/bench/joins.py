"""Joins in Spark with ``spark.read.parquet``, pruned by the keys of the broadcast side, and not pruned.

Both contenders are one DataFrame in one session; a setting switches the pruning. The keys of the join that cannot
profit are in every row group.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count

from pyspark_bloomparquet import attach
from tests.bench.data import Shape, data_set, scatter
from tests.bench.measure import Aim, Contender, Row, milliseconds, take_turns
from tests.support.spark import start

_ON, _OFF = "pruned", "not pruned"
_KEYS = 10
_AIMS = {1_000: 5.0, 10_000: 15.0}  # by the number of files


def joins(rounds: int, smaller: Shape, larger: Shape) -> Iterator[Row]:
    """A join with few keys, and one that no row group can be skipped for, on both data sets."""
    home = Path(tempfile.mkdtemp(prefix="bench-joins-"))
    try:
        settings = {"spark.driver.memory": "4g", "spark.bloomparquet.cacheDirectory": str(home / "cache")}
        spark = attach(start(home, **settings))
        for shape in dict.fromkeys((smaller, larger)):
            yield from _of(spark, shape, rounds, home)
        spark.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _of(spark: SparkSession, shape: Shape, rounds: int, home: Path) -> Iterator[Row]:
    facts = spark.read.parquet(str(data_set(shape)))
    rows = np.arange(1_000) * (shape.total_rows // 1_000)
    pairs = enumerate(zip(scatter(rows).tolist(), (rows % 97 / 100).tolist(), strict=True))
    keys = spark.createDataFrame([(n, *pair) for n, pair in pairs], "n long, id long, amount double")
    keys.coalesce(1).write.parquet(str(home / f"keys-{shape.files}"))
    dimension = spark.read.parquet(str(home / f"keys-{shape.files}"))

    def few(number: int) -> DataFrame:
        return dimension.where((col("n") >= _KEYS * (number + 1)) & (col("n") < _KEYS * (number + 2)))

    def profits(number: int) -> int:
        return len(facts.join(few(number), "id").collect())

    def cannot_profit(number: int) -> int:
        common = few(number).select(col("amount").alias("common")).distinct()
        row = facts.join(common, facts.amount == col("common")).agg(count("*")).first()
        assert row is not None
        return int(row[0])

    yield from _compare(spark, f"{_KEYS} keys, {shape.files:,} files", profits, rounds, _AIMS.get(shape.files))
    case = f"keys that all files have, {shape.files:,} files"
    yield from _compare(spark, case, cannot_profit, rounds, 1 / 1.03)


def _compare(
    spark: SparkSession, case: str, ask: Callable[[int], int], rounds: int, least: float | None
) -> Iterator[Row]:
    def switch(value: str) -> Callable[[int], None]:
        return lambda number: spark.conf.set("spark.bloomparquet.transparent", value)

    seen: dict[int, int] = {}

    def agree(number: int, result: int) -> None:
        if result != seen.setdefault(number, result):
            raise AssertionError(f"{case}: {seen[number]} rows, then {result}")

    contenders = [Contender(_ON, ask, before=switch("true")), Contender(_OFF, ask, before=switch("false"))]
    timings = take_turns(contenders, rounds, agree)
    faster = timings[_ON].times_faster_than(timings[_OFF])
    yield milliseconds("joins", case, timings[_OFF])
    aims = () if least is None else (Aim(f">= {least:.2f}x as fast", faster >= least),)
    yield milliseconds("joins", case, timings[_ON], ratios={_OFF: faster}, aims=aims)
