"""The value of leaf predicates for NULL is the one that rows with NULL have."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from bloomparquet.query import predicate as p
from bloomparquet.query.case_mapping import CaseIn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.like import Like
from bloomparquet.query.nulls import value_for_null
from bloomparquet.query.variants import VariantField

LEAVES: list[p.Leaf] = [
    *(kind("s", value) for kind in (p.Eq, p.NotEq, p.EqNullSafe, p.Lt, p.LtEq, p.Gt, p.GtEq) for value in ("a", None)),
    *(kind("s", values) for kind in (p.In, p.NotIn) for values in (["a"], ["a", None], [None], [])),
    *(CaseIn("s", "lower", values) for values in (["a"], ["a", None], [None], [])),
    *(p.StartsWith("s", prefix) for prefix in ("a", None)),
    Like("s", "a%b"),
    p.IsNull("s"),
    p.IsNotNull("s"),
]
NO_ROWS = [  # these are not evaluated for rows
    (ElementIn(("s",), "element", ("a",)), None),
    (VariantField("s", "$.a", "string", p.Eq("s", "a")), None),
    (VariantField("s", "$.a", "string", p.IsNull("s")), True),
]


@pytest.mark.parametrize("leaf", [*LEAVES, *map(p.Not, LEAVES)], ids=str)
def test_the_value_is_that_of_a_row(leaf: p.Predicate) -> None:
    (value,) = mask(leaf, pa.record_batch({"s": pa.array([None], pa.string())})).to_pylist()
    assert value_for_null(leaf) is value
    for without_values in (pa.record_batch({"s": pa.nulls(1)}), pa.record_batch({"other": pa.nulls(1)})):
        assert mask(leaf, without_values).to_pylist() == [value]


@pytest.mark.parametrize(("leaf", "value"), NO_ROWS)
def test_the_value_of_leaves_of_the_planner(leaf: p.Leaf, value: bool | None) -> None:
    assert value_for_null(leaf) is value


def names(of: type[p.Leaf]) -> Iterator[str]:
    for each in of.__subclasses__():
        if each.__module__.startswith("bloomparquet"):
            yield each.__name__
            yield from names(each)


def test_every_leaf_that_evidence_is_asked_about_has_a_value() -> None:
    bases = {"Comparison", "Membership", "FunctionPredicate", *names(p.ElementPredicate), "ElementPredicate"}
    assert {*names(p.Leaf)} - bases == {type(leaf).__name__ for leaf in (*LEAVES, *(leaf for leaf, _ in NO_ROWS))}


def test_an_unknown_leaf_is_an_error() -> None:
    class Unknown(p.Leaf):
        __slots__ = ()

    with pytest.raises(TypeError, match=r"not known of Unknown\('s'\)"):
        value_for_null(p.Not(Unknown("s")))
