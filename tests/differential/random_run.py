"""Compare random SQL by every way in with plain Spark: ``make random-sql [PAIRS=100000] [SEED=1] [FROM=0]``.

The name of a data set, ``seed-number``, decides its files and all that is asked of it, so a run can be repeated.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.differential import batches, data_sets, pairs
from tests.differential.pairs import WAYS, Pair

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Difference:
    """A pair that differs, and how it can be found again."""

    data_set: str
    pair: Pair
    text: str

    def __str__(self) -> str:
        seed, number = self.data_set.rsplit("-", 1)
        return (
            f"data set {self.data_set}; again: make random-sql PAIRS=1 SEED={seed} FROM={number}\n{self.pair}\n"
            f"=> {self.text}"
        )


def differences(
    spark: SparkSession, seed: str, numbers: Iterator[int], home: Path, tally: Counter[str],
    ways: Collection[str] = WAYS,
) -> Iterator[Difference]:  # fmt: skip
    """Compare the pairs of some data sets. The counts in `tally` are of the pairs so far."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's, which writes each error to stderr
    for number in numbers:
        name = f"{seed}-{number}"
        data = data_sets.data_set(spark, name, home)
        for pair in batches.pairs_of(spark, Random(f"{name}: pairs"), data, tally, ways):
            text = pairs.compare(spark, pair, tally)
            if text is not None:
                yield Difference(name, pair, text)
        tally["data sets"] += 1
        shutil.rmtree(home / name)


def summary(tally: Counter[str]) -> str:
    """Counts by way in."""
    lines = [f"{way:>12}: {tally[way]:,} pairs, {tally[f'{way}: scans that skipped']:,} scans skipped row groups, "
             f"{tally[f'{way}: refused by name']:,} not supported" for way in WAYS]  # fmt: skip
    others = (
        "data sets", "with rows", "row groups", "statistics", "bloom", "both fail", "rows for Spark's error",
        "Spark's pushdown fails as well", "Spark's pushdown differs as well", "other days than Spark's",
        "other numbers than Spark's",
    )  # fmt: skip
    return "\n".join([*lines, ", ".join(f"{key}: {tally[key]:,}" for key in others)])


def session(home: Path) -> SparkSession:
    """A session with the jar. Only the way `PLAIN` turns pruning of Spark's own scans on."""
    from pyspark_bloomparquet import attach
    from tests.support.python_source import register
    from tests.support.spark import FOR_SMALL_QUERIES, forget_sources, start

    spark = start(home, **FOR_SMALL_QUERIES, **{"spark.bloomparquet.cacheDirectory": str(home / "cache")})
    forget_sources(spark)
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return attach(spark, transparent=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=WAYS, help="such as plain,read_table")
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = Path(tempfile.mkdtemp(prefix="random-sql-"))
    tally: Counter[str] = Counter()
    started = shown = time.monotonic()
    spark = session(home)

    def numbers() -> Iterator[int]:
        nonlocal shown
        number = arguments.first
        while tally["pairs"] < arguments.pairs:
            yield number
            number += 1
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                rate = tally["pairs"] / (shown - started)
                print(f"{tally['pairs']:,} pairs of {tally['data sets']:,} data sets, {rate:.1f} a second", flush=True)

    difference = next(differences(spark, arguments.seed, numbers(), home, tally, arguments.ways), None)
    print(f"{tally['pairs']:,} pairs in {time.monotonic() - started:,.0f} s\n{summary(tally)}")
    if difference is not None:
        print(f"\nDIFFERENCE after {tally['pairs']:,} pairs, files in {home}\n{difference}")
        return 1
    spark.stop()
    shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
