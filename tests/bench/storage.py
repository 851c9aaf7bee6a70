"""Cold plans of files on S3: by Spark's JVM, which reads for the planner, and by pyarrow, with a delay of each request.

Each round touches all files and lists them again, so that nothing that was read before is of their versions.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from pyspark_bloomparquet import last_plan
from tests.bench.data import scatter
from tests.bench.measure import Contender, Row, milliseconds, take_turns
from tests.bench.object_server import serving
from tests.bench.session import directory, session
from tests.support import connectors

_ROWS = 1_000  # in a row group
_GROUPS = 2
_DELAYS = (0, 30)  # milliseconds
_JVM, _ARROW = "spark.read.parquet: by the JVM", "bp.plan: by pyarrow"


def plans(rounds: int, files: int) -> Iterator[Row]:
    """One absent id in `files` files with two row groups each."""
    with directory() as home:
        _write(home / "bucket" / "t", files)
        with serving(home / "bucket") as address, session(home, **_settings(address)) as spark:
            for delay in _DELAYS:
                urlopen(f"http://{address}/delay?{delay}").close()
                yield from _Plans(spark, home, address, files).measure(rounds, delay)


class _Plans:
    def __init__(self, spark: SparkSession, home: Path, address: str, files: int) -> None:
        self._spark, self._address, self._files = spark, address, files
        self._paths = sorted((home / "bucket" / "t").iterdir())
        self._now = time.time()
        self._frame: DataFrame | None = None
        self._dataset: bp.Dataset | None = None

    def measure(self, rounds: int, delay: int) -> Iterator[Row]:
        contenders = [
            Contender(_JVM, self._by_jvm, self._list_by_spark),
            Contender(_ARROW, self._by_arrow, self._list_by_arrow),
        ]
        counts: dict[str, dict[str, int]] = {}

        def agree(_: int, result: tuple[str, int]) -> None:
            name, total = result
            assert total == self._files * _GROUPS
            counts[name] = self._counts()

        timings = take_turns(contenders, rounds, agree)
        ratio = timings[_JVM].times_faster_than(timings[_ARROW])
        case = f"{self._files:,} files, {delay} ms for a request"
        yield milliseconds("storage", case, timings[_JVM], ratios={_ARROW: ratio}, notes=counts[_JVM])
        yield milliseconds("storage", case, timings[_ARROW], notes=counts[_ARROW])

    def _touch(self) -> None:
        self._now += 2  # S3 stores whole seconds
        for path in self._paths:
            os.utime(path, (self._now, self._now))

    def _list_by_spark(self, _: int) -> None:
        self._touch()
        self._frame = self._spark.read.parquet("s3a://bucket/t")
        self._counts()

    def _list_by_arrow(self, _: int) -> None:
        self._touch()
        process_cache.clear()
        options = {"endpoint_override": self._address, "scheme": "http", "region": "us-east-1"}
        self._dataset = bp.Dataset.open(
            "s3://bucket/t", storage_options={**options, "access_key": "k", "secret_key": "s"}
        )
        self._counts()

    def _by_jvm(self, number: int) -> tuple[str, int]:
        assert self._frame is not None
        (plan,) = last_plan(self._frame.where(f"id = {_absent(number)}"))
        assert plan.planned, plan.reason
        return _JVM, plan.total

    def _by_arrow(self, number: int) -> tuple[str, int]:
        assert self._dataset is not None
        return _ARROW, bp.plan(self._dataset, f"id = {_absent(number)}").total

    def _counts(self) -> dict[str, int]:
        with urlopen(f"http://{self._address}/counts") as answer:
            counts: dict[str, int] = json.loads(answer.read())
            return counts


def _absent(number: int) -> int:
    return int(scatter(np.array([10**9 + number]))[0])


def _write(home: Path, files: int) -> None:
    home.mkdir(parents=True)
    for number in range(files):
        first = number * _GROUPS * _ROWS
        rows = np.arange(first, first + _GROUPS * _ROWS)
        table = pa.table({"id": scatter(rows), "text": [f"{row:040}" for row in rows.tolist()]})
        bp.write_table(table, home / f"{number:05}.parquet", row_group_size=_ROWS, bloom=["id"])


def _settings(address: str) -> dict[str, str]:
    settings = {
        "endpoint": f"http://{address}", "endpoint.region": "us-east-1", "path.style.access": "true",
        "access.key": "k", "secret.key": "s", "connection.maximum": "100",
    }  # fmt: skip
    return {
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()},
        "spark.jars": ",".join(map(str, connectors.jars("s3a"))),
    }
