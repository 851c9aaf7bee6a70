"""Lookups and joins in Spark, compared with Spark's own reading and its predicate pushdown.

The contenders are ``spark.read.parquet`` without pruning, with pruning, and with pruning by an index;
``format("bloomparquet")``; and the *oracle*: ``spark.read.parquet``, without pruning, of just the files that a plan
keeps. All run in one session, on DataFrames that are loaded before, so that no contender lists files. Each round looks
up another value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import bloomparquet as bp
from tests.bench.data import Lookups, Shape, scatter
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns
from tests.bench.session import directory, session

_SPARKS, _ORACLE = "spark.read.parquet", "oracle: the kept files"
_PRUNED, _INDEXED = f"{_SPARKS}, pruned", f"{_SPARKS}, pruned by an index"
_WARM_UP = 10  # rounds; until then the JVM compiles the code of the contenders
_SMALLER, _LARGER = 1_000, 10_000  # numbers of files that have aims
_KEYS = (10, 1_000, 10_000)
_JOINED = 10
_TRANSPARENT, _INDEX = "spark.bloomparquet.transparent", "spark.datasource.bloomparquet.index"


def lookups(rounds: int, smaller: Shape, larger: Shape) -> Iterator[Row]:
    """All queries in one warm session."""
    with directory() as home, session(home) as spark:
        for shape in dict.fromkeys((smaller, larger)):
            some = rounds if shape is smaller else max(3, rounds // 2)
            yield from _Session(spark, shape, some, home).measure()


class _Session:
    def __init__(self, spark: SparkSession, shape: Shape, rounds: int, home: Path) -> None:
        self._spark, self._shape, self._rounds = spark, shape, rounds
        self._lookups = Lookups(shape)
        root = str(self._lookups.root)
        self._index = str(home / f"index-{shape.files}")
        bp.build_index(root, to=self._index)
        self._frames = {
            _PRUNED: spark.read.parquet(root),
            _INDEXED: spark.read.parquet(root),
            "bloomparquet": spark.read.format("bloomparquet").load(root),
            _SPARKS: spark.read.parquet(root),
        }

        # In a table of its own: Spark prunes by join keys only if it knows that they are few.
        keys = spark.createDataFrame(enumerate(self._ids(1_000, 0)), "n long, id long")
        keys.coalesce(1).write.parquet(str(home / f"keys-{shape.files}"))
        self._dimension = spark.read.parquet(str(home / f"keys-{shape.files}"))

    def measure(self) -> Iterator[Row]:
        for column in ("id", "key") if self._shape.strings else ("id",):
            for hit in (True, False):
                yield from self._point(column, hit)
        for count in _KEYS[: self._rounds]:  # one round only shows that it runs
            yield from self._compare(f"IN of {count:,}", self._within(count), count)
        yield from self._compare(f"join with {_JOINED} keys", self._join, _JOINED, join=True)

    def _point(self, column: str, hit: bool) -> Iterator[Row]:
        value: Callable[..., Any] = self._lookups.id if column == "id" else self._lookups.key

        def ask(frame: DataFrame, number: int) -> list[Any]:
            return frame.where(col(column) == value(number, hit=hit)).collect()

        contenders = self._contenders(ask)
        if hit:
            files: dict[int, DataFrame] = {}
            root = str(self._lookups.root)

            def load(number: int) -> None:
                self._spark.conf.set(_TRANSPARENT, "false")
                kept = bp.plan(root, bp.Eq(column, value(number, hit=True))).files()
                files[number] = self._spark.read.parquet(*kept)

            contenders.append(Contender(_ORACLE, lambda number: ask(files[number], number), before=load))

        def agree(number: int, result: list[Any]) -> None:
            if len(result) != hit or (hit and result[0][column] != value(number, hit=True)):
                raise AssertionError(f"expected {int(hit)} row, found {result}")

        timings = take_turns(contenders, self._rounds, agree, warm_up=_WARM_UP)
        name = f"{'long' if column == 'id' else 'string'} {'hit' if hit else 'miss'}"
        yield from self._rows(name, timings, hit=hit)

    def _contenders(self, ask: Callable[[DataFrame, int], Any]) -> list[Contender]:
        def prepare(name: str) -> Callable[[int], None]:
            def set_up(_: int) -> None:
                self._spark.conf.set(_TRANSPARENT, str(name != _SPARKS).lower())
                self._spark.conf.set(_INDEX, self._index if name == _INDEXED else "off")

            return set_up

        return [
            Contender(name, lambda number, frame=frame: ask(frame, number), before=prepare(name))
            for name, frame in self._frames.items()
        ]

    def _within(self, count: int) -> Callable[[DataFrame, int], int]:
        def ask(frame: DataFrame, number: int) -> int:
            return len(frame.where(f"id IN ({', '.join(map(str, self._ids(count, number)))})").collect())

        return ask

    def _join(self, frame: DataFrame, number: int) -> int:
        first = _JOINED * (number + 1)
        some = self._dimension.where((col("n") >= first) & (col("n") < first + _JOINED))
        return len(frame.join(some, "id").collect())

    def _ids(self, count: int, number: int) -> list[int]:
        """The ids of `count` rows spread over the data set."""
        step = self._shape.total_rows // count
        ids: list[int] = scatter(np.arange(count, dtype=np.int64) * step + (7919 * (number + 2)) % step).tolist()
        return ids

    def _compare(
        self, name: str, ask: Callable[[DataFrame, int], int], expected: int, *, join: bool = False
    ) -> Iterator[Row]:
        def agree(_: int, result: int) -> None:
            if result != expected:
                raise AssertionError(f"{name}: expected {expected} rows, found {result}")

        yield from self._rows(name, take_turns(self._contenders(ask), self._rounds, agree), join=join)

    def _rows(self, name: str, timings: dict[str, Timing], *, hit: bool = False, join: bool = False) -> Iterator[Row]:
        for timing in timings.values():
            ratios, aims = {}, []
            if timing.name not in (_SPARKS, _ORACLE):
                faster = timing.times_faster_than(timings[_SPARKS])
                ratios[_SPARKS] = faster
                if hit:
                    ratios[_ORACLE] = timing.times_faster_than(timings[_ORACLE])
            if timing.name in (_PRUNED, _INDEXED):
                indexed = timing.name == _INDEXED
                aims = list(self._aims(ratios, indexed=indexed, hit=hit, join=join))
            yield milliseconds("spark", f"{name}, {self._shape.files:,} files", timing, ratios=ratios, aims=tuple(aims))

    def _aims(self, ratios: dict[str, float], *, indexed: bool, hit: bool, join: bool) -> Iterator[Aim]:
        if self._shape.files not in (_SMALLER, _LARGER):
            return
        faster, large = ratios[_SPARKS], self._shape.files == _LARGER
        if hit:
            most, least = 1.25 if indexed else 1.3, 20 if large else 6
            if indexed or not large:
                yield Aim(f"within {most}x of the oracle", 1 / ratios[_ORACLE] <= most)
            yield Aim(f">= {least}x faster than {_SPARKS}", faster >= least)
        if join:
            least = 15 if large else 5
            yield Aim(f">= {least}x faster than {_SPARKS}", faster >= least)
