"""The value of leaf predicates for NULL. Where a file lacks a column, every row has it."""

from __future__ import annotations

from bloomparquet.query import predicate as p
from bloomparquet.query.case_mapping import CaseIn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.like import Like
from bloomparquet.query.variants import VariantField


def value_for_null(leaf: p.Predicate) -> bool | None:
    """The value of a leaf predicate, or of its Not, for a row whose column is NULL: true, false or null.

    Raises TypeError for a kind of predicate without a rule here: a row group is skipped where the value is not true.
    """
    if isinstance(leaf, p.Not):
        value = value_for_null(leaf.child)
        return None if value is None else not value
    if isinstance(leaf, p.IsNull | p.IsNotNull):
        return isinstance(leaf, p.IsNull)
    if isinstance(leaf, p.EqNullSafe):
        return leaf.value is None
    if isinstance(leaf, p.In | p.NotIn | CaseIn) and not leaf.values:
        return isinstance(leaf, p.NotIn)
    if isinstance(leaf, VariantField):  # a field of NULL is NULL
        return value_for_null(leaf.test)
    compared = p.Eq | p.NotEq | p.Lt | p.LtEq | p.Gt | p.GtEq | p.In | p.NotIn
    if isinstance(leaf, compared | p.StartsWith | CaseIn | Like | ElementIn):
        return None
    raise TypeError(f"the value for NULL is not known of {leaf!r}")
