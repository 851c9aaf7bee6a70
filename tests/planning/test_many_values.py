"""Lookups of many values ask a sample of the filters first. If all of these say maybe, no other filter is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.evidence.filter_store import FilterStore
from bloomparquet.query.why_not import WhyNot
from tests.support.core import kept_indexes
from tests.support.files import write

GROUPS, ROWS = 200, 50
SPREAD = np.random.default_rng(7).permutation(GROUPS * ROWS)


def write_keys(path: Path, column: np.ndarray[Any, Any]) -> str:
    values = pa.array([f"key {number}" for number in column])
    return write(
        path, {"c": values}, {"c": {"ndv": 20 * ROWS, "fpp": 1e-9}}, rows_per_group=ROWS, write_statistics=False
    )


def keys(numbers: range) -> bp.In:
    return bp.In("c", [f"key {number}" for number in numbers])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    numbers: list[int] = []
    check = FilterStore.check

    def counted(self: FilterStore, question: Any) -> Any:
        numbers.append(len(question.chunks))
        return check(self, question)

    monkeypatch.setattr(FilterStore, "check", counted)
    return numbers


def test_keys_that_lie_in_every_row_group_ask_a_sample(tmp_path: Path, asked: list[int]) -> None:
    path = write_keys(tmp_path / "x.parquet", SPREAD)
    plan = bp.plan(path, keys(range(GROUPS * ROWS * 6 // 10)))
    assert (plan.kept, plan.total) == (GROUPS, GROUPS)
    assert asked == [64]
    reasons = {each.reason: each.count for each in plan.explain().reasons()}
    assert reasons[WhyNot.SAMPLE_SAYS_MAYBE] == GROUPS - 64


def test_keys_that_lie_in_most_row_groups_ask_all(tmp_path: Path, asked: list[int]) -> None:
    """Half of the keys are spread over the first 180 row groups; the last 20 have none."""
    spread = np.concatenate([SPREAD[SPREAD < 9000], SPREAD[SPREAD >= 9000]])
    path = write_keys(tmp_path / "x.parquet", spread)
    plan = bp.plan(path, keys(range(6000)))
    assert kept_indexes(plan) == set(range(180))
    assert asked == [64, GROUPS - 64]


def test_the_value_in_the_last_row_group_is_found(tmp_path: Path) -> None:
    """No filter of the sample says maybe: the answer of every filter counts."""
    path = write_keys(tmp_path / "x.parquet", np.arange(GROUPS * ROWS))
    wanted = keys(range(GROUPS * ROWS - 1, GROUPS * ROWS + 8000))
    assert kept_indexes(bp.plan(path, wanted)) == {GROUPS - 1}
    assert bp.read_table(path, wanted).num_rows == 1
