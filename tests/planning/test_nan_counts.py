"""NaN counts, and bounds in the total order of IEEE 754, of floating-point columns."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support import nan_counts
from tests.support.core import kept_indexes, rows_of
from tests.support.disk_cache import restart
from tests.support.nan_counts import IEEE_754_TOTAL_ORDER, TYPE_ORDER

NAN, INF = math.nan, math.inf
GROUPS: list[list[float | None]] = [
    [1.0, 2.0, 3.0],
    [1.0, NAN, 2.0],
    [NAN, NAN, NAN],
    [None, 7.0, 7.0],
    [7.0, 7.0, 7.0],
    [-0.0, 0.0, None],
    [0.0, 0.0, 0.0],
    [None, None, None],
    [-INF, INF, 5.0],
    [NAN, 7.0, None],
    [7.0, 7.0, NAN],
]
VALUES = [value for group in GROUPS for value in group]
LITERALS = [0.0, -0.0, 1.0, 2.5, 3.0, 7.0, 8.0, INF, -INF, NAN]
COMPARISONS: list[tuple[type[bp.Predicate], Callable[[Any, Any], bool]]] = [
    (bp.Eq, operator.eq), (bp.NotEq, operator.ne), (bp.Lt, operator.lt), (bp.LtEq, operator.le),
    (bp.Gt, operator.gt), (bp.GtEq, operator.ge),
]  # fmt: skip
COUNTS: list[list[int | None]] = [[None] * len(GROUPS), [-1] * len(GROUPS), [1, None, 3] * 3 + [1, -1]]
ORDERS, UNKNOWN_ORDER = [TYPE_ORDER, IEEE_754_TOTAL_ORDER], 9
KINDS = [pa.float64(), pa.float32(), pa.float16()]


def in_order(value: float) -> tuple[bool, float]:
    """As Spark compares: NaN equals itself and is greater than every number."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def matching(compare: Callable[[Any, Any], bool], literal: float) -> list[int]:
    return [i for i, x in enumerate(VALUES) if x is not None and compare(in_order(x), in_order(literal))]


@pytest.mark.parametrize(
    ("kind", "order", "counts"),
    [
        *product(KINDS, ORDERS, [None]),
        *product(KINDS[:1], ORDERS, COUNTS),
        (KINDS[0], UNKNOWN_ORDER, None),
        (KINDS[0], UNKNOWN_ORDER, COUNTS[2]),
    ],
)
def test_no_matching_row_is_lost(
    tmp_path: Path, kind: pa.DataType, order: int, counts: list[int | None] | None
) -> None:
    """Counts are right, absent, damaged, or too great."""
    path = nan_counts.write(tmp_path / "x.parquet", GROUPS, kind, order, counts)
    for leaf, compare in COMPARISONS:
        for literal in LITERALS:
            expected = matching(compare, literal)
            for where, rows in (
                (leaf("x", literal), expected),  # type: ignore[call-arg]
                (bp.And(bp.IsNotNull("x"), bp.Not(leaf("x", literal))), _others(expected)),  # type: ignore[call-arg]
            ):
                assert rows_of(bp.read_table(path, where), "row") == rows, where
    for values in ((1.0, NAN), (NAN,), (7.0, 8.0)):
        expected = sorted({row for value in values for row in matching(operator.eq, value)})
        assert rows_of(bp.read_table(path, bp.In("x", values)), "row") == expected
        assert rows_of(bp.read_table(path, bp.NotIn("x", values)), "row") == _others(expected)


def _others(rows: list[int]) -> list[int]:
    return [i for i, value in enumerate(VALUES) if value is not None and i not in rows]


SKIPPING: list[tuple[str, set[int]]] = [
    ("x > 3.0D", {1, 2, 3, 4, 8, 9, 10}),
    ("x >= 3.0D", {0, 1, 2, 3, 4, 8, 9, 10}),
    ("x > 7.0D", {1, 2, 8, 9, 10}),
    ("x <> 7.0D", {0, 1, 2, 5, 6, 8, 9, 10}),
    ("x NOT IN (7.0D, 9.0D)", {0, 1, 2, 5, 6, 8, 9, 10}),
    ("x <> 0.0D", {0, 1, 2, 3, 4, 8, 9, 10}),
    ("x = 7.0D", {2, 3, 4, 8, 9, 10}),
    ("x < 1.0D", {2, 5, 6, 8}),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
def test_row_groups_without_nan_are_skipped(tmp_path: Path, kind: pa.DataType, order: int) -> None:
    path = nan_counts.write(tmp_path / "x.parquet", GROUPS, kind, order)
    for where, expected in SKIPPING:
        assert kept_indexes(bp.plan(path, where)) == expected, where
    for values in ((NAN,), (NAN, NAN)):
        assert kept_indexes(bp.plan(path, bp.In("x", values))) == {1, 2, 9, 10}


def test_only_floating_point_numbers_have_the_total_order(tmp_path: Path) -> None:
    """A damaged footer: nobody knows what the order of such a column is."""
    path = nan_counts.write(tmp_path / "x.parquet", [[1.0, 2.0], [5.0, 6.0]], pa.int64(), IEEE_754_TOTAL_ORDER, [0, 0])
    assert bp.plan(path, "x > 3").kept == 2


@pytest.mark.usefixtures("directory")
def test_counts_are_kept_in_an_index_and_in_caches(tmp_path: Path) -> None:
    """Also beside files without counts, and after the index was refreshed."""
    table = tmp_path / "t"
    table.mkdir()
    nan_counts.write(table / "0.parquet", GROUPS, pa.float64())
    nan_counts.write(table / "1.parquet", GROUPS, pa.float64(), TYPE_ORDER, [None] * len(GROUPS))
    bp.build_index(table)
    nan_counts.write(table / "2.parquet", GROUPS, pa.float64(), TYPE_ORDER)
    for _ in range(2):
        for indexed in ("off", "auto"):
            for where, expected in SKIPPING[:3]:
                restart()
                for _ in range(2):
                    plan = bp.plan(table, where, index=indexed)
                    kept = {(Path(group.path).name, group.index) for group in plan.row_groups if group.kept}
                    for file in ("0.parquet", "2.parquet"):
                        assert {index for name, index in kept if name == file} == expected, (where, indexed, file)
                    assert ("1.parquet", 0) in kept
        bp.build_index(table)
