"""INTEGER columns of 8 and 16 bits whose file holds greater numbers: readers show the low bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.core import Field, edit_footer

_CONVERTED_TYPE = 6  # fields of SchemaElement
UINT_8, UINT_16, INT_8, INT_16 = 11, 12, 15, 16
CASES = [
    (INT_8, 300, 44),
    (INT_8, -129, 127),
    (INT_16, 70_000, 4464),
    (UINT_8, -56, 200),
    (UINT_8, 256, 0),
    (UINT_16, -1, 65_535),
]


def write(path: Path, converted_type: int, values: list[int | None], *, rows: int = 1, **options: Any) -> str:
    """An INT32 column ``x`` with filters, which is annotated after it was written; `rows` in each row group."""
    table = pa.table({"x": pa.array(values, pa.int32())})
    filters = {"x": {"ndv": 3, "fpp": 0.001}}
    pq.write_table(table, path, row_group_size=rows, store_schema=False, bloom_filter_options=filters, **options)

    def annotate(tree: dict[int, Field]) -> None:
        element = tree[2].value.values[1]
        element[_CONVERTED_TYPE] = Field(5, converted_type)
        tree[2].value.values[1] = dict(sorted(element.items()))

    return edit_footer(str(path), annotate)


@pytest.mark.parametrize(("converted_type", "stored", "shown"), CASES)
def test_what_a_reader_shows_is_found(tmp_path: Path, converted_type: int, stored: int, shown: int) -> None:
    path = write(tmp_path / "x.parquet", converted_type, [1, stored, None])
    assert pq.read_table(path).column("x").to_pylist() == [1, shown, None]
    for where in (f"x = {shown}", f"x IN ({shown}, 99)", f"x >= {shown} AND x <= {shown}", f"NOT x <> {shown}"):
        assert bp.read_table(path, where).column("x").to_pylist() == [shown], where
    assert bp.read_table(path, "x IS NULL").num_rows == 1


@pytest.mark.parametrize(("converted_type", "stored"), [(INT_8, 300), (INT_8, -129), (INT_16, 70_000)])
def test_a_reader_of_int_may_show_what_is_stored(tmp_path: Path, converted_type: int, stored: int) -> None:
    path = write(tmp_path / "x.parquet", converted_type, [1, stored], write_statistics=False)
    assert [group.kept for group in bp.plan(path, f"x = {stored}").row_groups] == [False, True]


def test_an_index_knows_no_more(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", INT_8, [1, 300])
    bp.build_index(tmp_path)
    assert bp.read_table(tmp_path, "x = 44").num_rows == 1
    assert bp.plan(tmp_path, "x = 5").kept == 1  # the row group with 300


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("converted_type", [UINT_8, UINT_16, INT_8, INT_16])
def test_filters_skip_unless_min_max_deny_it(tmp_path: Path, converted_type: int, statistics: bool) -> None:
    """All row groups have the same min and max, so only filters can skip."""
    groups = [[0, 100, middle] for middle in range(1, 21)]
    values: list[int | None] = [value for group in groups for value in group]
    path = write(tmp_path / "x.parquet", converted_type, values, rows=3, write_statistics=statistics)
    for middle in (1, 20):
        plan = bp.plan(path, f"x = {middle}")
        assert [group.index for group in plan.row_groups if group.kept][:1] == [middle - 1]
        assert plan.skipped["bloom"] >= 15, plan
