"""Adding and shrinking filters of whole tables on Spark's executors: the files, and the rows that report them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.sizes import TOLERANCE
from bloomparquet.writing.retrofit.change import AddFilters
from pyspark_bloomparquet import add_filters, shrink_filters
from pyspark_bloomparquet.retrofit.retrofit import change_on_executor
from tests.support import files
from tests.support.retrofit import (
    actions,
    contents,
    data_files,
    filtered,
    ids,
    make_table,
    on_rename,
    row_groups,
    workers,
)
from tests.support.s3 import s3_server
from tests.support.spark import conf, rows, write

pytestmark = pytest.mark.slow


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return make_table(tmp_path / "my events=all")


def test_one_row_per_file_and_a_dry_run_changes_nothing(spark: SparkSession, table: Path) -> None:
    before = contents(table)
    sizes = {path: os.path.getsize(path) for path in data_files(table)}
    said = add_filters(spark, str(table), ["Id", "st.x"], dry_run=True).collect()
    assert contents(table) == before
    assert add_filters(spark, str(table), ["Id", "st.x"]).collect() == said
    done = contents(table)
    assert {row.path: row.bytes_before for row in said} == sizes
    for row in said:
        groups = pq.read_metadata(row.path).num_row_groups
        assert (row.action, row.error, row.filters, row.limited) == ("added", None, 2 * groups, [])
        assert row.bytes_after == os.path.getsize(row.path)
        assert [(each.column, each.filters) for each in row.columns] == [("Id", groups), ("st.x", groups)]
        assert row.fpp == max(each.fpp for each in row.columns) <= 0.0125
    assert filtered(table) == {(*group, column) for group in row_groups(table) for column in ("Id", "st.x")}
    times = [os.stat(path).st_mtime_ns for path in data_files(table)]
    assert actions(add_filters(spark, str(table), "Id")) == {"unchanged": 6}
    assert [os.stat(path).st_mtime_ns for path in data_files(table)] == times
    said = shrink_filters(spark, str(table), fpp=0.3, dry_run=True).collect()
    assert contents(table) == done
    assert shrink_filters(spark, str(table), fpp=0.3).collect() == said
    assert {row.action for row in said} == {"shrunk"}


def test_failed_file_is_unchanged_and_others_are_done(spark: SparkSession, table: Path) -> None:
    (cut, damaged, *good) = data_files(table)
    Path(cut).write_bytes(Path(cut).read_bytes()[:-1])
    content = bytearray(Path(damaged).read_bytes())
    content[4:1500] = bytes(1496)
    Path(damaged).write_bytes(content)
    before = contents(table)
    outcome = {row.path: row for row in add_filters(spark, str(table), "Id", files_per_task=4).collect()}
    assert {path for path, row in outcome.items() if row.action == "added"} == set(good)
    for path in (cut, damaged):
        row = outcome[path]
        assert (row.action, row.filters, row.bytes_before) == ("failed", 0, row.bytes_after)
        assert path in row.error
        assert contents(table)[str(Path(path).relative_to(table))] == before[str(Path(path).relative_to(table))]
    assert set(contents(table)) == set(before)  # nothing is left beside them
    assert actions(add_filters(spark, str(table), "Id")) == {"unchanged": 4, "failed": 2}


@pytest.mark.parametrize(
    ("asked", "leaves"),
    [
        ({"iD": bp.Bloom(fpp=0.1), ("ST", "X"): bp.Bloom(), "`A.b`": bp.Bloom()}, {"Id", "st.x", "a.b"}),
        (["A.B", "`St`.`x`"], {"a.b", "st.x"}),
    ],
)
def test_column_names_are_read_as_spark_reads_them(
    spark: SparkSession, table: Path, asked: Any, leaves: set[str]
) -> None:
    assert actions(add_filters(spark, str(table), asked)) == {"added": 6}
    assert {column for _, _, column in filtered(table)} == leaves


def test_case_sensitive_names_match_exactly(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    twice = files.write(tmp_path / "twice.parquet", {"id": ids(1), "ID": ids(2)})
    before = contents(table), Path(twice).read_bytes()
    with pytest.raises(bp.PlanError, match=r"'id' could be any of id, ID; set spark\.sql\.caseSensitive"):
        add_filters(spark, twice, "id")
    with conf(spark, {"spark.sql.caseSensitive": "true"}):
        with pytest.raises(bp.PlanError, match="no column 'ID'; did you mean 'Id'"):
            add_filters(spark, str(table), "ID")
        assert (contents(table), Path(twice).read_bytes()) == before
        add_filters(spark, twice, "id")
    assert {column for _, _, column in filtered(Path(twice))} == {"id"}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda spark, path: add_filters(spark, path, ["Id", "idd"]), bp.PlanError, "'idd'; did you mean 'Id'"),
        (lambda spark, path: add_filters(spark, path, "`Id"), bp.OptionError, "backticks"),
        (lambda spark, path: add_filters(spark, path, "Id", files_per_task=0), bp.OptionError, "files_per_task is 0"),
        (lambda spark, path: add_filters(spark, path + "/nowhere", "Id"), FileNotFoundError, "nowhere"),
        (lambda spark, path: shrink_filters(spark, path, fpp=1.5), bp.OptionError, "fpp is 1.5"),
        (lambda spark, path: add_filters(object(), path, "Id"), bp.UnsupportedError, "Spark Connect"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_errors_before_any_change(
    spark: SparkSession, table: Path, call: Callable[..., Any], error: type[Exception], message: str
) -> None:
    before = contents(table)
    with pytest.raises(error, match=message):
        call(spark, str(table))
    assert contents(table) == before


def test_filters_of_sparks_own_writer_shrink(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3_000).selectExpr("id * 7919 % 1000003 AS id", "id % 2 = 0 AS even", "uuid() AS name")
    path = write(frame, tmp_path / "t", {"id": None, "even": None, "name": None}, files=3)
    expected = rows(spark.read.parquet(path))
    outcomes = shrink_filters(spark, path).collect()
    assert [(row.action, row.filters, row.dropped) for row in outcomes] == [("shrunk", 2, 1)] * 3
    assert sum(row.bytes_before for row in outcomes) > 9 << 20
    assert sum(row.bytes_after for row in outcomes) < 2 << 20
    assert all(row.fpp <= 0.0125 for row in outcomes)
    assert rows(spark.read.parquet(path)) == expected
    assert actions(shrink_filters(spark, path)) == {"unchanged": 3}


def test_auto_fpp_counts_the_row_groups_of_all_files(spark: SparkSession, tmp_path: Path) -> None:
    for folder in ("by Spark", "by core"):
        for i in range(2):
            path = tmp_path / folder / f"{i}.parquet"
            files.write(path, {"id": range(i * 6_000, (i + 1) * 6_000)}, rows_per_group=100)

    def filters(folder: str) -> list[dict[str, Any]]:
        return bp.inspect(str(tmp_path / folder)).drop_columns("file").to_pylist()  # type: ignore[no-any-return]

    auto, large = {"id": bp.Bloom(fpp="auto")}, {"id": bp.Bloom(ndv=2_000)}
    bp.add_filters(str(tmp_path / "by core"), bloom={"id": bp.Bloom(fpp=1 / 120)})
    path = str(tmp_path / "by Spark")
    assert actions(add_filters(spark, path, auto)) == {"added": 2}
    assert filters("by Spark") == filters("by core")
    add_filters(spark, path, large, replace=True)
    assert actions(shrink_filters(spark, path, fpp="auto")) == {"shrunk": 2}
    bp.add_filters(str(tmp_path / "by core"), bloom=large, replace=True)
    bp.shrink_filters(str(tmp_path / "by core"), fpp=1 / 120)
    assert filters("by Spark") == filters("by core")
    assert 0 < sum(each["estimated_fpp"] for each in filters("by Spark")) <= TOLERANCE


def test_listed_and_cached_tables_have_the_right_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(1_600).selectExpr("id * 7919 % 1000003 AS id", "uuid() AS name")
    write(frame, path, {"id": None}, files=2, rows_per_group=400)
    expected = rows(spark.read.parquet(path))
    fresh, read, cached = (spark.read.parquet(path) for _ in range(3))
    ours = spark.read.format("bloomparquet").option("pushFilters", "off").load(path)
    read.collect()
    cached.select("id").cache().count()
    spark.sql(f"CREATE TABLE listed_before USING parquet LOCATION '{path}'")
    try:
        assert spark.table("listed_before").count() == len(expected)
        assert actions(shrink_filters(spark, path)) == {"shrunk": 2}
        assert actions(add_filters(spark, path, "name")) == {"added": 2}
        for frame in (fresh, read, cached, ours, spark.table("listed_before"), spark.read.parquet(path)):
            assert rows(frame) == expected
        assert rows(cached.select("id")) == sorted({(row[0],) for row in expected}, key=repr)
    finally:
        spark.sql("DROP TABLE listed_before")
        spark.catalog.clearCache()


def test_paths_are_resolved_as_spark_does(
    spark: SparkSession, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the JVM stays where it was started
    relative = os.path.relpath(table, spark._jvm.java.lang.System.getProperty("user.dir"))  # type: ignore[union-attr]
    assert actions(add_filters(spark, relative, "Id", dry_run=True)) == {"added": 6}
    assert actions(add_filters(spark, table.as_uri(), "Id", dry_run=True)) == {"added": 6}
    assert actions(add_filters(spark, table / "day=2026-03-00", "Id", dry_run=True)) == {"added": 3}
    several = [str(table / "day=*"), str(table)]
    assert actions(add_filters(spark, several, "Id")) == {"added": 6}  # each once


def test_tables_with_a_log_are_errors(spark: SparkSession, table: Path) -> None:
    (table.parent / "_delta_log").mkdir()
    before = contents(table)
    for call in (lambda: add_filters(spark, str(table), "Id"), lambda: shrink_filters(spark, str(table))):
        with pytest.raises(bp.UnsupportedError, match="Delta Lake"):
            call()
    assert contents(table) == before


# -- executors that fail: tasks that are killed, or run twice ----------------------------------------------------------


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
