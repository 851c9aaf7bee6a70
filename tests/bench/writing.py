"""Adding, shrinking and writing filters, compared with rewriting the file with pyarrow or Spark.

Files are in the page cache of the operating system, and output is flushed to disk. Peak memory is measured in a
separate process, without imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import bloomparquet as bp
from pyspark_bloomparquet import attach
from tests.bench.events import LOOKED_UP, ROW_GROUP, events, pyarrow_rewrite
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns
from tests.support.spark import start

_EXAMPLE_ROWS = 100_000
_ADD, _SHRINK = "bloomparquet add", "bloomparquet shrink"
_REWRITE, _SPARK = "rewrite with pyarrow", "rewrite with Spark"


def writing(rounds: int, rows: int) -> Iterator[Row]:
    """Add filters, shrink filters, and write files with filters."""
    home = Path(tempfile.mkdtemp(prefix="bench-writing-", dir=os.environ.get("BENCH_DATA_DIR")))
    try:
        spark = attach(start(home, **{"spark.driver.memory": "4g"}))
        table = events(rows)
        plain, large = str(home / "plain.parquet"), str(home / "large.parquet")
        pq.write_table(table, plain, row_group_size=ROW_GROUP)
        # Filters for four times the values that there are.
        oversized = {name: {"ndv": 4 * ROW_GROUP, "fpp": 1e-8} for name in LOOKED_UP}
        pq.write_table(table, large, row_group_size=ROW_GROUP, bloom_filter_options=oversized)
        yield from _adding(rounds, plain, spark, home)
        yield from _shrinking(rounds, large, home)
        yield from _writing_arrow(rounds, table, home)
        yield from _writing_spark(rounds, spark, plain, home)
        spark.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _spark_filters(writer: Any, enabled: bool = True) -> Any:
    for name in LOOKED_UP if enabled else ():
        writer = writer.option(f"parquet.bloom.filter.enabled#{name}", "true")
    return writer


def _adding(rounds: int, plain: str, spark: SparkSession, home: Path) -> Iterator[Row]:
    target = str(home / "added.parquet")
    columns = list(LOOKED_UP)

    def by_spark(number: int) -> None:
        _spark_filters(spark.read.parquet(plain).write.mode("overwrite")).parquet(str(home / "by-spark"))

    timings = take_turns(
        [
            Contender(_ADD, lambda number: bp.add_filters(plain, target, bloom=columns)),
            Contender(_REWRITE, lambda number: pyarrow_rewrite(plain, str(home / "rewritten.parquet"))),
            Contender(_SPARK, by_spark),
        ],
        rounds,
    )
    megabytes = os.path.getsize(plain) / 1e6
    peak = {
        _ADD: _peak(f"bp.add_filters({plain!r}, {target!r}, bloom={columns!r})"),
        _REWRITE: _peak(f"pyarrow_rewrite({plain!r}, {str(home / 'rewritten.parquet')!r})"),
    }
    for name, timing in timings.items():
        ratios, aims = {}, []
        if name == _ADD:
            ratios = {other: timing.times_faster_than(timings[other]) for other in (_REWRITE, _SPARK)}
            aims = [
                Aim(f">= {least}x faster than {other}", ratios[other] >= least)
                for other, least in ((_REWRITE, 4), (_SPARK, 8))
            ]
        notes = {"MB/s of source": round(megabytes / timing.median)}
        if name in peak:
            notes["MB at its peak"] = peak[name]
        yield milliseconds(
            "writing", f"add to {megabytes:,.0f} MB", timing, ratios=ratios, aims=tuple(aims), notes=notes
        )


def _shrinking(rounds: int, large: str, home: Path) -> Iterator[Row]:
    def agree(number: int, result: Any) -> None:
        if isinstance(result, list) and result[0].action != "shrunk":
            raise AssertionError(f"expected a shrunk file, found {result}")

    timings = take_turns(
        [
            Contender(_SHRINK, lambda number: bp.shrink_filters(large, str(home / "shrunk.parquet"))),
            Contender(_REWRITE, lambda number: pyarrow_rewrite(large, str(home / "rewritten.parquet"))),
        ],
        rounds,
        agree,
    )
    before, after = (os.path.getsize(home / name) for name in ("large.parquet", "shrunk.parquet"))
    case = f"shrink {before / 1e6:,.0f} MB to {after / 1e6:,.0f} MB"
    for name, timing in timings.items():
        ratios, aims = {}, ()
        if name != _REWRITE:
            ratios = {_REWRITE: timing.times_faster_than(timings[_REWRITE])}
            aims = (Aim(f">= 20x faster than {_REWRITE}", ratios[_REWRITE] >= 20),)
        yield milliseconds("writing", case, timing, ratios=ratios, aims=aims)


def _writing_arrow(rounds: int, table: pa.Table, home: Path) -> Iterator[Row]:
    path, columns = str(home / "written.parquet"), list(LOOKED_UP)
    without, with_filters = "write_table", "write_table with bloom"
    timings = take_turns(
        [
            Contender(without, lambda number: bp.write_table(table, path, row_group_size=ROW_GROUP)),
            Contender(
                with_filters, lambda number: bp.write_table(table, path, bloom=columns, row_group_size=ROW_GROUP)
            ),
        ],
        rounds,
    )
    yield from _cost("write a table of Arrow", timings, without, with_filters)


def _writing_spark(rounds: int, spark: SparkSession, plain: str, home: Path) -> Iterator[Row]:
    without, native, ours = "no filters", "Spark's own filters", "format bloomparquet, bloomColumns"
    frame = spark.read.parquet(plain).repartition(2).cache()
    frame.count()

    def write(kind: str, to: Path = home / "by-spark") -> None:
        writer = _spark_filters(frame.write.mode("overwrite"), kind == native)
        if kind == ours:
            writer = writer.option("bloomColumns", ",".join(LOOKED_UP))
        writer.format("bloomparquet" if kind == ours else "parquet").save(str(to))

    timings = take_turns(
        [Contender(kind, lambda number, kind=kind: write(kind)) for kind in (without, native, ours)], rounds
    )
    yield from _cost("write a table of Spark", timings, without, ours, native)
    frame.unpersist()
    frame = _example(spark)
    timings = take_turns(
        [
            Contender(kind, lambda number, kind=kind: write_example(frame, kind == native, kind == ours, home / kind))
            for kind in (without, native, ours)
        ],
        rounds,
    )
    sizes = {kind: sum(file.stat().st_size for file in (home / kind).glob("*.parquet")) for kind in timings}
    smaller = sizes[native] / sizes[ours]
    for row in _cost(f"{_EXAMPLE_ROWS:,} rows of six columns", timings, without, ours, native):
        aims = row.aims + (
            (Aim(f"files >= 3x smaller: {smaller:.1f}x", smaller >= 3),) if row.contender == ours else ()
        )
        yield Row(**{**row.__dict__, "notes": {"kB": sizes[row.contender] // 1000}, "aims": aims})


def _example(spark: SparkSession) -> Any:
    return spark.range(0, _EXAMPLE_ROWS, 1, 1).selectExpr(
        "id", "id * 7919 % 1000003 AS user_id", "hex(id) AS session", "rand() AS score",
        "cast(id % 5000 AS int) AS shop", "id % 2 = 0 AS flag",
    )  # fmt: skip


def write_example(frame: Any, native: bool, ours: bool, to: Path) -> None:
    """Write six columns of few rows: Spark's filters of 1 MiB are most of such a file."""
    writer = frame.write.mode("overwrite")
    if native:
        writer = writer.option("parquet.bloom.filter.enabled", "true")
    if ours:
        writer = writer.option("bloomColumns", "*")
    writer.format("bloomparquet" if ours else "parquet").save(str(to))


def _cost(case: str, timings: dict[str, Timing], without: str, ours: str, native: str | None = None) -> Iterator[Row]:
    for name, timing in timings.items():
        ratios: dict[str, float] = {}
        aims: tuple[Aim, ...] = ()
        if name == ours:
            ratios = {other: timing.times_faster_than(timings[other]) for other in (without, native) if other}
            aims = (Aim(f"<= 1.25x the time of {without}", ratios[without] >= 1 / 1.25),)
            if native:
                aims += (Aim(f"no slower than {native}", ratios[native] >= 1),)
        yield milliseconds("writing", case, timing, ratios=ratios, aims=aims)


_MEASURED = """
import bloomparquet as bp
from tests.bench.events import pyarrow_rewrite
{statement}
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _peak(statement: str) -> int:
    """The peak memory of a statement in a separate process, in megabytes, without imports. Linux only."""
    sizes = []
    for body in ("pass", statement):
        code = _MEASURED.format(statement=body)
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        sizes.append(int(done.stdout))
    return (sizes[1] - sizes[0]) // 1000
