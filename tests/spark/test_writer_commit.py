"""All of a write or nothing: modes, failures, attempts of tasks, and what is read while it is overwritten."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import bloomparquet as bp
from tests.support import jobs
from tests.support.jobs import save
from tests.support.spark import rows


def test_append_adds_and_overwrite_replaces(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 3).write.parquet(str(tmp_path / "t"))
    save(spark.range(3, 6), tmp_path / "t")
    assert rows(spark.read.parquet(str(tmp_path / "t"))) == [(i,) for i in range(6)]
    save(spark.range(6, 9), tmp_path / "t", "overwrite")
    assert rows(spark.read.parquet(str(tmp_path / "t"))) == [(i,) for i in range(6, 9)]
    assert {name for name in jobs.tree(tmp_path / "t") if not name.endswith(".parquet")} == {"_SUCCESS"}


def test_other_modes_are_refused_by_spark_and_had_by_an_option(spark: SparkSession, tmp_path: Path) -> None:
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(spark.range(1), tmp_path / "t", mode)
    for exists in ("error", "ignore"):
        path = save(spark.range(1), tmp_path / exists, ifExists=exists)
        if exists == "error":
            with pytest.raises(Exception, match="there is something already"):
                save(spark.range(5), path, ifExists=exists)
        else:
            save(spark.range(5), path, ifExists=exists)
        assert spark.read.parquet(path).count() == 1
        assert jobs.staging(path) == []


@pytest.mark.parametrize("reader", ["parquet", "bloomparquet"])
def test_what_a_query_reads_may_be_overwritten_by_it(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    save(spark.range(0, 1000, 1, 4), tmp_path)
    for limit in (500, 100):
        save(spark.read.format(reader).load(str(tmp_path)).where(f"id < {limit}"), tmp_path, "overwrite")
        assert jobs.ids(tmp_path) == Counter(range(limit))


def test_a_job_that_fails_leaves_nothing_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(10), tmp_path / "t")
    before = jobs.tree(tmp_path / "t")
    failing = spark.range(0, 100000, 1, 4).selectExpr("if(id = 99999, raise_error('enough'), id) AS id")
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="enough"):
            save(failing, tmp_path / "t", mode)
        assert jobs.tree(tmp_path / "t") == before
    with pytest.raises(Exception, match="enough"):
        save(failing, tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


def test_only_the_attempt_that_was_committed_counts(tmp_path: Path) -> None:
    """A retry and a speculative attempt of one task stage their rows beside each other."""
    writer = jobs.begin(tmp_path)
    names = []
    for attempt in (1, 2):
        message = jobs.stage(writer, [1, 2, 3])
        ((source, target),) = message.files
        (tmp_path / writer.job.staging / "data" / f"{attempt}").mkdir()
        moved = f"data/{attempt}/x.parquet"
        os.rename(f"{writer.job.staging}/{source}", f"{writer.job.staging}/{moved}")
        names.append((moved, target))
    message.files = (names[1],)
    writer.commit([message, None])
    assert jobs.ids(tmp_path) == Counter([1, 2, 3])
    assert jobs.staging(tmp_path) == []


def test_a_task_that_outlives_its_job_brings_nothing_back(tmp_path: Path) -> None:
    writer = jobs.begin(tmp_path / "t")

    def batches() -> Any:
        yield jobs.batch([1])
        writer.abort([])
        yield jobs.batch([2])

    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            writer.write(batches())
        assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("failing", range(1, 9))
def test_a_commit_that_fails_puts_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    jobs.write(tmp_path / "t", range(6), partitionBy="day")
    before = jobs.tree(tmp_path / "t")
    writer = jobs.begin(tmp_path / "t", overwrite=True, partitionBy="day")
    staged = jobs.stage(writer, range(10, 20))
    rename, calls = os.rename, 0

    def full(source: Any, target: Any) -> None:
        nonlocal calls
        calls += ".parquet" in str(source)
        if calls == failing and ".parquet" in str(source):
            raise OSError(errno.ENOSPC, "no space left", str(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", full)
    if failing <= 4:
        with pytest.raises(OSError, match="no space left"):
            writer.commit([staged])
        writer.abort([staged])
        assert jobs.tree(tmp_path / "t") == before
    else:
        writer.commit([staged])
        assert jobs.ids(tmp_path / "t") == Counter(range(10, 20))


def test_links_are_replaced_and_not_what_they_lead_to(tmp_path: Path) -> None:
    jobs.write(tmp_path / "t", [1])
    jobs.write(tmp_path / "other", [7])
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "other", target_is_directory=True)
    jobs.write(tmp_path / "t", [2], overwrite=True)
    assert (jobs.ids(tmp_path / "t"), jobs.ids(tmp_path / "other")) == (Counter([2]), Counter([7]))
    (tmp_path / "way").symlink_to(tmp_path / "t", target_is_directory=True)
    jobs.write(tmp_path / "way", [3], overwrite=True)
    assert (tmp_path / "way").is_symlink()
    assert jobs.ids(tmp_path / "t") == Counter([3])


def test_a_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"mine")
    for overwrite in (False, True):
        with pytest.raises(bp.BloomParquetError, match="there is a file; expected a directory"):
            jobs.begin(tmp_path / "t.parquet", overwrite=overwrite)
    assert (tmp_path / "t.parquet").read_bytes() == b"mine"


def test_spark_reads_nothing_of_what_is_staged(spark: SparkSession, tmp_path: Path) -> None:
    jobs.write(tmp_path, [1])
    writer = jobs.begin(tmp_path)
    jobs.stage(writer, [2])
    for reader in ("parquet", "bloomparquet"):
        assert spark.read.format(reader).load(str(tmp_path)).count() == 1
    writer.abort([])
