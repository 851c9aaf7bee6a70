"""Row groups are read where parquet-java takes them to be, whatever footers say that nobody needs for decoding."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from bloomparquet.parquet.metadata.file_tail import MAGIC, TRAILER
from bloomparquet.parquet.thrift import struct as thrift
from bloomparquet.parquet.thrift.definitions import FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from pyspark_bloomparquet import last_plan
from tests.support.scenarios import Readers
from tests.support.spark import conf, rows

GROUPS, ROWS = 4, 100


def dictionaries_at(group: ThriftStruct, offset: int) -> None:
    for chunk in group[1]:
        chunk[3].put(11, thrift.I64, offset)


ODD: dict[str, Callable[[int, ThriftStruct], None]] = {
    "dictionaries at byte 0, where there are none": lambda i, group: dictionaries_at(group, 0),
    "the same in one row group": lambda i, group: dictionaries_at(group, 0) if i == 2 else None,
    "dictionaries behind the data": lambda i, group: dictionaries_at(group, 1 << 40),
    "no sizes": lambda i, group: group.drop(6),
    "sizes of 0": lambda i, group: group.put(6, thrift.I64, 0),
    "sizes of 1": lambda i, group: group.put(6, thrift.I64, 1),
    "other places": lambda i, group: group.put(5, thrift.I64, 1 << 20),
    "no places": lambda i, group: group.drop(5),
}
"""What is done to the metadata of each row group."""


def write(path: Path, file: int, change: Callable[[int, ThriftStruct], None]) -> None:
    ids = range(1_000 * file, 1_000 * file + GROUPS * ROWS)
    pq.write_table(
        pa.table({"id": ids, "text": [f"t{i}" for i in ids]}), path, row_group_size=ROWS, use_dictionary=False
    )
    data = path.read_bytes()
    size = int.from_bytes(data[-TRAILER:-4], "little") + TRAILER
    footer, _ = read_struct(data[-size:-TRAILER], FileMetaData)
    for i, group in enumerate(footer[4]):
        change(i, group)
    raw = write_struct(footer)
    path.write_bytes(data[:-size] + raw + len(raw).to_bytes(4, "little") + MAGIC)


def test_row_groups_of_odd_footers_are_read_one_by_one(readers: Readers, tmp_path: Path) -> None:
    for i, change in enumerate(ODD.values()):
        write(tmp_path / f"{i}.parquet", i, change)
    expected = [[(1_000 * file + ROWS * group + 50,) for file in range(len(ODD))] for group in range(GROUPS)]
    interpreted = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false", **interpreted}):
        assert len(rows(readers.oracle(tmp_path))) == GROUPS * ROWS * len(ODD)
        wheres = [f"id IN ({', '.join(str(i) for (i,) in ids)})" for ids in expected]
        frame = reduce(DataFrame.unionAll, [readers.jar(tmp_path).where(where).select("id") for where in wheres])
        found = {i for (i,) in rows(frame)}
        assert [i for ids in expected for (i,) in ids if i not in found] == []
    for plan in last_plan(frame):
        assert plan.skipped.total() == (GROUPS - 1) * len(ODD)
