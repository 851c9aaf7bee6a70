"""The negation normal form of a predicate, which evidence is asked about."""

from __future__ import annotations

from bloomparquet.query.predicate import (
    Always,
    And,
    Comparison,
    Eq,
    EqNullSafe,
    FunctionPredicate,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Junction,
    Leaf,
    Lt,
    LtEq,
    Membership,
    Not,
    NotEq,
    NotIn,
    Opaque,
    Or,
    Predicate,
    RowTest,
    StartsWith,
)

_NEGATED: dict[type[Leaf], type[Comparison]] = {Eq: NotEq, NotEq: Eq, Lt: GtEq, GtEq: Lt, Gt: LtEq, LtEq: Gt}


def normalize(predicate: Predicate, *, negated: bool = False) -> Predicate:
    """The negation normal form of `predicate`, or if `negated` of its negation. It is TRUE for exactly the same rows;
    for more, if there is a RowTest in it.

    It consists of And, Or, Always(True), Always(False), leaves without None, and Not around EqNullSafe, StartsWith,
    Like, CaseIn, VariantField, Opaque and predicates on elements; these may have None there. And and Or have at least
    two children, none of their own class. Always occurs only as the whole result. FALSE and NULL are not told apart:
    neither selects a row.
    """
    if isinstance(predicate, Not):
        return normalize(predicate.child, negated=not negated)
    if isinstance(predicate, RowTest):
        return Always(True) if negated else normalize(predicate.implied, negated=False)
    if isinstance(predicate, Always):
        return Always(predicate.value is not None and predicate.value != negated)
    if not isinstance(predicate, Junction):
        return _normalize_leaf(predicate, negated)
    conjunction = isinstance(predicate, And) != negated
    kept = []
    for child in predicate.children:
        child = normalize(child, negated=negated)
        if not isinstance(child, Always):
            kept.append(child)
        elif child.value is not conjunction:
            return child
    if len(kept) == 1:
        return kept[0]
    if not kept:
        return Always(conjunction)
    return And(*kept) if conjunction else Or(*kept)


def weaken(predicate: Predicate) -> Predicate:
    """`predicate` in negation normal form, with TRUE in place of what is opaque: TRUE for the same rows, and more."""
    if isinstance(predicate.child if isinstance(predicate, Not) else predicate, Opaque):
        return Always(True)
    if not isinstance(predicate, Junction):
        return predicate
    children = [weaken(child) for child in predicate.children]
    if all(new is old for new, old in zip(children, predicate.children, strict=True)):
        return predicate
    return normalize(type(predicate)(*children))


def opaque_parts(predicate: Predicate) -> list[Opaque]:
    """The opaque conditions of `predicate`, in order."""
    if isinstance(predicate, Junction):
        return [part for child in predicate.children for part in opaque_parts(child)]
    if isinstance(predicate, Not):
        return opaque_parts(predicate.child)
    if isinstance(predicate, RowTest):
        return opaque_parts(predicate.implied)
    return [predicate] if isinstance(predicate, Opaque) else []


def _normalize_leaf(leaf: Predicate, negated: bool) -> Predicate:
    if isinstance(leaf, (IsNull, IsNotNull)):
        return IsNull(leaf.column) if isinstance(leaf, IsNull) != negated else IsNotNull(leaf.column)
    if isinstance(leaf, Membership):
        if isinstance(leaf, In) != negated:
            values = leaf.values if None not in leaf.values else tuple(v for v in leaf.values if v is not None)
            return In(leaf.column, values) if values else Always(False)
        if None in leaf.values:
            return Always(False)
        return NotIn(leaf.column, leaf.values) if leaf.values else Always(True)
    if isinstance(leaf, Opaque):
        return Not(leaf) if negated else leaf
    if isinstance(leaf, FunctionPredicate):
        return leaf.normalized(negated=negated)
    if isinstance(leaf, StartsWith):
        if leaf.prefix is None:
            return Always(False)
        return Not(leaf) if negated else leaf
    assert isinstance(leaf, Comparison)
    if isinstance(leaf, EqNullSafe):
        if leaf.value is None:
            return IsNotNull(leaf.column) if negated else IsNull(leaf.column)
        return Not(leaf) if negated else leaf
    if leaf.value is None:
        return Always(False)
    return _NEGATED[type(leaf)](leaf.column, leaf.value) if negated else leaf
