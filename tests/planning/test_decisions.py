"""``ScanPlan.decisions``: what decided about each row group, also about those that are skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.decisions import WHOLE_FILE
from bloomparquet.query.verdict import DECISIONS, Decision
from tests.support.files import write_groups

EVEN = list(range(0, 100, 2))


@pytest.fixture
def days(tmp_path: Path) -> str:
    """In each of two partitions, a row group of even numbers, one of nulls, and one of larger numbers."""
    groups: list[dict[str, list[Any]]] = [
        {"a": EVEN, "b": EVEN}, {"a": [None] * 50, "b": EVEN}, {"a": [n + 1000 for n in EVEN], "b": EVEN},
    ]  # fmt: skip
    tables = [pa.table({name: pa.array(values, pa.int64()) for name, values in group.items()}) for group in groups]
    for day in (1, 2):
        write_groups(tmp_path / "t" / f"day={day}" / "x.parquet", tables, ["a"])
    return str(tmp_path / "t")


def named(plan: bp.ScanPlan) -> list[str]:
    """The decisions, which must agree with the row groups and counts of the plan."""
    decisions = plan.decisions()
    names = [DECISIONS[code] for code in decisions.decision.tolist()]
    assert [plan.dataset.files[i].path for i in decisions.file.tolist()] == [group.path for group in plan.row_groups]
    of_group = [WHOLE_FILE if group.index is None else group.index for group in plan.row_groups]
    assert decisions.row_group.tolist() == of_group
    assert [name is Decision.READ for name in names] == [group.kept for group in plan.row_groups]
    by_filter = [name in (Decision.BLOOM, Decision.INDEX) for name in names]
    assert by_filter == [group.reason == "bloom" for group in plan.row_groups]
    assert decisions.to_arrow().column("decision").to_pylist() == [name.value for name in names]
    assert sum(decisions.counts().values()) == plan.total
    return [name.value for name in names]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, ["read"] * 6),
        ("a = 31", ["bloom", "nulls", "min/max"] * 2),
        ("a = 31 AND day = 2", ["bloom", "nulls", "min/max", "partition"]),
        ("a = 31 OR day = 2", ["bloom", "nulls", "min/max", "read", "read", "read"]),
        ("a = 500 OR (day = 2 AND b = 300)", ["min/max", "nulls", *["min/max"] * 4]),
        ("b = 300 OR (day = 2 AND FALSE)", ["min/max"] * 6),
        ("a IS NULL", ["nulls", "read", "nulls"] * 2),
        ("FALSE AND a = 1", ["partition", "partition"]),
    ],
)
def test_each_kind_of_evidence_is_named(days: str, where: str | None, expected: list[str]) -> None:
    assert named(bp.plan(days, where)) == expected


def test_filters_of_an_index_are_told_from_those_of_files(days: str) -> None:
    bp.build_index(days)
    assert named(bp.plan(days, "a = 31")) == ["index", "nulls", "min/max"] * 2
    write_groups(f"{days}/day=3/x.parquet", [{"a": EVEN, "b": EVEN}], ["a"])
    assert named(bp.plan(days, "a = 31")) == ["index", "nulls", "min/max"] * 2 + ["bloom"]
