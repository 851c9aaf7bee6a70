"""The option ``where`` without the jar: times in lists need a zone, as in other columns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bloomparquet as bp
from pyspark_bloomparquet.read.reader import _require_zone
from tests.support.files import write

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "x.parquet", {"l": [[NOON]], "s": [["2026-01-31 12:00:00"]]})


def require_zone(path: str, where: str) -> None:
    plan = bp.plan(path, where)
    assert plan.where is not None
    listing: Any = SimpleNamespace(partition_types={})
    _require_zone(plan.where, plan, listing)


@pytest.mark.parametrize("where", ["array_contains(l, {})", "NOT array_contains(l, {})", "l[0] = {}"])
def test_a_time_in_a_list_needs_a_zone(where: str, path: str) -> None:
    with pytest.raises(bp.OptionError, match="compares the TIMESTAMP column l with a time without a zone"):
        require_zone(path, where.format("TIMESTAMP '2026-01-31 12:00:00'"))
    require_zone(path, where.format("TIMESTAMP '2026-01-31 12:00:00Z'"))


def test_text_that_looks_like_a_time_needs_no_zone(path: str) -> None:
    require_zone(path, "array_contains(s, '2026-01-31 12:00:00')")
