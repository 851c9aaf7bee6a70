"""The index of a data set in Spark: every way to read uses it, says so, and returns Spark's rows."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import bloomparquet as bp
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.index.lookup import open_directory
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from pyspark_bloomparquet import ScanSummary
from tests.support import files, plain
from tests.support.planners import warnings
from tests.support.s3 import s3_server
from tests.support.scenarios import PRUNED, Readers, run, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

FILES, GROUPS = 4, 4
SETTING = "spark.datasource.bloomparquet.index"


def write(path: Path, number: int) -> None:
    """Four row groups of 50 ids, with a filter on `id`. `name` has none, and min/max tell little of it."""
    ids = [number * 200 + i * 7 % 200 for i in range(200)]
    data = {"id": ids, "name": [f"N{i * 7919 % 10007}" for i in ids]}
    files.write(path, data, ["id"], rows_per_group=50, fpp=1e-5)


def name_of(value: int) -> str:
    return f"N{value * 7919 % 10007}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Files with an index beside them, which has filters of `name` too."""
    root = tmp_path / "a b%20c"
    for number in range(FILES):
        write(root / f"{number}.parquet", number)
    bp.build_index(root, columns={"id": None, "name": bp.Bloom(1e-6)})
    return root


def loaded(readers: Readers, path: Path, where: str, **options: str) -> tuple[list[str], ScanSummary]:
    ran = run(readers.jar(path, **options).where(where))
    return ran.rows, ran.plan


def ask(readers: Readers, path: Path, where: str, **options: str) -> tuple[list[str], ScanSummary]:
    """By Spark's own source, whose options are settings of the session. Its rows are those without pruning."""
    with conf(readers.spark, {f"spark.datasource.bloomparquet.{name}": text for name, text in options.items()}):
        pruned = plain.compare(readers.spark, lambda: readers.oracle(path).where(where))
    (plan,) = pruned.plans
    return pruned.rows, plan


def test_the_index_beside_the_data_is_used(readers: Readers, data: Path) -> None:
    expected = [repr((7, name_of(7)))]
    rows, without = ask(readers, data, "id = 7", index="off")
    assert rows == expected
    assert (without.indexed_files, without.kept, without.bloom_bytes_read > 0) == (0, 1, True)
    rows, plan = ask(readers, data, "id = 7")
    assert (rows, plan.kept, plan.skipped) == (expected, 1, without.skipped)
    assert (plan.files, plan.indexed_files, plan.bloom_bytes_read) == (FILES, FILES, 0)
    assert str(plan).endswith("; index: 4 of 4 files")
    rows, plan = ask(readers, data, f"name = '{name_of(7)}'")
    assert (rows, plan.kept) == (expected, 1)
    assert ask(readers, data, f"name = '{name_of(7)}'", index="OFF")[1].kept > 1, "the files have no filters of it"


def test_filters_of_changed_case_are_used(readers: Readers, data: Path) -> None:
    where = f"lower(name) = '{name_of(7).lower()}'"
    bp.build_index(data, columns={"id": None, "lower(name)": bp.Bloom(1e-6)})
    rows, plan = ask(readers, data, where)
    assert (rows, plan.kept, plan.indexed_files) == ([repr((7, name_of(7)))], 1, FILES)
    rows, plan = ask(readers, data, f"lower(name) = '{name_of(7)}'")  # no lower-case text has a capital letter
    assert (rows, plan.kept) == ([], 0)


def test_new_and_changed_files_beside_an_old_index(readers: Readers, data: Path) -> None:
    for value, files_, indexed in ((7, 4, 4), (1607, 5, 4), (2007, 5, 3)):
        if value == 1607:
            write(data / "new.parquet", 8)
        if value == 2007:
            write(data / "1.parquet", 10)
        rows, plan = ask(readers, data, f"id = {value}")
        assert rows == [repr((value, name_of(value)))]
        assert (plan.total, plan.files, plan.indexed_files, plan.kept) == (files_ * GROUPS, files_, indexed, 1)
        rows, plan = ask(readers, data, f"name = '{name_of(value)}'")
        assert rows == [repr((value, name_of(value)))]
    bp.refresh_index(data)
    rows, plan = ask(readers, data, f"name = '{name_of(2007)}'")
    assert (rows, plan.indexed_files, plan.kept) == ([repr((2007, name_of(2007)))], 5, 1)


def test_the_python_data_source_uses_the_index(readers: Readers, data: Path) -> None:
    """The Python data source has no metrics: each row group that is kept is a task of its own."""
    where = f"name = '{name_of(7)}'"

    def ask(**options: str) -> tuple[int, list[str]]:
        frame = readers.python(data, where=where, maxPartitionBytes="1", openCostInBytes="1", **options)
        rdd = frame.rdd  # planned once, for both
        return rdd.getNumPartitions(), texts(rdd.collect())

    kept, rows = ask()
    assert (kept, rows) == (1, [repr((7, name_of(7)))])
    elsewhere = data.parent / "elsewhere"
    shutil.move(data / "_bloomparquet_index", elsewhere)
    bp.build_index(data, {"name": bp.Bloom(1e-6)}, elsewhere)
    assert ask(index=str(elsewhere)) == (1, rows)
    without = ask(index="off")
    assert ask(index="auto") == without == (without[0], rows)
    assert without[0] > 1
    write(data / "new.parquet", 8)
    assert texts(readers.python(data, where="id = 1607").collect()) == [repr((1607, name_of(1607)))]


@pytest.fixture
def elsewhere(data: Path) -> Path:
    """An index that does not lie beside the data."""
    bp.drop_index(data)
    to = data.parent / "in dexes" / "i%20"
    bp.build_index(data, {"id": None, "name": bp.Bloom(1e-6)}, to)
    return to


def test_every_way_to_name_an_index_elsewhere(readers: Readers, data: Path, elsewhere: Path) -> None:
    spark, where = readers.spark, f"name = '{name_of(7)}'"
    expected = [repr((7, name_of(7)))]

    def asked(frame: DataFrame) -> tuple[int, int]:
        ran = run(frame.where(where))
        assert ran.rows == expected
        return ran.plan.indexed_files, ran.plan.kept

    assert asked(readers.jar(data))[0] == 0
    assert asked(readers.jar(data, index=str(elsewhere))) == (FILES, 1)
    with conf(spark, {SETTING: str(elsewhere), **PRUNED}):
        assert asked(readers.jar(data)) == (FILES, 1)
        assert asked(readers.jar(data, index="auto"))[0] == 0, "an option of a load overrides the setting"
        assert asked(readers.oracle(data)) == (FILES, 1)
    spark.sql(f"CREATE TABLE named USING bloomparquet OPTIONS (index '{elsewhere}') LOCATION '{data}'")
    try:
        assert asked(spark.table("named")) == (FILES, 1)
    finally:
        spark.sql("DROP TABLE named")


def test_an_index_that_cannot_be_used_is_warned_of(readers: Readers, data: Path, elsewhere: Path) -> None:
    expected = [repr((7, name_of(7)))]

    def ask(index: str) -> ScanSummary:
        rows, plan = loaded(readers, data, "id = 7", index=index)
        assert (rows, plan.indexed_files) == (expected, 0)
        return plan

    with warnings(readers.spark) as lines:
        assert [ask(f"{elsewhere}-missing").kept for _ in range(2)] == [1, 1]
    assert len(lines) == 1, lines
    assert "in dexes/i%20-missing: there is no index here" in lines[0]
    with warnings(readers.spark) as lines:
        plan = ask("github://somebody:something/index")
    assert not plan.planned
    assert "option index is 'github://somebody:something/index'" in str(plan.reason)
    assert len(lines) == 1, lines


def test_an_index_names_no_endpoint(readers: Readers, data: Path) -> None:
    spark = readers.spark
    with requests_to() as (address, requests):
        index = f"s3a://b?endpoint_override={address}&scheme=http/x"
        spark.sql(f"CREATE TABLE named USING bloomparquet OPTIONS (index '{index}') LOCATION '{data}'")
        try:
            with conf(spark, {"fs.s3a.impl": "org.apache.hadoop.fs.RawLocalFileSystem", **PRUNED}):
                frames = (readers.jar(data, index=index), spark.table("named"))
                plans = [run(frame.where("id = 7")).plan for frame in frames]
                with conf(spark, {SETTING: index}):
                    plans.append(run(readers.oracle(data).where("id = 7")).plan)
        finally:
            spark.sql("DROP TABLE named")
        assert [plan.indexed_files for plan in plans] == [0] * 3
        assert requests == []


@pytest.mark.parametrize("location", ["http://{}/x", "s3a://b?endpoint_override={}&scheme=http/x"])
def test_an_index_of_the_python_data_source_names_no_server(readers: Readers, data: Path, location: str) -> None:
    with requests_to() as (address, requests):
        with pytest.raises(PySparkException, match="option index is"):
            readers.python(data, index=location.format(address), where="id = 7").collect()
        assert requests == []


def test_a_question_mark_is_part_of_the_path_of_an_index(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as server, requests_to() as (address, requests):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.address}")
        path = f"x?endpoint_override={address}&scheme=http&region=us-east-1"
        dataset = Dataset.open(data)
        index = open_directory(f"s3a://bucket/{path}", dataset.storage, is_url=False)
        assert plan_dataset(dataset, "id = 7", PlanOptions(index=index)).kept == 1
        assert (requests, server.requests[-1]) == ([], ("HEAD", f"/bucket/{path}/_manifest.json"))


@contextlib.contextmanager
def requests_to() -> Iterator[tuple[str, list[str]]]:
    """The address of an HTTP server, and the requests that it gets."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            requests.append(str(self.rfile.readline()))
            self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", requests
        server.shutdown()
