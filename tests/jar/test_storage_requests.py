"""Requests by kind that plans and Spark's reader send to S3."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from pyspark.sql import DataFrame

import bloomparquet as bp
from pyspark_bloomparquet import last_plan
from tests.support.s3a import Lake, ask, ids_of, plain_outcome
from tests.support.spark import conf

pytestmark = pytest.mark.slow

FILES = int(os.environ.get("BLOOMPARQUET_FILES", "60"))
GROUPS, ROWS = 2, 100
FOUND = ids_of(FILES // 2, FILES, GROUPS, ROWS)[33]
WHERE = f"id = {FOUND}"


@pytest.fixture
def frame(s3a_lake: Lake) -> Iterator[DataFrame]:
    """Files of 96 KB, which are longer than a request for their end. Hadoop's older streams read them: the newer ones
    ask for the size of each file, and keep what they read."""
    bucket = s3a_lake.bucket()
    with conf(s3a_lake.spark, {f"fs.s3a.bucket.{bucket}.input.stream.type": "classic"}):
        frame = s3a_lake.spark.read.parquet(s3a_lake.table(bucket, files=FILES, groups=GROUPS, rows=ROWS, padding=470))
        s3a_lake.forget()
        yield frame


def plan(lake: Lake, frame: DataFrame) -> Counter[str]:
    (planned,) = last_plan(frame.where(WHERE))
    assert (planned.planned, planned.total, planned.kept) == (True, FILES * GROUPS, 1), planned.reason
    return Counter(lake.requests())


def test_requests_of_a_lookup(s3a_lake: Lake, frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    cold = plan(s3a_lake, frame)
    warm = plan(s3a_lake, frame)
    rows, _ = ask(frame, WHERE)
    assert len(rows) == 1
    read = Counter(s3a_lake.requests()) - Counter({"LIST": 1})
    plain_outcome(frame.where(WHERE))
    plain = Counter(s3a_lake.requests())
    with capsys.disabled():
        print(f"\n{FILES} files: cold plan {cold}, warm plan {warm}, Spark's reader {read}; plain Spark {plain}")
    assert cold <= Counter(HEAD=1, GET=FILES, LIST=1)
    assert warm == Counter(LIST=1)
    assert read <= Counter(HEAD=2, GET=4)
    assert plain.total() > cold.total() + read.total()


def test_requests_of_a_lookup_by_an_index(s3a_lake: Lake, frame: DataFrame) -> None:
    options = {"endpoint_override": s3a_lake.server.address, "scheme": "http", "region": "us-east-1"}
    (url,) = {each.rpartition("/")[0] for each in frame.inputFiles()}
    bp.build_index(f"{url}?{urlencode(options)}", ["id"])
    s3a_lake.forget()
    assert plan(s3a_lake, frame) <= Counter(HEAD=1, GET=4, LIST=1)
    for value in (FOUND + 1, 3):
        (planned,) = last_plan(frame.where(f"id = {value}"))
        assert (planned.indexed_files, planned.kept) == (FILES, 1)
        assert Counter(s3a_lake.requests()) <= Counter(GET=1, LIST=1)
