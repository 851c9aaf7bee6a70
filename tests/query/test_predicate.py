"""Predicates as data, and their negation normal form."""

from __future__ import annotations

import datetime as dt
import functools
import operator
import pickle
import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import (
    MAX_DEPTH,
    Always,
    Junction,
    Opaque,
    RowTest,
    column_of,
    columns,
    leaves,
    map_leaves,
    to_sql,
)
from bloomparquet.query.why_not import WhyNot

a, b, c = bp.Eq("a", 1), bp.Lt("b", 2), bp.IsNull("c")
LONG = f"f('{'x' * 1_000}')"
OPAQUE = Opaque(LONG, WhyNot.FUNCTION, "cannot find the rows")
ROW_TEST = RowTest((("t",), ("u",)), "t < u", Always(True), lambda batch: None)


def test_column_is_stored_as_a_path():
    assert bp.Eq("id", 1).column == ("id",)
    assert bp.Eq(("address", "city"), 1).column == bp.Eq(["address", "city"], 1).column == ("address", "city")
    assert bp.Eq("a.b", 1).column == ("a.b",)


@pytest.mark.parametrize("column", [5, None, "", (), ("a", ""), ("a", 1), [None]])
def test_invalid_column_is_an_error(column):
    with pytest.raises(PlanError, match="expected a name, or a path of names"):
        bp.Eq(column, 1)


def test_operators_build_flat_junctions():
    assert a & b == bp.And(a, b)
    assert a | b == bp.Or(a, b)
    assert ~a == bp.Not(a)
    assert a & b & c == bp.And(a, bp.And(b, c)) == bp.And(a, b, c)
    assert (a | b) & c == bp.And(bp.Or(a, b), c)


def test_equality_and_hash_of_predicates():
    assert bp.StartsWith("a", "x") != bp.StartsWith("a", "y")
    assert hash(bp.And(a, bp.Or(b, ~c))) == hash(bp.And(bp.Eq("a", 1), bp.Or(bp.Lt("b", 2), bp.Not(bp.IsNull("c")))))
    assert bp.Eq("a", 1) != bp.NotEq("a", 1)
    assert bp.And(a, b) != bp.Or(a, b)


def test_in_list_keeps_values_that_python_finds_equal():
    assert [type(value) for value in bp.In("a", [1, True, 1.0, Decimal(1)]).values] == [int, bool, float, Decimal]


def test_python_and_or_not_are_errors():
    with pytest.raises(PlanError, match=r"use & \| ~"):
        bool(a)
    with pytest.raises(PlanError, match="take predicates; found the str"):
        bp.And(a, "b = 2")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.int64(5), 5), (np.bool_(True), True), (np.float32(0.1), 0.10000000149011612), (bytearray(b"x"), b"x"),
        (np.datetime64("2024-05-17"), dt.date(2024, 5, 17)),
        (np.datetime64("2024-05-17T01:02:03.000004000", "ns"), dt.datetime(2024, 5, 17, 1, 2, 3, 4)),
        (np.datetime64("NaT"), None), (pd.NaT, None), (pd.NA, None),
    ],
)  # fmt: skip
def test_numpy_and_pandas_scalars_become_plain_values(given, expected):
    for value in (bp.Eq("a", given).value, bp.In("a", [given, 1]).values[0]):
        assert value == expected
        assert type(value) is type(expected)


def test_nanoseconds_are_kept():
    fine = np.datetime64("2024-05-17T01:02:03.000000004", "ns")
    assert bp.Eq("a", fine).value == fine
    assert bp.Eq("a", pd.Timestamp(fine)).value == pd.Timestamp(fine)


@pytest.mark.parametrize("value", [object(), [1], {"a": 1}, 1j, dt.timedelta(1), np.timedelta64(1, "s")])
def test_other_values_are_errors(value):
    with pytest.raises(PlanError, match="cannot compare with"):
        bp.Eq("a", value)


@pytest.mark.parametrize("unit", ["Y", "D", "h", "s", "ms"])
@pytest.mark.parametrize("number", [2**62, -(2**62), 10**15])
def test_years_that_no_column_has_are_errors(unit, number):
    with pytest.raises(PlanError, match="dates must be in the years 1 to 9999"):
        bp.Eq("a", np.datetime64(number, unit))


@pytest.mark.parametrize("values", ["abc", b"abc", 5, None, np.array(5), np.array([[5]])])
def test_in_takes_only_a_list(values):
    with pytest.raises(PlanError, match="IN takes a list of values"):
        bp.In("a", values)


def test_startswith_takes_only_text():
    with pytest.raises(PlanError, match="expected str or bytes"):
        bp.StartsWith("a", 5)


def test_columns_of_a_tree():
    assert columns(bp.And(a, bp.Or(b, bp.Not(c)), bp.Eq(("s", "x"), 1), Always(True))) == {
        ("a",),
        ("b",),
        ("c",),
        ("s", "x"),
    }
    assert columns(bp.Or(a, bp.Not(ROW_TEST))) == {("a",), ("t",), ("u",)}
    assert columns(bp.And(OPAQUE, a)) == {("a",)}
    assert set(leaves(bp.And(a, bp.Or(b, bp.Not(c)), Always(True), ROW_TEST, OPAQUE))) == {a, b, c}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (bp.Not(bp.Not(bp.Not(bp.Not(a)))), a),
        (bp.Not(bp.And(a, bp.Or(b, c))), bp.Or(bp.NotEq("a", 1), bp.And(bp.GtEq("b", 2), bp.IsNotNull("c")))),
        (bp.And(), Always(True)), (bp.Or(), Always(False)), (bp.Or(a, bp.And(b, Always(False))), a),
        (bp.ContainsAny("a", [1, None]), bp.ContainsAny("a", [1])),
        (bp.Not(bp.ContainsAny("a", [1, None])), bp.Not(bp.ContainsAny("a", [1, None]))),
        (bp.ContainsAny("a", [None]), Always(False)), (bp.ItemIn("a", "k", [None, 1]), bp.ItemIn("a", "k", [1])),
        (bp.Not(bp.ItemIn("a", "k", [None])), bp.Not(bp.ItemIn("a", "k", [None]))),
    ],
)  # fmt: skip
def test_normal_form_has_no_not_above_and_or_or(given, expected):
    assert normalize(given) == expected


def test_each_leaf_is_replaced_in_its_place():
    before = bp.And(bp.Or(bp.Eq("a", 1), bp.Not(bp.Eq("b", 2))), ROW_TEST, bp.Gt("c", 3))
    seen = []

    def change(leaf):
        seen.append(column_of(leaf))
        return Always(False) if isinstance(leaf, bp.Gt) else replace(leaf, column=("x", *leaf.column))

    after = bp.And(bp.Or(bp.Eq(("x", "a"), 1), bp.Not(bp.Eq(("x", "b"), 2))), ROW_TEST, Always(False))
    assert map_leaves(before, change) == after
    assert seen == [("a",), ("b",), ("c",)]
    assert column_of(bp.Not(bp.Eq("b", 2))) == ("b",)


def test_too_deep_nesting_is_a_plan_error():
    def nest(wrap):
        predicate: bp.Predicate = a
        for _ in range(10_000):
            predicate = wrap(predicate)
        return normalize(predicate)

    for wrap in (bp.Not, lambda p: bp.And(b, bp.Or(c, p)), lambda p: ~(b & p)):
        with pytest.raises(PlanError, match=f"deeper than {MAX_DEPTH}"):
            nest(wrap)


def test_deepest_allowed_tree_can_be_walked():
    predicate: bp.Predicate = a
    for _ in range(MAX_DEPTH):
        predicate = bp.Not(predicate)
    assert normalize(predicate) == a
    with pytest.raises(PlanError, match=f"deeper than {MAX_DEPTH}"):
        bp.Not(predicate)
    predicate = a
    for level in range(MAX_DEPTH):
        predicate = bp.And(b, predicate) if level % 2 else bp.Or(c, predicate)
    assert hash(predicate) == hash(pickle.loads(pickle.dumps(predicate)))
    assert normalize(predicate) == predicate
    assert columns(predicate) == {("a",), ("b",), ("c",)}
    assert len(to_sql(predicate)) > MAX_DEPTH


def test_wide_trees_and_long_lists_are_cheap():
    began = time.process_time()
    wide = bp.Or(*(bp.Eq("a", i) for i in range(30_000)))
    joined = functools.reduce(operator.or_, wide.children[:3_000])
    for each, count in ((normalize(bp.Not(wide)), 30_000), (joined, 3_000)):
        assert isinstance(each, Junction)
        assert len(each.children) == count
    assert time.process_time() - began < 3
    began = time.process_time()
    assert len(bp.In("a", range(100_000)).values) == 100_000
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (bp.And(a, bp.Or(b, ~c)), "a = 1 AND (b < 2 OR NOT c IS NULL)"),
        (bp.NotEq(("s", "first name"), "it's"), r"s.`first name` <> 'it\'s'"), (bp.Eq("a.b", None), "`a.b` = NULL"),
        (bp.EqNullSafe("select", True), "`select` <=> TRUE"),
        (bp.In("a", [1.5, Decimal("1.50"), b"\x00\xff"]), "a IN (1.5D, 1.50, X'00ff')"),
        (bp.NotIn("a", [dt.date(2024, 5, 17), dt.time(1, 2)]), "a NOT IN (DATE '2024-05-17', TIME '01:02:00')"),
        (bp.GtEq("a", dt.datetime(2024, 5, 17, 1)), "a >= TIMESTAMP '2024-05-17 01:00:00'"),
        (bp.StartsWith("a", "x%"), "startswith(a, 'x%')"), (bp.IsNotNull("a"), "a IS NOT NULL"),
        (bp.Eq("a", float("nan")), "a = double('nan')"), (Always(None), "NULL"),
        (bp.And(a, Always(True), Always(False)), "a = 1 AND TRUE AND FALSE"),
        (bp.Or(bp.Not(bp.And()), bp.And(bp.Or(), a)), "NOT TRUE OR (FALSE AND a = 1)"),
        (bp.And(ROW_TEST, Opaque("f(v) = 'x'", WhyNot.FUNCTION, "")), "t < u AND f(v) = 'x'"),
        (bp.Not(bp.ContainsAny("a", [1])), "NOT array_contains(a, 1)"),
    ],
)  # fmt: skip
def test_predicates_read_as_sql(predicate, text):
    assert str(predicate) == text


def test_long_lists_are_cut_short_only_for_display():
    predicate = bp.In("a", range(1_000))
    assert str(predicate).endswith("19, … 980 more)")
    assert to_sql(predicate).endswith("998, 999)")
    nested = bp.Not(bp.Or(a, bp.And(predicate, bp.NotIn("b", range(1_000)), bp.ContainsAny("c", range(1_000)))))
    assert str(nested).count("… 980 more") == 3
    assert to_sql(nested).count("999") == 3
    assert len(str(OPAQUE)) < len(LONG) / 2
    assert to_sql(OPAQUE) == LONG


def test_repr_is_python_that_builds_the_predicate():
    predicate = bp.And(
        a, bp.Or(bp.In(("s", "x"), [1, None]), bp.Not(bp.StartsWith("d", "y"))), bp.IsNull("c"), Always(None)
    )
    assert eval(repr(predicate), {**vars(bp), "Always": Always}) == predicate
