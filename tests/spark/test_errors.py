"""Errors for bad input, and for files that change during a query."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bloomparquet.errors import FormatError, OptionError, PlanError
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.listing import LoadListing
from tests.spark.compare import assert_same, load, parquet, rows
from tests.support import files

pytestmark = pytest.mark.slow


def schema(path: Path, **options: str) -> list[str]:
    """The names of the columns, as Spark's driver asks for them; here, errors are not wrapped."""
    return LoadListing(Options.parse({"path": str(path), **options})).schema().names


def test_a_directory_without_parquet(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(PlanError, match="no data files here"):
        schema(tmp_path)
    files.write(tmp_path / "a.parquet", {"id": [1]})
    with pytest.raises(OptionError, match="pathGlobFilter, modifiedBefore and modifiedAfter exclude all 1 files"):
        schema(tmp_path, pathGlobFilter="*.pq")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1", "not a Parquet file"),
        (b"x" * 100, "not a Parquet file"),
        (b"PAR1" + b"\xff" * 40 + b"PAR1", "damaged"),
    ],
)
def test_a_file_that_is_not_parquet(tmp_path: Path, content: bytes, message: str) -> None:
    files.write(tmp_path / "t" / "b.parquet", {"id": [1]})
    (tmp_path / "t" / "a.parquet").write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        schema(tmp_path / "t")
    assert "a.parquet" in str(caught.value)
    assert schema(tmp_path / "t", ignoreCorruptFiles="true") == ["id"]


def test_an_empty_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    with pytest.raises(FormatError, match=r"a\.parquet: the file is empty"):
        schema(tmp_path / "a.parquet")
    files.write(tmp_path / "b.parquet", {"id": [1]})
    (tmp_path / "c.parquet").write_bytes(b"x" * 100)
    assert rows(load(spark, tmp_path, ignoreCorruptFiles="true")) == ["(1,)"]
    assert schema(tmp_path) == ["id"]  # beside other files, an empty file is skipped


def test_a_file_with_damaged_pages(spark: SparkSession, tmp_path: Path) -> None:
    path = Path(files.write(tmp_path / "t" / "1.parquet", {"id": range(10000)}))
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(Exception, match=r"PYTHON_EXCEPTION|Python worker"):
        load(spark, path).collect()
    for i in (0, 2):
        files.write(path.with_name(f"{i}.parquet"), {"id": [i]})
    assert rows(load(spark, path.parent, ignoreCorruptFiles="true", minPartitionNum="1")) == ["(0,)", "(2,)"]


def test_a_file_deleted_between_plan_and_read(spark: SparkSession, tmp_path: Path) -> None:
    files.write(tmp_path / "a.parquet", {"id": ["a"]})
    for ignore in ("false", "true"):
        files.write(tmp_path / "b.parquet", {"id": ["b"]})
        frame = load(spark, tmp_path, ignoreMissingFiles=ignore)
        assert frame.rdd.getNumPartitions() >= 1  # planned
        os.remove(tmp_path / "b.parquet")
        if ignore == "true":
            assert rows(frame) == ["('a',)"]
        else:
            with pytest.raises(Exception, match=r"b\.parquet"):
                frame.collect()


def test_which_files_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for name, when in (
        ("a.parquet", 1_000_000),
        ("b.pq", 2_000_000),
        ("c.parquet", 3_000_000),
        ("_hidden.parquet", 1),
        (".dot.parquet", 1),
    ):
        files.write(tmp_path / name, {"name": [name]})
        os.utime(tmp_path / name, (when, when))
    assert_same(spark, tmp_path)
    for options in (
        {"pathGlobFilter": "*.{pq,orc}"},
        {"modifiedAfter": "1970-01-12T13:46:40", "modifiedBefore": "1970-02-04T17:20:00", "timeZone": "UTC"},
    ):
        assert 0 < assert_same(spark, tmp_path, **options).count() < 3
    both = [str(tmp_path / "a.parquet"), str(tmp_path / "b.pq")]
    assert rows(load(spark, both)) == rows(parquet(spark, both)) == ["('a.parquet',)", "('b.pq',)"]
    assert rows(load(spark, (tmp_path / "a.parquet").as_uri())) == ["('a.parquet',)"]
    assert rows(load(spark, str(tmp_path / "[ab].p*"))) == ["('a.parquet',)", "('b.pq',)"]


def test_types_that_python_data_sources_cannot_have(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql("SELECT 1 AS id, INTERVAL '1-2' YEAR TO MONTH AS ym").write.parquet(path)
    with pytest.raises(Exception, match="give a schema without the column"):
        load(spark, path).collect()
