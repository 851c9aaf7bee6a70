"""Footers with wrong optional offsets lose no row; footers beyond the planner's limits are read whole by Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from bloomparquet.parquet.metadata.file_tail import MAGIC, TRAILER
from bloomparquet.parquet.thrift.definitions import FileMetaData, RowGroup
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Readers, run
from tests.support.spark import conf, rows

GROUPS, ROWS = 4, 100


def set_dictionaries(group: RowGroup, offset: int) -> None:
    for chunk in group.columns:
        assert chunk.meta_data is not None
        chunk.meta_data.dictionary_page_offset = offset


ODD: dict[str, Callable[[int, RowGroup], None]] = {
    "dictionaries at byte 0, where there are none": lambda i, group: set_dictionaries(group, 0),
    "one row group with dictionaries at byte 0": lambda i, group: set_dictionaries(group, 0) if i == 2 else None,
    "dictionaries after the data": lambda i, group: set_dictionaries(group, 1 << 40),
    "no sizes": lambda i, group: setattr(group, "total_compressed_size", None),
    "sizes of 0": lambda i, group: setattr(group, "total_compressed_size", 0),
    "sizes of 1": lambda i, group: setattr(group, "total_compressed_size", 1),
    "other offsets": lambda i, group: setattr(group, "file_offset", 1 << 20),
    "no offsets": lambda i, group: setattr(group, "file_offset", None),
}
"""How the metadata of each row group is edited."""


def edit_row_groups(path: Path, change: Callable[[int, RowGroup], None]) -> None:
    """Rewrite the footer of a file, after `change` of each row group."""
    data = path.read_bytes()
    size = int.from_bytes(data[-TRAILER:-4], "little") + TRAILER
    footer, _ = read_struct(data[-size:-TRAILER], FileMetaData)
    for i, group in enumerate(footer.row_groups):
        change(i, group)
    raw = write_struct(footer)
    path.write_bytes(data[:-size] + raw + len(raw).to_bytes(4, "little") + MAGIC)


def write(path: Path, file: int, change: Callable[[int, RowGroup], None]) -> None:
    ids = range(1_000 * file, 1_000 * file + GROUPS * ROWS)
    pq.write_table(
        pa.table({"id": ids, "text": [f"t{i}" for i in ids]}), path, row_group_size=ROWS, use_dictionary=False
    )
    edit_row_groups(path, change)


def test_row_groups_of_odd_footers_are_read_one_by_one(readers: Readers, tmp_path: Path) -> None:
    for i, change in enumerate(ODD.values()):
        write(tmp_path / f"{i}.parquet", i, change)
    expected = [[(1_000 * file + ROWS * group + 50,) for file in range(len(ODD))] for group in range(GROUPS)]
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        assert len(rows(readers.oracle(tmp_path))) == GROUPS * ROWS * len(ODD)
        wheres = [f"id IN ({', '.join(str(i) for (i,) in ids)})" for ids in expected]
        frame = reduce(DataFrame.unionAll, [readers.jar(tmp_path).where(where).select("id") for where in wheres])
        returned = {i for (i,) in rows(frame)}
        assert [i for ids in expected for (i,) in ids if i not in returned] == []
    for plan in last_plan(frame):
        assert plan.skipped.total() == (GROUPS - 1) * len(ODD)


IDS = [i * 7919 % 1009 for i in range(1009)]


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """Two files with equal rows. The second has far more key-value metadata than any real file."""
    pairs = {f"key {i}": "x" for i in range(60_000)}
    files.write(tmp_path / "t" / "a.parquet", {"id": IDS}, ["id"], rows_per_group=100)
    table = pa.table({"id": IDS}).replace_schema_metadata(pairs)
    files.write(tmp_path / "t" / "b.parquet", table, ["id"], rows_per_group=100)
    return tmp_path / "t"


def test_a_huge_footer_is_read_whole_and_others_pruned(readers: Readers, huge: Path) -> None:
    ran = run(readers.jar(huge).where("id = 7"))
    assert ran.rows == ["(7,)", "(7,)"]
    assert (ran.plan.planned, ran.plan.total, ran.plan.kept, ran.plan.whole_files) == (True, 11, 1, 1)
