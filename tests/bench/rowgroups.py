"""The benefit of filters for ``spark.read.parquet`` by the size of row groups, as in Spark's BloomFilterBenchmark: one
column of random integers, and a lookup of an absent value.

Spark's writer makes filters of at most 1 MiB, which are too small for large row groups. Our filters are added to the
files that Spark wrote without filters.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import bloomparquet as bp
from tests.bench.measure import Aim, Contender, Row, milliseconds, take_turns
from tests.bench.session import directory, session

_MEGABYTES = (2, 8, 32, 128)
_NONE, _NATIVE, _OURS = "no filters", "Spark's own filters", "bloomparquet add"
_GAINS_FROM = 32
_FPP = 0.05  # Spark reads filters whole, so small filters are better here than precise ones


def lookups(rounds: int, values: int) -> Iterator[Row]:
    """One lookup for each row group size, on three versions of a table of `values` integers."""
    settings = {"spark.driver.memory": "8g", "spark.bloomparquet.transparent": "false"}
    with directory() as home, session(home, **settings) as spark:
        source = str(home / "source.parquet")
        odd = np.random.default_rng(3).integers(-(1 << 30), 1 << 30, values, dtype=np.int32) * 2 + 1
        pq.write_table(pa.table({"value": odd}), source, use_dictionary=False)
        for megabytes in _MEGABYTES if rounds > 1 else _MEGABYTES[:1]:
            yield from _measure(spark, source, megabytes, rounds, home)


def _measure(spark: SparkSession, source: str, megabytes: int, rounds: int, home: Path) -> Iterator[Row]:
    paths = {name: str(home / name) for name in (_NONE, _NATIVE, _OURS)}
    for name in (_NONE, _NATIVE):
        writer = spark.read.parquet(source).coalesce(1).write.mode("overwrite")
        writer = writer.option("parquet.block.size", str(megabytes << 20)).option("parquet.enable.dictionary", "false")
        if name == _NATIVE:
            writer = writer.option("parquet.bloom.filter.enabled#value", "true")
        writer.parquet(paths[name])
    shutil.rmtree(paths[_OURS], ignore_errors=True)
    bp.add_filters(paths[_NONE], paths[_OURS], bloom={"value": bp.Bloom(_FPP, max_bytes=128 << 20)})
    frames = {name: spark.read.parquet(path) for name, path in paths.items()}

    def agree(number: int, result: int) -> None:
        if result != 0:
            raise AssertionError(f"found {result} even numbers where there are none")

    contenders = [
        Contender(name, lambda number, frame=frame: frame.where(f"value = {2 * number}").count())
        for name, frame in frames.items()
    ]
    timings = take_turns(contenders, rounds, agree)
    for name, timing in timings.items():
        ratios = {} if name == _NONE else {_NONE: timing.times_faster_than(timings[_NONE])}
        aims = ()
        if name == _OURS and megabytes >= _GAINS_FROM:
            aims = (Aim(f">= 2x faster than {_NONE}", ratios[_NONE] >= 2),)
        size = sum(file.stat().st_size for file in Path(paths[name]).glob("*.parquet"))
        notes = {"MB of files": size // 1_000_000}
        yield milliseconds("row groups", f"{megabytes} MB row groups", timing, ratios=ratios, aims=aims, notes=notes)
