"""Filters that bloomparquet never uses are made if the column is named, with a warning."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.advice import by_column
from tests.support.files import write

IDS = [i * 7919 % 1009 for i in range(1009)]
LIST = {"id": IDS, "l": [[i] for i in IDS]}
NESTED = "l.list.element.list.element"
LISTS = {"id": IDS, "l": [[[i]] for i in IDS]}
WARNING = rf"the Bloom filters of column {NESTED} are never used by bloomparquet: the column is inside a list or map of"


def unused(outcome: bp.FileOutcome) -> dict[str, bool]:
    return {column.column: column.unused is not None for column in outcome.columns}


def test_add_warns_of_filters_on_lists_of_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", LISTS)
    with pytest.warns(UserWarning, match=WARNING):
        (outcome,) = bp.add_filters(path, bloom=["id", NESTED])
    assert unused(outcome) == {"id": False, NESTED: True}
    told = by_column(bp.advise(path))[NESTED]
    assert outcome.columns[1].unused == told["reason"].partition(";")[0]
    with pytest.warns(UserWarning, match=WARNING):
        bp.write_table(pa.table(LISTS), tmp_path / "u.parquet", bloom=["id", NESTED])


def test_warning_for_filters_on_padded_text(tmp_path: Path) -> None:
    """Spark pads CHAR(n) on reading, so equal values may have different bytes in the file."""
    schema = '{"fields":[{"name":"c","metadata":{"__CHAR_VARCHAR_TYPE_STRING":"char(5)"}}]}'
    table = pa.table({"c": [f"c{i}" for i in IDS]})
    table = table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": schema})
    path = write(tmp_path / "t.parquet", table)
    with pytest.warns(UserWarning, match="column c are never used.*equal values need not be equal bytes"):
        bp.add_filters(path, bloom="c")
    assert bp.plan(path, "c = 'nothing'").skipped["bloom"] == 0


def test_warning_for_filters_on_int96(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    moments = [dt.datetime(2026, 1, 1) + dt.timedelta(seconds=i) for i in IDS]
    pq.write_table(pa.table({"t": moments}), path, use_deprecated_int96_timestamps=True)
    with pytest.warns(UserWarning, match="column t are never used.*is INT96 by a writer other than Spark"):
        bp.add_filters(path, bloom="t")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([True, False], "two values, for which min/max is better"),
        (pa.nulls(2, pa.bool_()), "two values, for which min/max is better"),
        (pa.nulls(2), "has the type null, because all of its values are null; cast it to the type"),
    ],
)
def test_column_that_no_filter_can_serve_is_an_error(values: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"b": values})
    with pytest.raises(bp.UnsupportedError, match=message):
        bp.add_filters(path, bloom="b")
    with pytest.raises(bp.UnsupportedError, match=message):
        bp.write_table(pa.table({"b": values}), tmp_path / "u.parquet", bloom="b")


def test_useful_filters_are_added_without_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {**LIST, "f": [i / 2 for i in IDS], "s": [str(i) for i in IDS]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (outcome,) = bp.add_filters(path, bloom=["id", "l.list.element", "f", "s"])
        bp.shrink_filters(path, fpp=0.1)
    assert unused(outcome) == {"id": False, "l.list.element": False, "f": False, "s": False}


def test_warning_comes_once_and_is_in_each_outcome(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.parquet", LISTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        outcomes = bp.add_filters(tmp_path, bloom=NESTED)
    assert [unused(outcome) for outcome in outcomes] == [{NESTED: True}] * 3
    assert len(caught) == 1
