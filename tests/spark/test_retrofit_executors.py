"""Executors that fail do not damage files: tasks that are killed, run twice, or lack the package."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.writing.retrofit.change import AddFilters
from pyspark_bloomparquet import add_filters
from pyspark_bloomparquet.retrofit.retrofit import change_on_executor
from tests.support.retrofit import contents, data_files, filtered, make_table, on_rename, row_groups, workers
from tests.support.s3 import s3_server

pytestmark = pytest.mark.slow


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return make_table(tmp_path / "my events=all")


def test_a_killed_worker_fails_the_job_and_leaves_whole_files(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    doomed = Path(data_files(table)[3]).with_name("doomed.parquet")
    os.rename(data_files(table)[3], doomed)
    before = doomed.read_bytes()
    killing = workers(spark, tmp_path, on_rename("os.kill(os.getpid(), signal.SIGKILL)"))
    with killing, pytest.raises(Py4JJavaError, match="Python worker"):
        add_filters(spark, str(table), "Id")
    assert doomed.read_bytes() == before
    assert [pq.read_table(path).num_rows > 0 for path in data_files(table)] == [True] * 6
    outcome = {row.path: row.action for row in add_filters(spark, str(table), "Id", files_per_task=3).collect()}
    assert outcome.pop(str(doomed)) == "added"
    assert set(outcome.values()) <= {"added", "unchanged"}
    assert set(contents(table)) == {str(Path(path).relative_to(table)) for path in data_files(table)}
    assert {(path, group) for path, group, _ in filtered(table)} == row_groups(table)


def _attempt(path: str, barrier: Any, answers: Any) -> None:
    """One of two attempts at a file. Both are slow between writing and replacing."""
    rename = os.rename

    def slowly(source: str, target: str) -> None:
        import time

        time.sleep(1)
        rename(source, target)

    os.rename = slowly  # type: ignore[assignment]
    payload = pickle.dumps((AddFilters({"Id": bp.Bloom()}), path, False, None))
    barrier.wait()
    answers.put(change_on_executor(payload, path).action)


def test_second_attempt_at_a_file_waits_for_the_first(table: Path) -> None:
    """As with speculative execution: the second attempt waits for the first, and neither fails."""
    path = data_files(table)[0]
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    both = [context.Process(target=_attempt, args=(path, barrier, answers)) for _ in range(2)]
    for process in both:
        process.start()
    answered = sorted(answers.get(timeout=60) for _ in both)
    for process in both:
        process.join()
    assert answered == ["added", "unchanged"]
    assert len(bp.inspect(path)) == pq.read_metadata(path).num_row_groups


def test_a_table_on_an_object_store(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    with s3_server() as server:
        server.upload(table, "t")
        url = server.url("t").replace("s3://", "s3a://")
        settings = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "NO_PROXY")}
        with workers(spark, tmp_path, f"import os; os.environ.update({settings!r})"):
            outcomes = add_filters(spark, url, "id").collect()
            assert [(row.action, row.error) for row in outcomes] == [("added", None)] * 6
            assert {row.path for row in outcomes} == {f"bucket/t/{name}" for name in contents(table)}
            assert len(bp.inspect(url)) == len(row_groups(table))
            assert bp.read_table(url, columns=["Id"]).equals(bp.read_table(str(table), columns=["Id"]))
        assert server.names("t") == sorted(Path(row.path).name for row in outcomes)
