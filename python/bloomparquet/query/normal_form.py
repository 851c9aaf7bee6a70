"""The negation normal form of a predicate, which evidence is asked about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bloomparquet.query import predicate as p
from bloomparquet.query.values import without_none

_NEGATED: dict[type[p.Leaf], type[p.Comparison]] = {
    p.Eq: p.NotEq, p.NotEq: p.Eq, p.Lt: p.GtEq, p.GtEq: p.Lt, p.Gt: p.LtEq, p.LtEq: p.Gt,
}  # fmt: skip


def normalize(predicate: p.Predicate, *, negated: bool = False) -> p.Predicate:
    """The negation normal form of `predicate`, or if `negated` of its negation. It is TRUE for exactly the same rows;
    for more, if there is a RowTest in it.

    It consists of And, Or, Always(True), Always(False), leaves without None, and Not around EqNullSafe, StartsWith,
    Like, CaseIn, VariantField, Opaque and predicates on elements; these may have None there. And and Or have at least
    two children, none of their own class. Always occurs only as the whole result. FALSE and NULL are not told apart:
    neither selects a row.
    """
    if isinstance(predicate, p.Not):
        return normalize(predicate.child, negated=not negated)
    if isinstance(predicate, p.RowTest):
        return p.Always(True) if negated else normalize(predicate.implied, negated=False)
    if isinstance(predicate, p.Always):
        return p.Always(predicate.value is not None and predicate.value != negated)
    if not isinstance(predicate, p.Junction):
        return _normalize_leaf(predicate, negated)
    conjunction = isinstance(predicate, p.And) != negated
    return _combine(conjunction, (normalize(child, negated=negated) for child in predicate.children))


def to_provable(predicate: p.Predicate) -> p.Predicate:
    """What evidence is asked about: it is TRUE wherever `predicate` is, and perhaps for more rows.

    `predicate` is in negation normal form. The result also has TRUE in place of what evidence cannot exclude, one leaf
    for all values that a column is compared with, and :class:`ElementIn` for the elements of lists and maps.
    """
    if isinstance(predicate, p.Junction):
        return merge_values(_combine(isinstance(predicate, p.And), map(to_provable, predicate.children)))
    negated = isinstance(predicate, p.Not)
    leaf = predicate.child if isinstance(predicate, p.Not) else predicate
    if isinstance(leaf, p.Opaque):
        return p.Always(True)
    return leaf.provable(negated=negated) if isinstance(leaf, p.FunctionPredicate) else predicate


def merge_values(predicate: p.Predicate) -> p.Predicate:
    """Merge the values that the parts of an AND or OR compare one column with: ``a = 1 OR a = 2`` becomes
    ``a IN (1, 2)``, and ``a <> 1 AND a <> 2`` becomes ``a NOT IN (1, 2)``."""
    if not isinstance(predicate, p.Junction):
        return predicate
    one, many = (p.Eq, p.In) if isinstance(predicate, p.Or) else (p.NotEq, p.NotIn)
    values: dict[p.Column, list[Any]] = {}
    others = []
    for child in predicate.children:
        if isinstance(child, one):
            values.setdefault(child.column, []).append(child.value)
        elif isinstance(child, many):
            values.setdefault(child.column, []).extend(child.values)
        else:
            others.append(child)
    merged = [*(many(column, literals) for column, literals in values.items()), *others]
    return merged[0] if len(merged) == 1 else type(predicate)(*merged)


def _combine(conjunction: bool, children: Iterable[p.Predicate]) -> p.Predicate:
    """The AND or OR of `children`, without Always unless it is the whole."""
    kept = []
    for child in children:
        if not isinstance(child, p.Always):
            kept.append(child)
        elif child.value is not conjunction:
            return child
    if len(kept) == 1:
        return kept[0]
    if not kept:
        return p.Always(conjunction)
    return p.And(*kept) if conjunction else p.Or(*kept)


def opaque_parts(predicate: p.Predicate) -> list[p.Opaque]:
    """The opaque conditions of `predicate`, in order."""
    if isinstance(predicate, p.Junction):
        return [part for child in predicate.children for part in opaque_parts(child)]
    if isinstance(predicate, p.Not):
        return opaque_parts(predicate.child)
    if isinstance(predicate, p.RowTest):
        return opaque_parts(predicate.implied)
    return [predicate] if isinstance(predicate, p.Opaque) else []


def _normalize_leaf(leaf: p.Predicate, negated: bool) -> p.Predicate:
    if isinstance(leaf, (p.IsNull, p.IsNotNull)):
        return p.IsNull(leaf.column) if isinstance(leaf, p.IsNull) != negated else p.IsNotNull(leaf.column)
    if isinstance(leaf, p.Membership):
        if isinstance(leaf, p.In) != negated:
            values = without_none(leaf.values)
            return p.In(leaf.column, values) if values else p.Always(False)
        if None in leaf.values:
            return p.Always(False)
        return p.NotIn(leaf.column, leaf.values) if leaf.values else p.Always(True)
    if isinstance(leaf, p.Opaque):
        return p.Not(leaf) if negated else leaf
    if isinstance(leaf, p.FunctionPredicate):
        return leaf.normalized(negated=negated)
    if isinstance(leaf, p.StartsWith):
        if leaf.prefix is None:
            return p.Always(False)
        return p.Not(leaf) if negated else leaf
    assert isinstance(leaf, p.Comparison)
    if isinstance(leaf, p.EqNullSafe):
        if leaf.value is None:
            return p.IsNotNull(leaf.column) if negated else p.IsNull(leaf.column)
        return p.Not(leaf) if negated else leaf
    if leaf.value is None:
        return p.Always(False)
    return _NEGATED[type(leaf)](leaf.column, leaf.value) if negated else leaf
