"""``read_delta``: the rows that ``deltalake`` reads, from few row groups."""

from __future__ import annotations

import datetime as dt
import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, convert_to_deltalake, write_deltalake
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import bloomparquet as bp
import pyspark_bloomparquet as pb
from tests.support import delta_log
from tests.support.spark import conf

pytestmark = pytest.mark.slow

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
GROUPS = WriterProperties(max_row_group_size=10)


def rows(first: int, **more: Any) -> pa.Table:
    ids = range(first, first + 100)
    return pa.table(
        {
            "id": ids,
            "day": [NOON.date() + dt.timedelta(days=i // 50 % 3) for i in ids],
            "text": [None if i % 7 == 0 else f"é {i}" for i in ids],
            "at": pa.array([NOON + dt.timedelta(hours=i) for i in ids], pa.timestamp("us", "UTC")),
            "nested": pa.array([{"x": i, "tags": [str(i)]} for i in ids]),
            **more,
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 5: two appends, then deletion vectors, a renamed column, and an added one."""
    path = tmp_path_factory.mktemp("delta") / "a table"
    mapping = {"delta.columnMapping.mode": "name"}
    write_deltalake(path, rows(0), partition_by=["day"], configuration=mapping, writer_properties=GROUPS)
    write_deltalake(path, rows(100), mode="append", writer_properties=GROUPS)
    features = ["columnMapping", "deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    delta_log.commit(path, {"protocol": protocol})
    for add in delta_log.actions(path, "add")[:1]:
        delta_log.delete_rows(path, add["path"], range(0, 50, 5), inline=False)
    ids = {"delta.columnMapping.id": 90, "delta.columnMapping.physicalName": "col-90"}

    def change(fields: list[Any], partitions: list[str]) -> None:
        next(field for field in fields if field["name"] == "text")["name"] = "Some words"
        fields.append({"name": "new", "type": "double", "nullable": True, "metadata": ids})

    delta_log.change_schema(path, change)
    return path


WHERE: list[tuple[str | None, str | None]] = [
    (None, None),
    ("ID IN (5, 6, 150)", "id IN (5, 6, 150)"),
    ("`some words` = 'é 33' OR nested.x = 120", "\"Some words\" = 'é 33' OR id = 120"),
    ("day = DATE'2026-03-02' AND id < 60", "day = DATE '2026-03-02' AND id < 60"),
    ("at = TIMESTAMP'2026-03-01 15:00:00'", "id = 2"),  # in the session's time zone
    ("new IS NULL AND `Some words` IS NULL", '"Some words" IS NULL'),
    ("new = 1.0", "false"),
]


@pytest.mark.parametrize(("where", "condition"), WHERE)
def test_rows_are_those_of_deltalake(
    spark: SparkSession, table: Path, where: str | None, condition: str | None
) -> None:
    with conf(spark, {"spark.sql.session.timeZone": "Europe/Zurich"}):
        frame = pb.read_delta(spark, table, where=where)
        assert frame.columns == ["id", "day", "Some words", "at", "nested", "new"]
        ours = frame.toArrow()
    theirs = pa.table(DeltaTable(table).scan(predicate=condition)).select(ours.column_names)
    ours = ours.set_column(3, "at", ours["at"].cast(pa.timestamp("us", "UTC")))
    by_id = operator.itemgetter("id")
    assert sorted(ours.to_pylist(), key=by_id) == sorted(theirs.to_pylist(), key=by_id)


def test_a_frame_stays_at_its_version(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows(0), writer_properties=GROUPS)
    frame = pb.read_delta(spark, tmp_path / "t", columns=["day", "id"])
    write_deltalake(tmp_path / "t", rows(100), mode="append")
    newest = pb.read_delta(spark, DeltaTable(tmp_path / "t"))
    assert (frame.columns, frame.count(), newest.count()) == (["day", "id"], 100, 200)
    assert pb.read_delta(spark, tmp_path / "t", 0).where("id = 150 OR id = 50").select("id").collect() == [(50,)]


def test_only_row_groups_that_might_match_are_read(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows(0), writer_properties=GROUPS)
    (file,) = (tmp_path / "t").glob("*.parquet")
    first = pq.ParquetFile(file).metadata.row_group(0)
    with file.open("r+b") as damaged:  # the pages of the first row group
        damaged.seek(4)
        damaged.write(b"\xff" * sum(first.column(i).total_compressed_size for i in range(first.num_columns)))
    assert bp.Dataset.from_delta(tmp_path / "t").plan("id = 77").kept == 1
    assert pb.read_delta(spark, tmp_path / "t", where="id = 77").select("id").collect() == [(77,)]
    with pytest.raises(Exception, match="page header"):
        pb.read_delta(spark, tmp_path / "t").select("id").collect()


def test_errors_are_named(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows(0))
    with pytest.raises(Exception, match="the table has no column 'ids'; did you mean 'id'"):
        pb.read_delta(spark, tmp_path / "t", columns=["ids"])
    with pytest.raises(bp.PlanError, match="cannot use 'id < n' in where"):
        pb.read_delta(spark, tmp_path / "t", where="id < n")


def test_days_of_the_julian_calendar_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark shows other days than the files hold."""
    days = "VALUES (1, DATE '1500-01-01'), (2, DATE '2026-01-01') AS t(id, d)"
    legacy = {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}
    with conf(spark, {**legacy, "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        spark.sql(f"SELECT id, d, CAST(d AS TIMESTAMP) AS at FROM {days}").coalesce(1).write.parquet(
            str(tmp_path / "t")
        )
    convert_to_deltalake(tmp_path / "t")
    with pytest.raises(PythonException, match=r"column (d|at) was written in the calendar of Spark 2"):
        pb.read_delta(spark, tmp_path / "t", columns=["d", "at"]).collect()
    recent = spark.read.parquet(str(tmp_path / "t")).where("id = 2")
    assert pb.read_delta(spark, tmp_path / "t", where="id = 2").collect() == recent.collect()
