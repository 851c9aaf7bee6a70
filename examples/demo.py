"""`make demo`: one event log by two writers, five lookups in each, before and after ``attach(spark)``.

The queries are those of `spark.read.parquet`, unchanged. Without the jar they go through the Python data source
instead. All rows, columns and types are compared. The counts come from `bloomparquet.plan`, which plans for both. The
seconds are medians of the runs, from the load to the last row. The exit code is 1 if an answer differs, if no Bloom
filter skips a row group, or if Spark reads other row groups than were planned.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import event_log
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from rich.console import Console
from rich.table import Table

import bloomparquet as bp
from pyspark_bloomparquet import DefaultSource, attach, last_plan

HERE = Path(__file__).resolve().parent
PYTHON, SPARK = "bloomparquet_python", "parquet"  # the formats that are compared
console = Console(width=min(Console().width, 120) if Console().is_terminal else 100, highlight=False)


class PythonSource(DefaultSource):
    """The Python data source under another name: with the jar, ``bloomparquet`` is the jar's source."""

    @classmethod
    def name(cls) -> str:
        return PYTHON


@dataclass(frozen=True)
class Lookup:
    """One lookup: `frame(spark, source, path)` is the query, `where` its predicate for the planner."""

    name: str
    where: str
    frame: Callable[[SparkSession, str, str], DataFrame]


class Answer(NamedTuple):
    types: list[tuple[str, str]]
    rows: list[tuple[object, ...]]


class Run(NamedTuple):
    answer: Answer
    seconds: float
    frame: DataFrame


def lookups(values: dict[str, object]) -> list[Lookup]:
    user, some_users = values["newest_user"], ", ".join(map(str, values["users"]))
    since = event_log.DAYS[3].isoformat()
    in_users = f"user_id IN ({some_users}) AND day >= '{since}'"
    return [
        Lookup("DataFrame, =", f"user_id = {user}", lambda s, f, p: _load(s, f, p).where(col("user_id") == user)),
        Lookup("SQL view, IN", in_users, lambda s, f, p: _view(s, f, p, in_users)),
        _plain("string", f"session = '{values['session']}'"),
        _plain("decimal", f"amount = {values['amount']}"),
        _plain("a miss", "ip = '10.255.255.254' AND user_id > 10000000"),
    ]


def _load(spark: SparkSession, source: str, path: str) -> DataFrame:
    # Without the jar, pushFilters=on needs one load for each query.
    options = {"pushFilters": "on"} if source == PYTHON else {}
    return spark.read.format(source).options(**options).load(path)


def _view(spark: SparkSession, source: str, path: str, where: str) -> DataFrame:
    options = ", pushFilters 'on'" if source == PYTHON else ""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW events USING {source} OPTIONS (path '{path}'{options})")
    return spark.sql(f"SELECT * FROM events WHERE {where}")


def _plain(name: str, where: str) -> Lookup:
    return Lookup(name, where, lambda s, f, p: _load(s, f, p).where(where))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE.parent / ".demo", help="where the event logs are kept")
    parser.add_argument("--fresh", action="store_true", help="write them again even if they are there")
    parser.add_argument("--runs", type=int, default=3, help="how often each lookup runs and is timed")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs must be at least 1")

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bloomparquet demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={(HERE / 'log4j2.properties').as_uri()}")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    try:
        by_pyarrow, by_spark = prepare(spark, arguments.data, fresh=arguments.fresh)
        values = event_log.samples(by_pyarrow)
        logs = {"pyarrow": by_pyarrow, "Spark": by_spark}
        before = {path: answers(spark, SPARK, path, values, arguments.runs) for path in logs.values()}
        source = attach_or_register(spark)
        good = [compare(spark, source, writer, path, values, before[path]) for writer, path in logs.items()]
    finally:
        spark.stop()
    return 0 if all(good) else 1


def attach_or_register(spark: SparkSession) -> str:
    """The format that is pruned from now on: Spark's own, or without the jar the Python data source."""
    try:
        last_plan(attach(spark).range(1))
        return SPARK
    except bp.BloomParquetError as error:
        console.print(f"[yellow]Without the jar: {error}[/yellow]")
        spark.dataSource.register(PythonSource)
        return PYTHON


def prepare(spark: SparkSession, root: Path, *, fresh: bool) -> tuple[Path, Path]:
    """Write both data sets, unless this version of the program has written them before."""
    by_pyarrow, by_spark, done = root / "pyarrow", root / "spark", root / "complete"
    made_by = hashlib.sha256((HERE / "event_log.py").read_bytes()).hexdigest()
    if not fresh and done.exists() and done.read_text() == made_by:
        return by_pyarrow, by_spark
    for old in (by_pyarrow, by_spark):
        shutil.rmtree(old, ignore_errors=True)
    done.unlink(missing_ok=True)
    start = time.perf_counter()
    event_log.write_with_pyarrow(by_pyarrow)
    between = time.perf_counter()
    event_log.write_with_spark(spark, by_pyarrow, by_spark)
    end = time.perf_counter()
    console.print(f"Wrote the event log by pyarrow in {between - start:.1f} s, by Spark in {end - between:.1f} s.")
    done.write_text(made_by)
    return by_pyarrow, by_spark


def answers(spark: SparkSession, source: str, path: Path, values: dict[str, object], runs: int) -> list[list[Run]]:
    """The `runs` of each lookup. A first run is not measured: it compiles code and starts Python workers."""
    queries = [lambda lookup=lookup: lookup.frame(spark, source, str(path)) for lookup in lookups(values)]
    for query in queries:
        timed(query)
    return [[timed(query) for _ in range(runs)] for query in queries]


def compare(
    spark: SparkSession, source: str, writer: str, path: Path, values: dict[str, object], before: list[list[Run]]
) -> bool:
    everything = bp.plan(path)
    files = {group.path for group in everything.row_groups}
    rows, size = (sum(getattr(group, what) for group in everything.row_groups) for what in ("rows", "length"))
    console.print(
        f"\n[bold]Written by {writer}[/bold]: {len(files)} files, {everything.total} row groups, {rows:,} rows, "
        f"{size / 2**20:.0f} MiB"
    )
    after = answers(spark, source, path, values, len(before[0]))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    table.add_column("", no_wrap=True)
    for name in ("row\ngroups", "skipped by\nday", "\nmin/max", "\nBloom", "\nread"):
        table.add_column(name, justify="right", vertical="top")
    pruned = "after\nattach" if source == SPARK else "Python\nsource"
    for name in ("before\nattach", pruned, "\nrows", "\nequal"):
        table.add_column(name, justify="right", no_wrap=True)
    skipped_by_bloom, good = 0, True
    for lookup, unpruned_runs, pruned_runs in zip(lookups(values), before, after, strict=True):
        plan = bp.plan(path, lookup.where)
        expected = unpruned_runs[0].answer
        equal = all(run.answer == expected for run in (*unpruned_runs, *pruned_runs))
        by_statistics, by_bloom = plan.skipped["statistics"], plan.skipped["bloom"]
        # A plan counts a file that its day excludes as one, without opening it; here it counts as its row groups.
        by_day = everything.total - by_statistics - by_bloom - plan.kept
        skipped_by_bloom += by_bloom
        kept = {last_plan(run.frame)[0].kept for run in pruned_runs} if source == SPARK else {plan.kept}
        good = good and equal and kept == {plan.kept}
        table.add_row(
            lookup.name,
            *map(str, (everything.total, by_day, by_statistics, by_bloom, plan.kept)),
            *(f"{median(run.seconds for run in runs):.2f} s" for runs in (unpruned_runs, pruned_runs)),
            str(len(expected.rows)),
            "[green]yes[/green]" if equal else f"[red]NO, {len(expected.rows)} before[/red]",
        )
    console.print(table)
    for lookup in lookups(values):
        console.print(f"  [dim]{lookup.name}: {lookup.where}[/dim]")
    if not skipped_by_bloom:
        console.print("[red]no row group was skipped by a Bloom filter[/red]")
    return good and skipped_by_bloom > 0


def timed(query: Callable[[], DataFrame]) -> Run:
    """Run a query: its types and sorted rows, and the seconds for planning and reading."""
    start = time.perf_counter()
    frame = query()
    rows = frame.collect()
    seconds = time.perf_counter() - start
    types = sorted(frame.dtypes)
    answer = Answer(types, sorted((tuple(row[name] for name, _ in types) for row in rows), key=repr))
    return Run(answer, seconds, frame)


if __name__ == "__main__":
    sys.exit(main())
