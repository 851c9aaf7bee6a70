"""The normal form selects the same rows, and verdicts on it lose none."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from bloomparquet.query.case_mapping import CaseIn
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.like import Like
from bloomparquet.query.normal_form import normalize, opaque_parts, weaken
from bloomparquet.query.predicate import (
    Always,
    And,
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Junction,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Opaque,
    Or,
    Predicate,
    RowTest,
    StartsWith,
)
from bloomparquet.query.verdict import might_match
from bloomparquet.query.why_not import WhyNot

ROWS = pa.table(
    {
        "x": pa.array([x for x, _ in product([0, 1, 2, None], ["A", "ab", "b", None])], pa.int64()),
        "s": pa.array([s for _, s in product([0, 1, 2, None], ["A", "ab", "b", None])], pa.string()),
    }
)
LEAVES: list[Predicate] = [
    *(kind("x", 1) for kind in (Eq, NotEq, Lt, LtEq, Gt, GtEq, EqNullSafe)),
    *(kind("x", None) for kind in (Eq, NotEq, Lt, GtEq, EqNullSafe)),
    *(kind("x", values) for kind in (In, NotIn) for values in ([1, 2], [1, None], [None], [])),
    *(kind(column) for kind in (IsNull, IsNotNull) for column in "xs"),
    *(StartsWith("s", prefix) for prefix in ("a", None)),
    Like("s", "a%b"),
    *(CaseIn("s", "lower", values) for values in (["a"], ["a", None], [None], [])),
    *map(Always, (True, False, None)),
]
OTHERS: list[Predicate] = [
    Eq("x", 1),
    Not(StartsWith("s", "a")),
    In("x", [2, None]),
    EqNullSafe("s", "b"),
    Always(True),
]
TREES = [
    *LEAVES,
    *map(Not, LEAVES),
    *(kind(left, right) for kind in (And, Or) for left in LEAVES for right in OTHERS),
    *(Not(kind(left, right)) for kind in (And, Or) for left in LEAVES for right in OTHERS),
    *(And(Or(left, OTHERS[0]), Not(And(left, OTHERS[1]))) for left in LEAVES),
]
A, B = Eq("x", 1), StartsWith("s", "a")
OPAQUE = Opaque("f(x)", next(iter(WhyNot)), "no")
TEST = RowTest((("x",),), "x > 1", And(A, OPAQUE), evaluate=print)
EITHER = RowTest((("x",),), "x > 1", Or(A, B), evaluate=print)


def selected(predicate: Predicate) -> list[bool]:
    return [value is True for value in mask(predicate, ROWS).to_pylist()]


def assert_is_normal(predicate: Predicate, parent: type | None = None) -> None:
    if isinstance(predicate, Junction):
        assert type(predicate) is not parent
        assert len(predicate.children) > 1
        for child in predicate.children:
            assert not isinstance(child, Always)
            assert_is_normal(child, type(predicate))
    elif isinstance(predicate, Not):
        assert isinstance(predicate.child, EqNullSafe | StartsWith | Like | CaseIn)
    else:
        values = getattr(predicate, "values", (getattr(predicate, "value", True),))
        assert values
        assert None not in values


def test_the_same_rows_are_selected() -> None:
    for tree in TREES:
        normal = normalize(tree)
        assert selected(normal) == selected(tree), tree
        assert_is_normal(normal)
        assert normalize(normal) == weaken(normal) == normal


def test_no_verdict_loses_a_row() -> None:
    """With row groups of one row each, verdicts are exact."""
    alive = np.arange(len(ROWS)) % 5 != 2
    before = alive.copy()

    def judge(leaf: Predicate, undecided: NDArray[np.bool_]) -> NDArray[np.bool_]:
        assert undecided.any()
        assert not (undecided & ~before).any()
        return np.array(selected(leaf))

    for tree in TREES:
        kept = might_match(normalize(tree), alive, judge)
        assert kept.tolist() == (np.array(selected(tree)) & before).tolist(), tree
        assert alive.tolist() == before.tolist(), "the argument is not written to"


def test_children_are_asked_about_undecided_row_groups_only() -> None:
    verdicts = {1: [True, True, False, False], 2: [True, False, True, False], 3: [False, False, False, True]}
    asked: list[tuple[Any, list[bool]]] = []

    def judge(leaf: Predicate, undecided: NDArray[np.bool_]) -> NDArray[np.bool_]:
        assert isinstance(leaf, Eq)
        asked.append((leaf.value, undecided.tolist()))
        return np.array(verdicts[leaf.value])

    every, (one, two, three) = np.ones(4, np.bool_), (Eq("x", i) for i in (1, 2, 3))
    assert might_match(And(one, two, three, one), every, judge).tolist() == [False] * 4
    assert asked == [(1, [True] * 4), (2, verdicts[1]), (3, [True, False, False, False])]
    asked.clear()
    assert might_match(Or(one, two, three, one), every, judge).tolist() == [True] * 4
    assert asked == [(1, [True] * 4), (2, [False, False, True, True]), (3, [False, False, False, True])]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (TEST, And(A, OPAQUE)),
        (EITHER, Or(A, B)),
        (Not(TEST), Always(True)),
        (Not(Not(TEST)), And(A, OPAQUE)),
        (Or(B, TEST), Or(B, And(A, OPAQUE))),
        (And(B, Not(TEST)), B),
        (Or(B, Not(TEST)), Always(True)),
        (OPAQUE, OPAQUE),
        (Not(OPAQUE), Not(OPAQUE)),
        (Not(Or(A, OPAQUE)), And(NotEq("x", 1), Not(OPAQUE))),
    ],
)
def test_what_cannot_be_judged_is_weakened(given: Predicate, expected: Predicate) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OPAQUE, Always(True)),
        (Not(OPAQUE), Always(True)),
        (And(A, OPAQUE), A),
        (And(A, Not(OPAQUE), B), And(A, B)),
        (Or(A, OPAQUE), Always(True)),
        (And(B, Or(A, Not(OPAQUE))), B),
        (Or(B, And(A, OPAQUE)), Or(B, A)),
        (A, A),
        (Not(B), Not(B)),
    ],
)
def test_opaque_parts_skip_nothing(given: Predicate, expected: Predicate) -> None:
    assert weaken(given) == expected


def test_a_predicate_without_opaque_parts_stays_the_same_object() -> None:
    tree = And(A, Or(B, IsNull("x")))
    assert weaken(tree) is tree


def test_opaque_parts_are_listed_in_order() -> None:
    other = Opaque("g(x)", OPAQUE.reason, "no")
    assert opaque_parts(And(Not(other), Or(A, OPAQUE), TEST)) == [other, OPAQUE, OPAQUE]
    assert opaque_parts(A) == []
