"""Tables on a local S3 server, which Spark reads by Hadoop's S3A."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support import files
from tests.support.s3 import S3Server, s3_server
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import conf
from tests.support.spark_rows import REFUSALS

GROUPS, ROWS = 5, 20
NOW = dt.timedelta()
_numbers = itertools.count()


class Lake:
    """Buckets on the server, each with a name that is used once: Hadoop keeps one client for each bucket."""

    def __init__(self, spark: SparkSession, server: S3Server, home: Path, settings: dict[str, str]) -> None:
        self.spark, self.server, self.home, self.settings = spark, server, home, settings

    def bucket(self) -> str:
        name = f"lake{next(_numbers)}"
        _backend().create_bucket(name, "us-east-1")
        return name

    def put(self, bucket: str, key: str, data: bytes, *, after: dt.timedelta = NOW) -> None:
        """Store an object, without a request. `after`: how much later than now it is modified, says the server."""
        stored = _backend().put_object(bucket, key, data)
        stored.last_modified += after

    def delete(self, bucket: str, key: str) -> None:
        _backend().delete_object(bucket, key)

    def size(self, bucket: str, key: str) -> int:
        return int(_backend().get_object(bucket, key).size)

    def write(
        self,
        bucket: str,
        key: str,
        ids: Sequence[int],
        *,
        groups: int = GROUPS,
        padding: int = 0,
        after: dt.timedelta = NOW,
    ) -> int:
        """Write a file whose rows have these ids and so many bytes more. Returns its size."""
        data = {"id": pa.array(ids, pa.int64())}
        if padding:
            random = np.random.default_rng(len(ids)).bytes(padding * len(ids))
            data["pad"] = pa.array([random[i * padding : (i + 1) * padding] for i in range(len(ids))], pa.binary())
        local = files.write(
            self.home / "x.parquet", data, ["id"], rows_per_group=len(ids) // groups, fpp=1e-6, use_dictionary=False
        )
        written = Path(local).read_bytes()
        self.put(bucket, key, written, after=after)
        return len(written)

    def table(
        self, bucket: str, name: str = "t", *, files: int = 2, groups: int = GROUPS, rows: int = ROWS, padding: int = 0
    ) -> str:
        """The URL of a table with so many `files`, which share no id; only filters tell them and their `groups` apart.
        Each row group has so many `rows`."""
        for number in range(files):
            ids = ids_of(number, files, groups, rows)
            self.write(bucket, f"{name}/{number}.parquet", ids, groups=groups, padding=padding)
        return f"s3a://{bucket}/{name}"

    def credentials(self, key: str) -> dict[str, str]:
        return {"fs.s3a.access.key": key, "fs.s3a.secret.key": f"secret-of-{key}"}

    def requests(self) -> list[str]:
        """The requests since the last call: LIST, HEAD or GET, all of Hadoop."""
        kinds = []
        for (method, path), agent in zip(self.server.requests, self.server.agents, strict=True):
            assert "Hadoop" in agent, (method, path, agent)
            is_bucket = "/" not in path.strip("/")
            kinds.append("LIST" if method == "GET" and is_bucket else method)
        self.forget()
        return kinds

    def forget(self) -> None:
        self.server.requests.clear()
        self.server.agents.clear()
        self.server.credentials.clear()


def ids_of(number: int, files: int = 2, groups: int = GROUPS, rows: int = ROWS) -> list[int]:
    """The ids of a file, in an order in which every row group has small and large ones."""
    count = groups * rows
    assert count % 7
    return [number + files * (i * 7 % count) for i in range(count)]


def ask(frame: DataFrame, where: str) -> tuple[list[str], ScanSummary]:
    """The rows of a query, and its plan."""
    frame = frame.where(where)
    rows = texts(frame.collect())
    (plan,) = last_plan(frame)
    return rows, plan


def outcome(frame: DataFrame) -> list[str] | str:
    """The rows of a query, or what its error is: ours, Spark's for a missing file, or the one that a task had."""
    try:
        return texts(frame.collect())
    except REFUSALS as error:
        return next(match[0] for kind in KINDS if (match := re.search(kind, str(error))))


CHANGED = "changed after this query was planned"
KINDS = (CHANGED, "FILE_NOT_EXIST", "FAILED_READ_FILE", r"executor driver\): \w+(\.\w+)*")


def plain_outcome(frame: DataFrame) -> list[str] | str:
    """The outcome without pruning."""
    with conf(frame.sparkSession, UNPRUNED):
        return outcome(frame)


@contextmanager
def lake(spark: SparkSession, home: Path) -> Iterator[Lake]:
    """A server without tables, and a Spark that has S3A."""
    with s3_server() as server:
        settings = {
            "fs.s3a.endpoint": f"http://{server.address}", "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true", "fs.s3a.access.key": "test", "fs.s3a.secret.key": "test",
            "fs.s3a.attempts.maximum": "1", "fs.s3a.retry.limit": "1", "fs.s3a.retry.interval": "10ms",
            "fs.s3a.retry.throttle.limit": "1", "fs.s3a.retry.throttle.interval": "10ms",
            "fs.s3a.paging.maximum": "1000",
        }  # fmt: skip
        with conf(spark, settings | PRUNED):
            yield Lake(spark, server, home, settings)


def _backend() -> Any:
    from moto.s3.models import s3_backends

    return s3_backends["123456789012"]["aws"]
