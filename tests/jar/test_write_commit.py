"""A write that fails or is killed leaves the old rows and no partial output."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.support.spark import conf, rows, wait_for_tasks

pytestmark = pytest.mark.slow

DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
PROTOCOL = "spark.sql.sources.commitProtocolClass"
OWN_COMMITTER = "spark.sql.parquet.output.committer.class"
KILLS = int(os.environ.get("BLOOMPARQUET_KILLS", "2"))
ROOT = Path(__file__).resolve().parents[2]


def all_files(path: Path) -> dict[str, bytes]:
    """Every file below `path`, also hidden ones, without _SUCCESS and checksums."""
    files = (file for file in path.rglob("*") if file.is_file() and file.suffix != ".crc" and file.name != "_SUCCESS")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def failing(spark: SparkSession) -> DataFrame:
    """A frame of which some tasks succeed, and the last one raises after some rows."""

    @udf("long")
    def raising(value):  # type: ignore[no-untyped-def]
        if value == 39_999:
            raise ValueError("this value is bad")
        return value

    return spark.range(0, 40_000, 1, 4).select(raising("id").alias("id")).selectExpr("id", "id % 3 AS p")


@pytest.fixture
def table(jar_spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Ten rows in three partitions: a directory, and the table ``committed`` over it."""
    path = tmp_path / "t"
    jar_spark.range(10).selectExpr("id", "id % 3 AS p").write.format("bloomparquet").partitionBy("p").save(str(path))
    jar_spark.sql(f"CREATE TABLE committed USING bloomparquet LOCATION '{path}'")
    jar_spark.sql("MSCK REPAIR TABLE committed")
    yield path
    jar_spark.sql("DROP TABLE committed")


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("how", ["save", "partitions", "dynamic", "INSERT", "INSERT a partition"])
def test_a_failed_job_leaves_the_old_files_only(jar_spark: SparkSession, table: Path, mode: str, how: str) -> None:
    before = all_files(table)
    bad = failing(jar_spark)
    bad.createOrReplaceTempView("bad")
    writer = bad.write.format("bloomparquet").mode(mode)
    word = "OVERWRITE" if mode == "overwrite" else "INTO"
    routes = {
        "save": lambda: writer.save(str(table)),
        "partitions": lambda: writer.partitionBy("p").save(str(table)),
        "dynamic": lambda: writer.partitionBy("p").save(str(table)),
        "INSERT": lambda: jar_spark.sql(f"INSERT {word} committed SELECT * FROM bad"),
        "INSERT a partition": lambda: jar_spark.sql(f"INSERT {word} committed PARTITION (p = 1) SELECT id FROM bad"),
    }
    with (
        conf(jar_spark, DYNAMIC if how == "dynamic" else {}),
        pytest.raises(PythonException, match="this value is bad"),
    ):
        routes[how]()
    wait_for_tasks(jar_spark)
    assert all_files(table) == before
    assert rows(jar_spark.read.parquet(str(table))) == [(i, i % 3) for i in range(10)]
    jar_spark.sql("REFRESH TABLE committed")
    assert rows(jar_spark.sql("SHOW PARTITIONS committed")) == [("p=0",), ("p=1",), ("p=2",)]
    assert rows(jar_spark.table("committed")) == [(i, i % 3) for i in range(10)]


def test_uncommitted_files_of_a_killed_job_are_deleted(jar_spark: SparkSession, table: Path) -> None:
    """The finished tasks of the killed job are where Hadoop's committer would look for those of the overwrite."""
    stale = table / "_temporary" / "0" / "task_202001010000000_0000_m_000000"
    stale.mkdir(parents=True)
    shutil.copy(next(table.glob("p=1/part-*")), stale / "part-00000-stale.parquet")
    jar_spark.range(3).selectExpr("id", "1L AS p").write.format("bloomparquet").mode("overwrite").partitionBy("p").save(
        str(table)
    )
    assert rows(jar_spark.read.parquet(str(table))) == [(0, 1), (1, 1), (2, 1)]
    assert not (table / "_temporary").exists()


@pytest.mark.parametrize("failure", ["a move", "the success file"])
def test_a_commit_that_fails_halfway_leaves_the_old_files_only(
    jar_spark: SparkSession, table: Path, failure: str
) -> None:
    """Files cannot be moved below a broken link; or all were moved, and a directory has the success file's name."""
    if failure == "the success file":
        (table / "_SUCCESS").unlink()
        (table / "_SUCCESS" / "x").mkdir(parents=True)
    broken = str(table / "p=5") if failure == "a move" else None

    @udf("long")
    def breaking(value):  # type: ignore[no-untyped-def]
        if broken and not os.path.lexists(broken):
            with contextlib.suppress(FileExistsError):
                os.symlink("nowhere", broken)
        return value

    before, directories = all_files(table), sorted(path for path in table.rglob("*") if path.is_dir())
    frame = jar_spark.range(100).select(breaking("id").alias("id")).selectExpr("id", "id % 10 AS p").repartition(2)
    with pytest.raises(Py4JJavaError, match="Failed to rename" if broken else "_SUCCESS"):
        frame.write.format("bloomparquet").mode("overwrite").partitionBy("p").save(str(table))
    assert all_files(table) == before
    assert sorted(path for path in table.rglob("*") if path.is_dir()) == directories
    assert rows(jar_spark.read.parquet(str(table))) == [(i, i % 3) for i in range(10)]


def test_new_files_are_not_lost_below_a_link(jar_spark: SparkSession, table: Path, tmp_path: Path) -> None:
    """They would be moved to the link's target, and the overwrite would then delete the link."""
    (table / "p=1").rename(tmp_path / "elsewhere")
    (table / "p=1").symlink_to(tmp_path / "elsewhere")
    before = all_files(table), all_files(tmp_path / "elsewhere")
    frame = jar_spark.range(3).selectExpr("id", "id % 2 AS p")
    with pytest.raises(Py4JJavaError, match="p=1 is a symbolic link"):
        frame.write.format("bloomparquet").mode("overwrite").partitionBy("p").save(str(table))
    assert (all_files(table), all_files(tmp_path / "elsewhere")) == before


def test_an_overwrite_deletes_everything_else(jar_spark: SparkSession, table: Path) -> None:
    """Like Spark's overwrite: deletes hidden files, foreign files and old partitions."""
    for name in (
        "_metadata",
        ".hidden",
        "notes.txt",
        "p=9/left.parquet",
        "p=1/_SUCCESS",
        ".spark-staging-1/p=1/x.parquet",
    ):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"x")
    old = all_files(table)
    jar_spark.range(3).selectExpr("id", "1L AS p").write.format("bloomparquet").mode("overwrite").partitionBy("p").save(
        str(table)
    )
    new = all_files(table)
    assert not new.keys() & old.keys()
    assert {Path(name).parent.as_posix() for name in new} == {"p=1"}
    assert sorted(each.name for each in table.iterdir() if each.suffix != ".crc") == ["_SUCCESS", "p=1"]
    assert rows(jar_spark.read.parquet(str(table))) == [(0, 1), (1, 1), (2, 1)]


def test_the_success_file_is_the_new_jobs(jar_spark: SparkSession, table: Path) -> None:
    frame = jar_spark.range(3)
    assert (table / "_SUCCESS").exists()
    unmarked = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
    frame.write.format("bloomparquet").mode("overwrite").options(**unmarked).save(str(table))
    assert not (table / "_SUCCESS").exists()
    frame.write.format("bloomparquet").mode("overwrite").save(str(table))
    assert (table / "_SUCCESS").exists()


def test_dynamic_mode_keeps_other_partitions(jar_spark: SparkSession, table: Path) -> None:
    before = all_files(table)
    frame = jar_spark.sql("SELECT 100L AS id, 1L AS p UNION ALL SELECT 101L, 7L")
    with conf(jar_spark, DYNAMIC):
        frame.write.format("bloomparquet").mode("overwrite").partitionBy("p").save(str(table))
    after = all_files(table)
    kept = {name for name in before if not name.startswith("p=1/")}
    assert kept <= after.keys()
    assert not (before.keys() - kept) & after.keys()
    assert rows(jar_spark.read.parquet(str(table)).where("p IN (1, 7)")) == [(100, 1), (101, 7)]
    assert not [name for name in os.listdir(table) if name.startswith((".spark", "_temporary"))]


@pytest.mark.parametrize("name", ["a=b", "a%b", "ü/€", "sp ace", "colon:", "#", "?*", "+"])
def test_partitions_of_any_name_are_overwritten(jar_spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "t")
    for mode in ({}, DYNAMIC):
        with conf(jar_spark, mode):
            for value in (1, 2):
                frame = jar_spark.createDataFrame([(value, name)], "id INT, p STRING")
                frame.write.format("bloomparquet").mode("overwrite").partitionBy("p").save(path)
                assert rows(jar_spark.read.parquet(path)) == [(value, name)]


def test_a_partition_without_new_rows_keeps_its_rows(jar_spark: SparkSession, table: Path) -> None:
    before = all_files(table)
    with conf(jar_spark, DYNAMIC):
        jar_spark.table("committed").limit(0).write.format("bloomparquet").mode("overwrite").partitionBy("p").save(
            str(table)
        )
    assert all_files(table) == before


def test_a_file_at_the_output_path_is_overwritten(jar_spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a file")
    jar_spark.range(3).write.format("bloomparquet").mode("overwrite").save(str(tmp_path / "x"))
    assert rows(jar_spark.read.parquet(str(tmp_path / "x"))) == [(0,), (1,), (2,)]


def test_insert_into_a_null_partition_overwrites_only_it(jar_spark: SparkSession, tmp_path: Path) -> None:
    results = []
    for name in ("parquet", "bloomparquet"):
        path = tmp_path / name
        jar_spark.sql("SELECT 1L AS id, 'a' AS p, 'x' AS q UNION ALL SELECT 2L, NULL, 'y'").write.format(
            name
        ).partitionBy("p", "q").save(str(path))
        jar_spark.sql(f"CREATE TABLE nulls USING {name} LOCATION '{path}'")
        try:
            if name == "parquet":
                jar_spark.sql("MSCK REPAIR TABLE nulls")
            jar_spark.sql("INSERT OVERWRITE nulls PARTITION (p = NULL, q) VALUES (3, 'z')")
        finally:
            jar_spark.sql("DROP TABLE nulls")
        results.append(rows(jar_spark.read.parquet(str(path))))
    assert results[0] == results[1] == sorted([(1, "a", "x"), (3, None, "z")], key=repr)


def test_links_are_deleted_and_their_targets_stay(jar_spark: SparkSession, table: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (table / "p=1").rename(outside)
    (table / "p=1").symlink_to(outside)
    linked = tmp_path / "linked.parquet"
    next((table / "p=2").glob("*.parquet")).rename(linked)
    (table / "p=2" / "link.parquet").symlink_to(linked)
    before = all_files(outside)
    jar_spark.range(3).selectExpr("id", "0 AS p").write.format("bloomparquet").mode("overwrite").partitionBy("p").save(
        str(table)
    )
    assert all_files(outside) == before
    assert linked.exists()
    assert len(rows(jar_spark.read.parquet(str(table)))) == 3


@pytest.mark.parametrize(
    "chosen",
    [
        {PROTOCOL: "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"},
        {OWN_COMMITTER: "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter"},
        {"mapreduce.fileoutputcommitter.algorithm.version": "2"},
        {"parquet.summary.metadata.level": "ALL"},
    ],
    ids=["protocol", "committer", "algorithm", "summary"],
)
def test_the_users_committer_is_used(jar_spark: SparkSession, table: Path, chosen: dict[str, str]) -> None:
    """Then Spark overwrites, and deletes the old files first."""
    with conf(jar_spark, chosen):
        jar_spark.range(3).write.format("bloomparquet").mode("overwrite").save(str(table))
        assert rows(jar_spark.read.parquet(str(table))) == [(0,), (1,), (2,)]
        before = all_files(table)
        with pytest.raises(PythonException):
            failing(jar_spark).write.format("bloomparquet").mode("overwrite").save(str(table))
        # algorithm 2 of Hadoop's committer moves the files of each finished task at once
        left = all_files(table)
        assert bool(left) == ("2" in chosen.values())
        assert not left.keys() & before.keys()


def test_internal_options_set_by_a_user_delete_nothing(jar_spark: SparkSession, table: Path, tmp_path: Path) -> None:
    before = all_files(table)
    options = {
        "bloomparquet.overwritten": str(table),
        "bloomparquet.overwritten.path": str(table),
        "bloomparquet.overwritten.partitions": "true",
    }
    for mode in ("append", "overwrite"):
        jar_spark.range(3).write.format("bloomparquet").mode(mode).options(**options).save(str(tmp_path / "other"))
    assert all_files(table) == before


WRITER = """
import sys
from pathlib import Path
from tests.support.spark import start
from pyspark_bloomparquet import attach

home, table, value = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
spark = attach(start(home))
print("ready", flush=True)
while True:
    value = 3 - value
    frame = spark.range(0, 40_000, 1, 4).selectExpr("id", f"{value}L AS written")
    frame.write.format("bloomparquet").mode("overwrite").option("bloomColumns", "id").save(table)
    print(f"written {value}", flush=True)
"""


def test_a_killed_write_leaves_the_old_rows_or_the_new(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Two sets of rows overwrite each other in another process, until it and its children are killed.

    Only while files are moved and deleted, a few milliseconds, may parts of both be there: then none is lost.
    """
    path = tmp_path / "t"
    both = {value: {(i, value) for i in range(40_000)} for value in (1, 2)}
    chance = random.Random(os.environ.get("BLOOMPARQUET_SEED"))
    first = jar_spark.range(40_000).selectExpr("id", "1L AS written").write.format("bloomparquet").mode("overwrite")
    first.save(str(path))
    mixed = 0
    for kill in range(KILLS):
        killed(tmp_path / f"home{kill}", path, chance)
        for file in path.glob("*.parquet"):
            pq.read_table(file)
        returned = [tuple(row) for row in jar_spark.read.parquet(str(path)).select("id", "written").collect()]
        held = [value for value in both if both[value] <= set(returned)]
        assert held, "rows are lost"
        assert len(returned) == len(set(returned)), "rows are there twice"
        mixed += len(returned) != 40_000
        first.save(str(path))
        left = {each.name for each in path.iterdir() if each.suffix not in (".parquet", ".crc")}
        assert left == {"_SUCCESS"}
        assert len(list(path.glob(".part*.crc"))) == len(list(path.glob("part*.parquet")))
        assert set(rows(jar_spark.read.parquet(str(path)).select("id", "written"))) == both[1]
    print(f"{KILLS} kills, {mixed} while files were moved or deleted")


def killed(home: Path, table: Path, chance: random.Random) -> None:
    """Runs WRITER over `table`, and kills it and its JVM during one of its first writes."""
    home.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'python'}"}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home), str(table), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert writer.stdout is not None
    began = chance.choice(("ready", "written"))
    try:
        for line in writer.stdout:
            if line.startswith(began):
                break
        time.sleep(chance.uniform(0, 1.0))
        assert writer.poll() is None, "the writer ended by itself"
    finally:
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            while True:  # wait for the JVM to exit
                os.killpg(writer.pid, 0)
                time.sleep(0.05)
