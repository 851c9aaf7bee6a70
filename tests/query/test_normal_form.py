"""The normal form selects the same rows, and verdicts on it lose none."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import bloomparquet as bp
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.like import Like
from bloomparquet.query.normal_form import normalize, opaque_parts, to_provable
from bloomparquet.query.predicate import Always, Junction, Opaque, RowTest
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import DECISIONS, Decision, cheapest, decide, greatest
from bloomparquet.query.why_not import WhyNot

ROWS = pa.table(
    {
        "x": pa.array([x for x, _ in product([0, 1, 2, None], ["A", "ab", "b", None])], pa.int64()),
        "s": pa.array([s for _, s in product([0, 1, 2, None], ["A", "ab", "b", None])], pa.string()),
    }
)
LEAVES: list[bp.Predicate] = [
    *(kind("x", 1) for kind in (bp.Eq, bp.NotEq, bp.Lt, bp.LtEq, bp.Gt, bp.GtEq, bp.EqNullSafe)),
    *(kind("x", None) for kind in (bp.Eq, bp.NotEq, bp.Lt, bp.GtEq, bp.EqNullSafe)),
    *(kind("x", values) for kind in (bp.In, bp.NotIn) for values in ([1, 2], [1, None], [None], [])),
    *(kind(column) for kind in (bp.IsNull, bp.IsNotNull) for column in "xs"),
    *(bp.StartsWith("s", prefix) for prefix in ("a", None)),
    Like("s", "a%b"),
    *(bp.CaseIn("s", "lower", values) for values in (["a"], ["a", None], [None], [])),
    *map(Always, (True, False, None)),
]
OTHERS: list[bp.Predicate] = [
    bp.Eq("x", 1),
    bp.Not(bp.StartsWith("s", "a")),
    bp.In("x", [2, None]),
    bp.EqNullSafe("s", "b"),
    Always(True),
]
TREES = [
    *LEAVES,
    *map(bp.Not, LEAVES),
    *(kind(left, right) for kind in (bp.And, bp.Or) for left in LEAVES for right in OTHERS),
    *(bp.Not(kind(left, right)) for kind in (bp.And, bp.Or) for left in LEAVES for right in OTHERS),
    *(bp.And(bp.Or(left, OTHERS[0]), bp.Not(bp.And(left, OTHERS[1]))) for left in LEAVES),
]
A, B = bp.Eq("x", 1), bp.StartsWith("s", "a")
OPAQUE = Opaque("f(x)", next(iter(WhyNot)), "no")
TEST = RowTest((("x",),), "x > 1", bp.And(A, OPAQUE), evaluate=print)
FIELD = VariantField("v", "$.a", "int", bp.Eq("v", 1))
EITHER = RowTest((("x",),), "x > 1", bp.Or(A, B), evaluate=print)


def selected(predicate: bp.Predicate) -> list[bool]:
    return [value is True for value in mask(predicate, ROWS).to_pylist()]


def assert_is_normal(predicate: bp.Predicate, parent: type | None = None) -> None:
    if isinstance(predicate, bp.Not):
        assert isinstance(predicate.child, bp.EqNullSafe | bp.StartsWith | Like | bp.CaseIn)
        predicate = predicate.child
    if isinstance(predicate, Junction):
        assert type(predicate) is not parent
        assert len(predicate.children) > 1
        for child in predicate.children:
            assert not isinstance(child, Always)
            assert_is_normal(child, type(predicate))
    else:
        values = getattr(predicate, "values", (getattr(predicate, "value", True),))
        assert values
        assert None not in values


def test_the_same_rows_are_selected() -> None:
    for tree in TREES:
        normal = normalize(tree)
        assert selected(normal) == selected(tree), tree
        assert_is_normal(normal)
        assert normalize(normal) == normal
        assert selected(to_provable(normal)) == selected(tree), tree


def test_no_decision_loses_a_row() -> None:
    """With row groups of one row each, decisions are exact."""
    alive = np.arange(len(ROWS)) % 5 != 2
    before = alive.copy()

    def judge(leaf: bp.Predicate, undecided: NDArray[np.bool_]) -> NDArray[np.uint8]:
        assert undecided.any()
        assert not (undecided & ~before).any()
        return np.where(np.array(selected(leaf)), np.uint8(0), np.uint8(Decision.BOUNDS.code))

    for tree in TREES:
        codes = decide(normalize(tree), alive, judge)
        kept = codes == 0
        assert codes.dtype == np.uint8
        assert (kept & before).tolist() == (np.array(selected(tree)) & before).tolist(), tree
        assert not (~kept & np.array(selected(tree))).any(), "no proof is wrong, also of what is not alive"
        assert alive.tolist() == before.tolist(), "the argument is not written to"


def test_children_are_asked_about_undecided_row_groups_only() -> None:
    codes = {1: [0, 0, 3, 3], 2: [0, 4, 0, 4], 3: [6, 6, 6, 0]}
    asked: list[tuple[Any, list[bool]]] = []

    def judge(leaf: bp.Predicate, undecided: NDArray[np.bool_]) -> NDArray[np.uint8]:
        assert isinstance(leaf, bp.Eq)
        asked.append((leaf.value, undecided.tolist()))
        return np.array(codes[leaf.value], np.uint8)

    every, (one, two, three) = np.ones(4, np.bool_), (bp.Eq("x", i) for i in (1, 2, 3))
    assert decide(bp.And(one, two, three, one), every, judge).tolist() == [6, 4, 3, 3]
    assert asked == [(1, [True] * 4), (2, [True, True, False, False]), (3, [True, False, False, False])]
    asked.clear()
    assert decide(bp.Or(one, two, three, one), every, judge).tolist() == [0] * 4
    assert asked == [(1, [True] * 4), (2, [False, False, True, True]), (3, [False, False, False, True])]


def test_and_takes_the_cheapest_proof_and_or_the_most_expensive_of_all() -> None:
    codes = np.arange(len(DECISIONS), dtype=np.uint8)
    pairs = [(a, b) for a in codes.tolist() for b in codes.tolist()]
    left, right = (np.array(each, np.uint8) for each in zip(*pairs, strict=True))
    assert cheapest(left, right).tolist() == [min(filter(None, pair), default=0) for pair in pairs]
    assert greatest(left, right).tolist() == [max(pair) if all(pair) else 0 for pair in pairs]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (TEST, bp.And(A, OPAQUE)), (EITHER, bp.Or(A, B)), (bp.Not(TEST), Always(True)),
        (bp.Not(bp.Not(TEST)), bp.And(A, OPAQUE)), (bp.Or(B, TEST), bp.Or(B, bp.And(A, OPAQUE))),
        (bp.And(B, bp.Not(TEST)), B), (bp.Or(B, bp.Not(TEST)), Always(True)), (OPAQUE, OPAQUE),
        (bp.Not(OPAQUE), bp.Not(OPAQUE)), (bp.Not(bp.Or(A, OPAQUE)), bp.And(bp.NotEq("x", 1), bp.Not(OPAQUE))),
    ],
)  # fmt: skip
def test_the_normal_form_of_tests_of_rows(given: bp.Predicate, expected: bp.Predicate) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OPAQUE, Always(True)),
        (bp.Not(OPAQUE), Always(True)),
        (bp.And(A, OPAQUE), A),
        (bp.And(A, bp.Not(OPAQUE), B), bp.And(A, B)),
        (bp.Or(A, OPAQUE), Always(True)),
        (bp.And(B, bp.Or(A, bp.Not(OPAQUE))), B),
        (bp.Or(B, bp.And(A, OPAQUE)), bp.Or(bp.In("x", [1]), B)),
        (bp.Not(B), bp.Not(B)),
        (bp.Or(A, B, bp.In("x", [2])), bp.Or(bp.In("x", [1, 2]), B)),
        (bp.Or(A, bp.Eq("x", 2)), bp.In("x", [1, 2])),
        (bp.And(bp.NotEq("x", 1), bp.NotIn("x", [2])), bp.NotIn("x", [1, 2])),
        (bp.And(A, bp.Eq("x", 2)), bp.And(A, bp.Eq("x", 2))),
        (bp.Or(bp.ContainsAny("l", [1]), A), bp.Or(bp.In("x", [1]), ElementIn(("l",), "element", (1,)))),
        (bp.And(A, bp.Not(bp.ContainsAny("l", [1]))), A),
        (bp.Not(bp.ItemIn("l", 0, [1])), Always(True)),
        (
            bp.ItemIn("l", 0, [1]),
            bp.And(*(ElementIn(("l",), part, (value,)) for part, value in (("element", 1), ("value", 1), ("key", 0)))),
        ),
        (bp.Or(A, FIELD), bp.Or(bp.In("x", [1]), FIELD)),
        (bp.Or(A, bp.Not(FIELD)), Always(True)),
        (VariantField("v", "$.a", "int", bp.IsNull("v")), Always(True)),
    ],
)
def test_what_evidence_cannot_exclude_counts_as_true(given: bp.Predicate, expected: bp.Predicate) -> None:
    assert to_provable(given) == expected


def test_an_opaque_condition_excludes_nothing() -> None:
    def judge(leaf: bp.Predicate, undecided: NDArray[np.bool_]) -> NDArray[np.uint8]:
        return np.array([0, 4], np.uint8)

    for opaque in (OPAQUE, bp.Not(OPAQUE)):
        assert decide(bp.And(opaque, A), np.ones(2, np.bool_), judge).tolist() == [0, 4]
        assert decide(bp.Or(A, opaque), np.ones(2, np.bool_), judge).tolist() == [0, 0]


def test_opaque_parts_are_listed_in_order() -> None:
    other = Opaque("g(x)", OPAQUE.reason, "no")
    assert opaque_parts(bp.And(bp.Not(other), bp.Or(A, OPAQUE), TEST)) == [other, OPAQUE, OPAQUE]
    assert opaque_parts(A) == []
