"""The cost of encryption for planning: lookups in encrypted files, compared with plain copies and with Spark's reader.

The values are absent, so that only planning is measured: Spark opens every file and every filter, and reads no row.
Keys come from a KMS client without a network. The column in the predicate has its own key.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.planning.index.cache import process_cache
from pyspark_bloomparquet import attach
from tests.bench.data import Shape, scatter
from tests.bench.measure import Contender, Row, Timing, milliseconds, take_turns
from tests.support import spark_kms
from tests.support.spark import start

_PLAIN, _SECRET = "plain", "encrypted"


def plans(rounds: int, shape: Shape) -> Iterator[Row]:
    """Lookups of absent ids in both versions of a data set, in Python and then in Spark."""
    home = Path(tempfile.mkdtemp(prefix="bench-encrypted-", dir=os.environ.get("BENCH_DATA_DIR")))
    try:
        paths = {_PLAIN: home / _PLAIN, _SECRET: home / _SECRET}
        _write(paths, shape)
        yield from _in_the_core(paths, shape, rounds)
        spark = attach(
            start(
                home,
                **{"spark.driver.memory": "4g", "spark.bloomparquet.cacheDirectory": str(home / "cache"), **_hadoop()},
            )
        )
        spark_kms.install(spark, home)
        yield from _in_spark(spark, paths, shape, rounds)
        spark.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _hadoop() -> dict[str, str]:
    return {f"spark.hadoop.{key}": value for key, value in spark_kms.READING.items()}


def _write(paths: dict[str, Path], shape: Shape) -> None:
    encryption = spark_kms.encryption("kf", {"ki": ["id"]})
    for path in paths.values():
        path.mkdir()
    for number in range(shape.files):
        rows = np.arange(shape.rows * shape.row_groups) + number * shape.rows * shape.row_groups
        table = pa.table({"id": scatter(rows), "amount": rows * 0.25, "n": rows % 1_000})
        for name, path in paths.items():
            bp.write_table(
                table, path / f"{number:05}.parquet", bloom={"id": bp.Bloom(shape.fpp)}, row_group_size=shape.rows,
                encryption=encryption if name == _SECRET else None,
            )  # fmt: skip


def _in_the_core(paths: dict[str, Path], shape: Shape, rounds: int) -> Iterator[Row]:
    keys = {_PLAIN: None, _SECRET: spark_kms.every_key()}

    def run(name: str, number: int) -> bp.ScanPlan:
        return bp.plan(paths[name], bp.Eq("id", _absent(shape, number)), keys=keys[name])

    contenders = []
    for name in paths:
        contenders += [
            Contender(
                f"{name}, cold",
                lambda number, name=name: run(name, number),
                before=lambda _: process_cache.clear(),
            ),
            Contender(
                f"{name}, warm",
                lambda number, name=name: run(name, number),
                before=lambda number, name=name: run(name, number - 1),
            ),
        ]

    def agree(_: int, plan: bp.ScanPlan) -> None:
        if plan.errors or plan.kept > shape.total_row_groups // 20:
            raise AssertionError(f"{plan.kept} row groups kept, {len(plan.errors)} errors")

    timings = take_turns(contenders, rounds, agree)
    for timing in timings.values():
        temperature = timing.name.rpartition(" ")[2]
        twin = timings[f"{_PLAIN}, {temperature}"]
        plan: bp.ScanPlan = timing.result
        notes = {"kept": plan.kept, "requests": plan.requests, "bytes": plan.footer_reads.bytes + plan.bloom_bytes_read}
        if timing is not twin:
            notes = {"ns more for each filter": _nanoseconds_more(timing, twin, shape)}
        ratios = {} if timing is twin else {twin.name: timing.times_faster_than(twin)}
        yield milliseconds(
            "encrypted", f"bp.plan, {shape.total_row_groups:,} row groups", timing, ratios=ratios, notes=notes
        )


def _in_spark(spark: SparkSession, paths: dict[str, Path], shape: Shape, rounds: int) -> Iterator[Row]:
    ours = spark.read.format("bloomparquet").option("keyProvider", spark_kms.PROVIDER)
    frames = {
        "bloomparquet, encrypted": ours.load(str(paths[_SECRET])),
        "bloomparquet, plain": spark.read.format("bloomparquet").load(str(paths[_PLAIN])),
        "spark.read.parquet, encrypted": spark.read.parquet(str(paths[_SECRET])),
        "spark.read.parquet, plain": spark.read.parquet(str(paths[_PLAIN])),
    }

    def agree(_: int, count: int) -> None:
        if count:
            raise AssertionError(f"found {count} rows where there are none")

    contenders = [
        Contender(name, lambda number, frame=frame: frame.where(f"id = {_absent(shape, number)}").count())
        for name, frame in frames.items()
    ]
    timings = take_turns(contenders, rounds, agree)
    for timing in timings.values():
        reader, _, what = timing.name.partition(", ")
        slow, twin = timings[f"spark.read.parquet, {what}"], timings[f"{reader}, {_PLAIN}"]
        ratios = {other.name: timing.times_faster_than(other) for other in (slow, twin) if other is not timing}
        notes = {} if timing is twin else {"ns more for each filter": _nanoseconds_more(timing, twin, shape)}
        yield milliseconds(
            "encrypted", f"Spark, {shape.total_row_groups:,} row groups", timing, ratios=ratios, notes=notes
        )


def _nanoseconds_more(timing: Timing, twin: Timing, shape: Shape) -> int:
    return round(1e9 * (timing.median - twin.median) / shape.total_row_groups)


def _absent(shape: Shape, number: int) -> int:
    return int(scatter(np.array([shape.total_rows + 1 + number]))[0])
