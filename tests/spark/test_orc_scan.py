"""ORC files written by Spark and read by `bloomparquet.read_table`: rows and values equal those of ``spark.read.orc``
without pushdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import bloomparquet as bp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
COLUMNS = {
    "id": "id",
    "tiny": "cast(id % 251 - 125 as tinyint)",
    "text": "concat('käse ', cast(id % 1000 as string))",
    "blob": "cast(concat('b', cast(id as string)) as binary)",
    "real": "cast(id / 8 - 100 as float)",
    "day": "date_add(date'2000-01-01', cast(id * 17 % 9000 as int))",
    "moment": "timestamp_micros(1700000000000000 + id * 7919000001)",
    "clock": "cast(timestamp_micros(1700000000000000 + id * 7919000001) as timestamp_ntz)",
    "price": "cast((id - 700) / 100 as decimal(9, 2))",
    "flag": "id % 3 = 0",
    "place": "named_struct('n', id % 777, 'clock', cast(timestamp_micros(id * 1000001) as timestamp_ntz))",
    "list": "array(id, id + 1)",
    "map": "map('k', cast(timestamp_micros(id * 1000001) as timestamp_ntz))",
}
BLOOM = "id,tiny,text,blob,real,day,moment,clock,price,place.n"


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("orc") / "t")
    frame = spark.range(0, ROWS, 1, 2).selectExpr(
        *(f"if(id % 7 = 3 and '{name}' != 'id', null, {text}) as {name}" for name, text in COLUMNS.items())
    )
    writer = frame.write.option("orc.bloom.filter.columns", BLOOM).option("orc.row.index.stride", "1000")
    writer.orc(folder)
    return folder


def test_every_column_has_the_values_that_spark_reads(spark: SparkSession, written: str) -> None:
    """Spark collects a timestamp as its machine's clock shows it, which is also how it was written."""
    rows = bp.read_table(written).sort_by("id")
    assert rows.schema.field("clock").type == pa.timestamp("us")
    assert rows.schema.field("place").type.field("clock").type == pa.timestamp("us")
    for name in ("moment", "clock"):
        rows = rows.set_column(rows.schema.names.index(name), name, rows[name].cast(pa.timestamp("us")))
    expected = [row.asDict(recursive=True) for row in spark.read.orc(written).orderBy("id").collect()]
    for name in COLUMNS:
        theirs: list[Any] = [row[name] for row in expected]
        if name == "map":
            theirs = [None if value is None else list(value.items()) for value in theirs]
        if name == "blob":
            theirs = [None if value is None else bytes(value) for value in theirs]
        assert rows[name].to_pylist() == theirs, name


def test_padded_text_is_compared_as_it_is_stored(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    spark.sql(f"CREATE TABLE padded (id BIGINT, c CHAR(5), v VARCHAR(6)) USING orc LOCATION '{folder}'")
    try:
        spark.sql(
            "INSERT INTO padded SELECT id, concat('c', id % 100), concat('v', id % 100) FROM range(0, 1000, 1, 1)"
        )
    finally:
        spark.sql("DROP TABLE padded")
    assert bp.read_table(folder, "c = 'c5   '").num_rows == 10
    assert bp.read_table(folder, "c = 'c5'").num_rows == 0
    assert bp.read_table(folder, "v = 'v5'").num_rows == 10
