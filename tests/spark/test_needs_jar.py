"""Actions that need the jar are errors that say how to get it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.orc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import bloomparquet as bp
from bloomparquet.errors import UnsupportedError
from pyspark_bloomorc import DefaultSource as OrcSource
from pyspark_bloomparquet import DefaultSource

pytestmark = pytest.mark.slow

WRITE = r'format\("bloomparquet"\) writes with the jar only.*attach\(spark\).*df.write.parquet.*add_filters'
ATTACH = r'format\("bloomorc"\) {} with the jar only; call pyspark_bloomparquet.attach\(spark\)'


def test_a_write_is_an_error_and_changes_no_file(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.parquet(path)
    before = {file: file.read_bytes() for file in Path(path).iterdir()}
    with pytest.raises(Exception, match=WRITE):
        spark.range(9).write.format("bloomparquet").mode("overwrite").save(path)
    assert {file: file.read_bytes() for file in Path(path).iterdir()} == before


def test_a_stream_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().select("value").writeStream.format("bloomparquet")
    with pytest.raises(Exception, match=r"writes streams with the jar only"):
        stream.option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "t")).awaitTermination(60)
    with pytest.raises(UnsupportedError, match=r"reads streams with the jar only"):
        DefaultSource({}).streamReader(StructType([]))


def test_bloomorc_needs_the_jar(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t.orc")
    pyarrow.orc.write_table(spark.range(3).toArrow(), path)
    with pytest.raises(Exception, match=ATTACH.format("reads files")):
        spark.read.format("bloomorc").load(path)
    with pytest.raises(Exception, match=ATTACH.format("writes files")):
        spark.range(9).write.format("bloomorc").mode("append").save(str(tmp_path / "u"))
    assert not (tmp_path / "u").exists()
    assert bp.read_table(path, "id = 2").num_rows == 1  # without Spark, no jar is needed


@pytest.mark.parametrize(
    ("call", "action"),
    [
        (lambda source: source.schema(), "reads files"),
        (lambda source: source.reader(None), "reads files"),
        (lambda source: source.writer(None, False), "writes files"),
        (lambda source: source.streamReader(None), "reads streams"),
        (lambda source: source.streamWriter(None, False), "writes streams"),
    ],
)
def test_every_method_of_bloomorc_says_how_to_attach(call: Callable[[OrcSource], object], action: str) -> None:
    with pytest.raises(UnsupportedError, match=ATTACH.format(action)):
        call(OrcSource({"path": "x"}))
