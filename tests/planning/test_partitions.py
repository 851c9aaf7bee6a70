"""Partition values: typed as in Spark's PartitioningUtils, and used like columns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.planning.partitions import infer_type, parse_directories, to_array
from tests.support.core import rows_of
from tests.support.files import hive


@pytest.mark.parametrize(
    ("directories", "values"),
    [
        (["a=1", "b=x"], (("a", "1"), ("b", "x"))),
        (["a=a%20b"], (("a", "a b"),)),
        (["a=c%3Dd"], (("a", "c=d"),)),
        (["a=%2F%25"], (("a", "/%"),)),
        (["a=%C3%A9%zz"], (("a", "\u00c3\u00a9%zz"),)),
        (["na%20me=1"], (("na me", "1"),)),
        (["a=__HIVE_DEFAULT_PARTITION__"], (("a", None),)),
        (["=1", "a="], ()),
        (["a=測"], (("a", "測"),)),
    ],
    ids=str,
)
def test_directory_names_are_unescaped(directories: list[str], values: Any) -> None:
    assert parse_directories(directories) == values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-5", "007", "+3"], pa.int32()),
        (["1", "2147483648"], pa.int64()),
        (["1", "1.5"], pa.float64()),
        (["1", "1e99999999999999999999"], pa.float64()),
        (["2026-01-01"], pa.date32()),
        (["2026-13-01"], pa.string()),
        (["1", "a"], pa.string()),
        ([None], pa.string()),
        (["2026-01-01 10:11:12"], pa.timestamp("us", "UTC")),
        (["2026-01-01 10:11:12", "2026-01-01"], pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_type_is_inferred_from_all_values(values: list[str | None], kind: pa.DataType) -> None:
    assert infer_type(values) == kind


def test_values_are_converted_to_their_type() -> None:
    assert to_array(["007", "-1", None], pa.int32(), "UTC").to_pylist() == [7, -1, None]
    assert to_array(["1.5"], pa.float64(), "UTC").to_pylist() == [1.5]
    assert to_array(["2026-01-02"], pa.date32(), "UTC").to_pylist() == [dt.date(2026, 1, 2)]


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 12), ("Europe/Berlin", 10), ("+05:00", 7), ("UTC-3", 15)])
def test_partition_timestamps_are_local_times(zone: str, hour: int) -> None:
    values = to_array(["2026-07-01 12:00:00"], pa.timestamp("us", "UTC"), zone).to_pylist()
    assert values == [dt.datetime(2026, 7, 1, hour, tzinfo=dt.timezone.utc)]


def test_value_of_the_wrong_type_is_an_error() -> None:
    with pytest.raises(PlanError, match="int32"):
        to_array(["x"], pa.int32(), "UTC")


@pytest.fixture
def by_day(tmp_path: Path) -> str:
    return hive(
        tmp_path,
        {
            "day=2026-01-01/n=1": {"id": [1]},
            "day=2026-01-02/n=2": {"id": [2]},
            "day=__HIVE_DEFAULT_PARTITION__/n=3": {"id": [3]},
            "day=2026-01-04/n=__HIVE_DEFAULT_PARTITION__": {"id": [4]},
        },
    )


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("day = '2026-01-02'", [2]),
        ("day > '2026-01-01'", [2, 4]),
        ("day IS NULL", [3]),
        ("NOT day = '2026-01-01'", [2, 4]),
        ("n IN (1, 3)", [1, 3]),
        ("n <=> NULL", [4]),
        ("NOT n <=> 1", [2, 3, 4]),
        ("n < 2.5", [1, 2]),
        ("day = '2026-01-01' OR id = 3", [1, 3]),
        ("n NOT IN (1, NULL)", []),
    ],
)
def test_partition_columns_behave_as_columns(where: str, ids: list[int], by_day: str) -> None:
    assert sorted(rows_of(bp.read_table(by_day, where), "id")) == ids


def test_files_excluded_by_partition_are_not_opened(by_day: str) -> None:
    Path(by_day, "day=2026-01-01", "n=1", "part-0.parquet").write_bytes(b"not a Parquet file at all")
    plan = bp.plan(by_day, "day = '2026-01-02'")
    assert plan.skipped == {"partition": 3}
    assert (plan.total, plan.kept, plan.requests) == (4, 1, 1)
    groups = list(plan.row_groups)
    assert [group.index for group in groups] == [0, None, None, None]
    assert {group.reason for group in groups[1:]} == {"partition"}
    with pytest.raises(bp.FormatError, match="day=2026-01-01"):
        bp.plan(by_day, "id = 2")


def test_partition_column_wins_over_a_file_column(tmp_path: Path) -> None:
    root = hive(tmp_path, {"p=1": {"p": [7], "id": [1]}, "p=2": {"p": [1], "id": [2]}}, ["p"])
    assert rows_of(bp.read_table(root, "p = 1"), "id") == [1]
    assert bp.plan(root, "p = 7").kept == 0
