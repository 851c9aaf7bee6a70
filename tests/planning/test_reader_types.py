"""Readers that show integers as a narrower type show their low bits: such a file is never judged by the value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.core import plan_with

NAMES = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}


@pytest.mark.parametrize(
    ("stored", "bits", "judged"),
    [
        (pa.int8(), 8, True), (pa.int8(), 16, True), (pa.int16(), 8, False), (pa.int32(), 8, False),
        (pa.int32(), 16, False), (pa.int32(), 32, True), (pa.int32(), 64, True), (pa.int64(), 32, False),
        (pa.int64(), 64, True), (pa.uint8(), 8, False), (pa.uint8(), 16, True), (pa.uint16(), 32, True),
        (pa.uint32(), 32, False), (pa.uint32(), 64, True), (pa.uint64(), 64, False),
    ],
    ids=str,
)  # fmt: skip
def test_file_is_judged_if_the_reader_type_holds_all_values(
    tmp_path: Path, stored: pa.DataType, bits: int, judged: bool
) -> None:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": pa.array([3, 5], stored)}), path, bloom_filter_options={"n": {"ndv": 2}})
    for where in ("n = 4", "n > 5", "n IN (4, 6)"):
        assert plan_with(path, where, reader_types={("n",): NAMES[bits]}).kept == (0 if judged else 1)
    assert plan_with(path, "n = 3", reader_types={("n",): NAMES[bits]}).kept == 1
