"""ORC files written by ORC Java, through Spark and directly: the known hashes are in their filters."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from py4j.java_gateway import get_field, set_field

import bloomparquet as bp
from bloomparquet.errors import UnsupportedError
from bloomparquet.orc.bloom_filter import hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.file_tail import Writer, read_tails
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8
from bloomparquet.orc.writer_quirks import char_text, decimal_text, timestamp_millis, why_filters_unusable
from bloomparquet.storage.files import ReadCount
from tests.support.orc import OrcFile, count_held, list_files

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, STRIDE = 3000, 1000
COLUMNS = {
    "tiny": "cast(id % 251 - 125 as tinyint)",
    "small": "cast(id * 10 - 15000 as smallint)",
    "number": "cast(id * 1000003 - 1000000000 as int)",
    "big": "id * 1000000000000000 - 700000000000000000",
    "real": "cast(id / 7 - 100 as float)",
    "double": "cast(id / 7 - 100 as double)",
    "text": "concat('käse ', repeat(cast(id as string), cast(id % 4 + 1 as int)))",
    "blob": "cast(concat('b', cast(id as string)) as binary)",
    "day": "date_add(date'1960-01-01', cast(id * 17 as int))",
    "moment": "timestamp_micros((id - 700) * 86400000000 + id * 1001)",
    "clock": "cast(timestamp_micros((id - 700) * 86400000000 + id * 1001) as timestamp_ntz)",
    "short": "cast((id - 700) / 100 as decimal(9, 2))",
    "long": "cast((id - 700) * 1000000000000 as decimal(38, 10))",
}
Java = Callable[..., Path]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> OrcFile:
    folder = tmp_path_factory.mktemp("orc") / "t"
    frame = spark.range(0, ROWS, 1, 1).selectExpr(
        *(f"if(id % 7 = 3, null, {text}) as {name}" for name, text in COLUMNS.items()),
        "named_struct('x', id) as inner",
        "array(named_struct('at', cast(timestamp_micros(id * 1000001) as timestamp_ntz))) as more",
    )
    writer = frame.write.option("orc.bloom.filter.columns", ",".join([*COLUMNS, "inner.x"]))
    writer.option("orc.bloom.filter.fpp", "0.05").option("orc.row.index.stride", str(STRIDE)).orc(str(folder))
    (path,) = folder.glob("*.orc")
    return OrcFile.open(path)


@pytest.fixture(scope="module")
def java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Write rows with ORC Java, which has types that Spark does not write; filters on every column."""
    jvm = spark.sparkContext._jvm
    home = tmp_path_factory.mktemp("java")

    def write(schema: str, rows: list[list[Any]], **options: str) -> Path:
        path = home / f"{len(list(home.iterdir()))}.orc"
        conf = jvm.org.apache.hadoop.conf.Configuration()
        conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        kind = jvm.org.apache.orc.TypeDescription.fromString(schema)
        conf.set("orc.bloom.filter.columns", ",".join(kind.getFieldNames()))
        conf.set("orc.bloom.filter.fpp", "0.000001")
        for key, value in options.items():
            conf.set(f"orc.{key.replace('_', '.')}", value)
        target = jvm.org.apache.hadoop.fs.Path(str(path))
        writer = jvm.org.apache.orc.OrcFile.createWriter(
            target, jvm.org.apache.orc.OrcFile.writerOptions(conf).setSchema(kind)
        )
        batch = kind.createRowBatch()
        names = [child.getCategory().getName() for child in kind.getChildren()]
        for vector, name, values in zip(get_field(batch, "cols"), names, zip(*rows, strict=True), strict=True):
            for i, value in enumerate(values):
                put(jvm, vector, name, i, value)
        set_field(batch, "size", len(rows))
        writer.addRowBatch(batch)
        writer.close()
        return path

    return write


def put(jvm: Any, vector: Any, kind: str, i: int, value: Any) -> None:
    """Set a value of a batch. Timestamps are nanoseconds since 1970, decimals are text."""
    if kind in ("string", "char", "varchar", "binary"):
        vector.setVal(i, value.encode())
    elif kind.startswith("timestamp"):
        stamp = jvm.java.sql.Timestamp(value // 10**6)
        stamp.setNanos(value % 10**9)
        vector.set(i, stamp)
    elif kind == "decimal":
        vector.set(i, jvm.org.apache.hadoop.hive.common.type.HiveDecimal.create(value))
    elif kind in ("float", "double"):
        jvm.java.lang.reflect.Array.setDouble(get_field(vector, "vector"), i, value)
    else:
        jvm.java.lang.reflect.Array.setLong(get_field(vector, "vector"), i, value)


def not_held(file: OrcFile, name: str, hashes: Any) -> list[bool]:
    filters = file.filters(name)
    assert filters is not None
    return [not each for each in filters[0].check(hashes).tolist()]


def longs(*values: int) -> Any:
    return hash_longs(np.array(values, np.int64))


def test_spark_names_itself_in_the_file(written: OrcFile) -> None:
    tail = written.tail
    assert (tail.writer, tail.writer_version, tail.file_version) == (Writer.JAVA, 9, (0, 12))
    assert tail.software_version is not None
    assert (tail.rows, tail.row_index_stride, tail.row_groups(0)) == (ROWS, STRIDE, 3)
    assert tail.calendar in (1, 2)  # Julian-Gregorian, proleptic Gregorian
    assert tail.types[written.column("moment")].attributes == {"spark.sql.catalyst.type": "timestamp"}
    assert tail.types[written.column("clock")].kind == Kind.LONG  # without a zone: microseconds, and not a TIMESTAMP
    assert written.stripes[0].writer_timezone is not None


@pytest.mark.parametrize("name", COLUMNS)
def test_values_spark_wrote_are_held_and_absent_ones_denied(written: OrcFile, name: str) -> None:
    assert why_filters_unusable(written.tail, written.column(name), written.stripes[0]) is None
    held, values, taken, absent = count_held(written, name)
    assert held == values == ROWS - len(range(3, ROWS, 7))
    assert absent > ROWS or name == "tiny"  # its values are in every row group
    assert taken <= absent * 0.1


def test_every_column_has_the_values_that_spark_reads(spark: SparkSession, written: OrcFile) -> None:
    """Spark collects a timestamp as its machine's clock shows it, which is also how it was written."""
    path = written.path
    rows = bp.read_table(path)
    assert rows.schema.field("clock").type == pa.timestamp("us")
    moments = rows["moment"].cast(pa.timestamp("us"))
    rows = rows.set_column(rows.schema.names.index("moment"), "moment", moments)
    expected = [row.asDict(recursive=True) for row in spark.read.orc(path).collect()]
    for name in (*COLUMNS, "inner", "more"):
        theirs: list[Any] = [bytes(row[name]) if isinstance(row[name], bytearray) else row[name] for row in expected]
        assert rows[name].to_pylist() == theirs, name


def test_char_is_hashed_padded_and_varchar_cut(java: Java) -> None:
    rows = [["ab", "abcdef", "x "], ["käseküche", "k", ""]]
    path = java("struct<a:char(5),b:varchar(3),c:string>", rows)
    assert [bp.read_table(path, f"a = '{text}'").num_rows for text in ("ab   ", "ab", "käsek")] == [1, 0, 1]
    file = OrcFile.open(path)
    assert not_held(file, "a", hash_bytes([b"ab", b"ab   ", "käsek".encode()])) == [True, False, False]
    assert not_held(file, "a", hash_bytes([char_text("ab", 5), char_text("käseküche", 5)])) == [False, False]
    assert not_held(file, "b", hash_bytes([b"abcdef", b"abc", b"k"])) == [True, False, False]
    assert not_held(file, "c", hash_bytes([b"x", b"x ", b""])) == [True, False, False]
    assert file.tail.types[1].maximum_length == 5


def test_integers_hash_signed_and_floats_as_doubles(java: Java) -> None:
    kinds = "struct<a:tinyint,b:smallint,c:float,d:double,e:boolean,f:date>"
    file = OrcFile.open(java(kinds, [[-5, -300, 0.1, -0.0, 1, -7], [1, 1, float("nan"), float("nan"), 1, 1]]))
    assert not_held(file, "a", longs(-5, 251)) == [False, True]
    assert not_held(file, "b", longs(-300, 65236)) == [False, True]
    narrow = float(np.float32(0.1))
    assert not_held(file, "c", hash_doubles(np.array([narrow, 0.1, np.nan]))) == [False, True, False]
    assert not_held(file, "d", hash_doubles(np.array([-0.0, 0.0, np.nan]))) == [False, True, False]
    assert not_held(file, "e", longs(1, 0)) == [True, True]  # nothing was inserted
    assert why_filters_unusable(file.tail, 5) is not None
    assert not_held(file, "f", longs(-7, 7)) == [False, True]


@pytest.mark.parametrize("kind", ["decimal(9,2)", "decimal(18,4)", "decimal(30,4)"])
def test_decimals_are_hashed_as_their_shortest_text(java: Java, kind: str) -> None:

    values = ["0", "-0.01", "1.50", "100", "-100", "12345.67"]
    file = OrcFile.open(java(f"struct<a:{kind}>", [[value] for value in values]))
    assert not any(not_held(file, "a", hash_bytes([decimal_text(Decimal(value)) for value in values])))
    assert not_held(file, "a", hash_bytes([b"1.50", b"1.5000", b"0.00", b"1E+2"])) == [True] * 4


@pytest.mark.parametrize("kind", ["timestamp", "timestamp with local time zone"])
def test_timestamps_are_kept_as_readers_see_them(java: Java, spark: SparkSession, kind: str) -> None:
    nanos = [-1_500_000_500, -1_000_000_500, -999_999_500, -500_500_000, -500, -(10**9), 0, 5 * 10**8, 10**18 + 999_999]
    path = java(f"struct<a:{kind}>", [[value] for value in nanos])
    file = OrcFile.open(path)
    read = [row[0] for row in spark.read.orc(str(path)).selectExpr("unix_micros(a)").collect()]
    (statistics,) = file.statistics("a")
    assert statistics is not None
    assert len(read) == len(nanos)
    for micros in read:  # some are read a second later than they were written
        first, last = micros * 1000, micros * 1000 + 999
        assert not all(not_held(file, "a", longs(*timestamp_millis(first, last))))
        assert statistics.minimum <= last
        assert first <= statistics.maximum
    assert file.stripes[0].bloom_encodings[1] == 1


def test_timestamps_use_the_writers_zone_and_instants_utc(java: Java, spark: SparkSession) -> None:
    zones = spark.sparkContext._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/Los_Angeles"))
    try:
        path = java("struct<a:timestamp,b:timestamp with local time zone>", [[1_600_000_000_123_000_000] * 2])
    finally:
        zones.setDefault(before)
    file = OrcFile.open(path)
    instant, clock = 1_600_000_000_123, 1_600_000_000_123 - 7 * 3_600_000
    assert file.stripes[0].writer_timezone == "America/Los_Angeles"
    assert not_held(file, "a", longs(clock, instant)) == [False, True]
    assert not_held(file, "b", longs(clock, instant)) == [True, False]
    for name, millis in (("a", clock), ("b", instant)):
        (statistics,) = file.statistics(name)
        assert statistics is not None
        assert statistics.minimum == statistics.maximum == millis * 10**6


def test_streams_from_before_orc_101_are_read(java: Java, spark: SparkSession) -> None:
    options = {"bloom_filter_write_version": "original"}
    file = OrcFile.open(java("struct<a:bigint,b:binary,c:string>", [[5, "xyz", "xyz"]], **options))
    (stripe,) = file.stripes
    assert (BLOOM_FILTER, 1) in stripe.streams
    old = {key: value for key, value in stripe.streams.items() if key[0] != BLOOM_FILTER_UTF8}
    object.__setattr__(stripe, "streams", old)
    assert not_held(file, "a", longs(5, 6)) == [False, True]
    assert not_held(file, "b", hash_bytes([b"xyz", b"xy"])) == [False, True]
    for name, usable in (("a", True), ("b", True), ("c", False)):
        column = file.column(name)
        assert stripe.filter_kind(column) == BLOOM_FILTER
        assert (why_filters_unusable(file.tail, column, stripe) is None) == usable


def test_lzo_is_an_unsupported_error(java: Java) -> None:
    path = java("struct<a:bigint>", [[i] for i in range(300)], compress="LZO")
    storage, files = list_files(path)
    (error,) = read_tails(storage, files, ReadCount())
    assert isinstance(error, UnsupportedError)
    assert "LZO" in str(error)
    assert str(path) in str(error)
    assert orc.ORCFile(path).nrows == 300  # the file itself is not damaged
