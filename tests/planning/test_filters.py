"""Bloom filters: as little as possible is read (counted at `preadv`), and unusable ones are noticed."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from tests.support.core import empty_filters, graft_filters
from tests.support.files import write
from tests.support.layout import insert_filters

EVEN = list(range(0, 100, 2))


@pytest.mark.parametrize(
    "where",
    [None, "y = 4", "x > 3", "x IS NOT NULL", "x <> 4", "x NOT IN (4, 6)", "NOT (x IN (2, 4))", "x < 9 OR y = 3"],
)
def test_predicates_without_equality_read_no_filter(where: str | None, tmp_path: Path) -> None:
    path = graft_filters(write(tmp_path / "x.parquet", {"x": EVEN, "y": EVEN}), 2**20)
    plan = bp.plan(path, where)
    assert (plan.kept, plan.requests, plan.bloom_bytes_read) == (1, 1, 0)


@pytest.mark.parametrize("size", [64, 4096, 2**20])
def test_empty_filter_over_values_is_unusable(size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Small filters come with the first read; large ones are read to the end before they count as empty."""
    path = write(tmp_path / "x.parquet", {"x": list(range(0, 200, 2))}, rows_per_group=50)
    empty_filters(graft_filters(path, size))
    with caplog.at_level(logging.WARNING, "bloomparquet"):
        plan = bp.plan(path, "x IN (31, 131)")
    assert plan.kept == plan.total == 2
    assert len(plan.errors) == 2
    assert "no bit" in str(plan.errors[0])
    assert path in str(plan.errors[0])
    assert len(caplog.records) == 1, "one warning per file"
    assert len(bp.plan(path, "x IN (31, 131)").errors) == 2, "warm plans say so too"
    with pytest.raises(bp.FormatError, match="no bit"):
        bp.plan(path, "x = 31", on_filter_error="fail")
    assert bp.read_table(path, "x = 30").num_rows == 1


@pytest.mark.parametrize("where", ["between", "before", "behind"])
def test_filters_may_lie_anywhere_between_the_data(where: str, tmp_path: Path) -> None:
    path = insert_filters(write(tmp_path / "x.parquet", {"x": EVEN * 2}, rows_per_group=50), 256, where=where)
    assert bp.plan(path, "x = 31").skipped == {"bloom": 2}
    assert bp.plan(path, "x = 30").kept == 2


@pytest.mark.parametrize("names", ["ab", "ba"], ids=["first", "last"])
def test_row_groups_without_filters_are_counted(names: str, tmp_path: Path) -> None:
    """Only one of the files has a filter on `x`, and their schemas differ. Statistics skip the file without `z`."""
    write(tmp_path / f"{names[0]}.parquet", {"x": EVEN, "y": EVEN, "z": EVEN}, ["x", "y"])
    write(tmp_path / f"{names[1]}.parquet", {"y": EVEN, "x": EVEN}, ["y"])
    for where, expected in (
        ("x = 31", {"x": 1}),
        ("x = 31 OR y = 31", {"x": 1}),
        ("y = 31", {}),
        ("z = 31", {"z": 1}),
        ("z = 31 OR x = 31 OR z IN (33, 35)", {"z": 1, "x": 1}),
        ("z > 31", {}),
        ("z = 500", {}),
    ):
        assert bp.plan(tmp_path, where).columns_without_filters() == expected, where


def test_stripes_without_filters_are_counted(tmp_path: Path) -> None:
    for name, bloom in (("1", [1]), ("2", []), ("3", [])):
        first = 0 if name != "3" else 500  # statistics skip the third file
        table = pa.table({"x": list(range(first, first + 100, 2))})
        orc.write_table(table, str(tmp_path / f"{name}.orc"), bloom_filter_columns=bloom)
    plan = bp.plan(tmp_path, "x = 31")
    assert (plan.kept, plan.columns_without_filters()) == (1, {"x": 1})
