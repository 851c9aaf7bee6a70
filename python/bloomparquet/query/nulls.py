"""The value of leaf predicates for NULL. Where a file lacks a column, every row has it."""

from __future__ import annotations

from bloomparquet.query.case_mapping import CaseIn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.like import Like
from bloomparquet.query.predicate import (
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Predicate,
    StartsWith,
)
from bloomparquet.query.variants import VariantField


def value_for_null(leaf: Predicate) -> bool | None:
    """The value of a leaf predicate, or of its Not, for a row whose column is NULL: true, false or null.

    Raises TypeError for a kind of predicate without a rule here: a row group is skipped where the value is not true.
    """
    if isinstance(leaf, Not):
        value = value_for_null(leaf.child)
        return None if value is None else not value
    if isinstance(leaf, IsNull | IsNotNull):
        return isinstance(leaf, IsNull)
    if isinstance(leaf, EqNullSafe):
        return leaf.value is None
    if isinstance(leaf, In | NotIn | CaseIn) and not leaf.values:
        return isinstance(leaf, NotIn)
    if isinstance(leaf, VariantField):  # a field of NULL is NULL
        return value_for_null(leaf.test)
    if isinstance(leaf, Eq | NotEq | Lt | LtEq | Gt | GtEq | In | NotIn | StartsWith | CaseIn | Like | ElementIn):
        return None
    raise TypeError(f"the value for NULL is not known of {leaf!r}")
