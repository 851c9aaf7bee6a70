"""Files that parquet-java's ParquetRewriter and ORC Java's mergeFiles made of files by other writers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import orc

import bloomparquet as bp
from tests.support import interop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTANT = dt.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=dt.timezone.utc)
_JULIAN_DAY = 2_458_850


def test_int96_by_another_writer_is_kept_in_a_merged_file(spark: SparkSession, tmp_path: Path) -> None:
    """ParquetRewriter gives the merged file Spark's footer keys, but the other file stores nanoseconds, which readers
    truncate."""
    _write_by_spark(spark, tmp_path / "spark")
    _write_nanoseconds(spark, tmp_path / "other.parquet", (_JULIAN_DAY, 123_456_789))
    merged = tmp_path / "merged.parquet"
    (written,) = (tmp_path / "spark").glob("*.parquet")
    _merge(spark, [written, tmp_path / "other.parquet"], merged)

    expected = spark.read.parquet(str(merged)).where(f"x = TIMESTAMP '{INSTANT.isoformat()}'").count()
    assert expected == 1
    assert "x" in interop.filtered_columns(str(merged))
    assert bp.plan(str(written), bp.Eq("x", INSTANT)).skipped == {"bloom": 1}
    assert bp.plan(str(merged), bp.Eq("x", INSTANT)).kept == 2
    assert bp.read_table(str(merged), bp.Eq("x", INSTANT)).num_rows == expected


def test_orc_stripes_by_cpp_are_kept_in_a_merged_file(spark: SparkSession, tmp_path: Path) -> None:
    """The merged file names ORC Java as its writer. C++ hashes other bytes than the first 128 of each 1,024."""
    from tests.support import spark as support

    table = pa.table({"x": pa.array([5] + [1, 9] * 500, pa.int8())})
    sources = [tmp_path / "1.orc", tmp_path / "2.orc"]
    for source in sources:
        orc.write_table(table, str(source), bloom_filter_columns=[1], bloom_filter_fpp=0.001)
    merged = tmp_path / "merged.orc"
    paths = _list(spark, sources)
    jvm: Any = spark._jvm
    options = jvm.org.apache.orc.OrcFile.writerOptions(spark._jsc.hadoopConfiguration())
    assert jvm.org.apache.orc.OrcFile.mergeFiles(_hadoop_path(spark, merged), options, paths).size() == len(sources)

    assert orc.ORCFile(str(merged)).writer == "ORC_JAVA"
    with support.conf(spark, {"spark.sql.orc.filterPushdown": "false"}):  # with it, ORC Java loses the rows
        expected = spark.read.orc(str(merged)).where("x = 5").count()
    assert expected == len(sources)
    plan = bp.plan(str(merged), bp.Eq("x", 5))
    assert (plan.kept, plan.total) == (len(sources), len(sources))
    assert "merged" in str(plan.explain())
    assert bp.read_table(str(merged), bp.Eq("x", 5)).num_rows == expected


def _write_by_spark(spark: SparkSession, path: Path) -> None:
    from tests.support import spark as support

    rows = spark.sql("SELECT TIMESTAMP '2021-01-01 00:00:00' + make_interval(0, 0, 0, id) AS x FROM range(9)")
    options = {"parquet.bloom.filter.enabled#x": "true", "parquet.enable.dictionary": "false"}
    with support.conf(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        rows.coalesce(1).write.options(**options).parquet(str(path))


def _write_nanoseconds(spark: SparkSession, path: Path, value: tuple[int, int]) -> None:
    """A file with one INT96 value: a Julian day, and nanoseconds of the day."""
    parquet = spark._jvm.org.apache.parquet  # type: ignore[union-attr]
    schema = parquet.schema.MessageTypeParser.parseMessageType("message spark_schema { required int96 x; }")
    builder = parquet.hadoop.example.ExampleParquetWriter.builder(_hadoop_path(spark, path)).withType(schema)
    writer = builder.withBloomFilterEnabled("x", True).withDictionaryEncoding(False).build()
    row = parquet.example.data.simple.SimpleGroupFactory(schema).newGroup()
    row.add("x", parquet.example.data.simple.NanoTime(*value).toBinary())
    writer.write(row)
    writer.close()


def _merge(spark: SparkSession, sources: list[Path], merged: Path) -> None:
    rewrite = spark._jvm.org.apache.parquet.hadoop.rewrite  # type: ignore[union-attr]
    conf, paths = spark._jsc.hadoopConfiguration(), _list(spark, sources)
    options = rewrite.RewriteOptions.Builder(conf, paths, _hadoop_path(spark, merged)).build()
    rewriter = rewrite.ParquetRewriter(options)
    rewriter.processBlocks()
    rewriter.close()


def _list(spark: SparkSession, sources: list[Path]) -> Any:
    paths = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
    for source in sources:
        paths.add(_hadoop_path(spark, source))
    return paths


def _hadoop_path(spark: SparkSession, path: Path) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(str(path))  # type: ignore[union-attr]
