"""Predicates as data: comparisons of columns with values, joined by And, Or and Not under SQL's three-valued logic.

This file owns what a predicate *is*, how it is written as SQL, and its negation normal form. It knows no file and no
type of a column: whether a value fits its column is for `literals` to say. pyarrow's expressions are not used, because
they can be neither taken apart in Python nor carry ``<=>`` or a value whose column is not known yet.

    Predicate
    ├── And, Or, Not, Always
    └── Leaf                                   has a `column`
        ├── Comparison  (column, value)        Eq  NotEq  EqNullSafe  Lt  LtEq  Gt  GtEq
        ├── Membership  (column, values)       In  NotIn
        ├── IsNull, IsNotNull
        └── StartsWith  (column, prefix)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bloomparquet.errors import PlanError
from bloomparquet.query.literals import Value, describe, normalize_value, normalize_values
from bloomparquet.query.literals import to_sql as literal_to_sql

Column = tuple[str, ...]
"""A column by its path as users see it: ``("id",)``, ``("address", "city")``."""

MAX_DEPTH = 100
"""How deep And, Or and Not may nest (an And directly inside an And is one level): whoever walks a tree may recurse."""

_SHOWN_VALUES = 20
_KEYWORDS = (
    "AND|ANTI|ARRAY|BETWEEN|BINARY|CASE|CAST|CROSS|DATE|DIV|DOUBLE|ELSE|END|EXCEPT|EXISTS|FALSE|FROM|FULL|GROUP|HAVING|IN|"
    "INNER|INTERSECT|INTERVAL|IS|JOIN|LATERAL|LEFT|LIKE|LIMIT|MAP|MINUS|NATURAL|NOT|NULL|ON|OR|ORDER|OVER|RIGHT|SELECT|"
    "SEMI|STRUCT|THEN|TIME|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|TRUE|UNION|USING|VALUES|WHEN|WHERE|WINDOW|WITH|X"
)
_PLAIN_NAME = re.compile(rf"(?!(?:{_KEYWORDS})$)[A-Z_][A-Z0-9_]*", re.IGNORECASE | re.ASCII)


class Predicate:
    """Base of all predicates. ``p & q``, ``p | q`` and ``~p`` join them; ``str(p)`` is SQL.

    >>> where = bp.And(bp.In("user_id", [4711, 4712]), bp.Not(bp.Eq("country", "DE")))
    >>> bp.read_table("events.parquet", where, ["user_id", "country"]).to_pylist()
    [{'user_id': 4711, 'country': 'CH'}]
    """

    __slots__ = ()

    def __and__(self, other: Predicate) -> And:
        return And(self, other) if isinstance(other, Predicate) else NotImplemented

    def __or__(self, other: Predicate) -> Or:
        return Or(self, other) if isinstance(other, Predicate) else NotImplemented

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> bool:
        raise PlanError("a predicate has no truth value of its own: write & | ~ instead of and, or, not")

    def __str__(self) -> str:
        return to_sql(self, max_values=_SHOWN_VALUES)


@dataclass(frozen=True, slots=True)
class Always(Predicate):
    """The constant TRUE or FALSE; None is SQL's NULL, which `normalize` makes FALSE."""

    value: bool | None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class _Junction(Predicate):
    children: tuple[Predicate, ...]
    _depth: int = field(compare=False)

    def __init__(self, *children: Predicate) -> None:
        flat: list[Predicate] = []
        depth = 1
        for child in children:
            _require_predicate(child)
            if isinstance(child, _Junction) and type(child) is type(self):
                flat.extend(child.children)
                depth = max(depth, child._depth)
            else:
                flat.append(child)
                depth = max(depth, 1 + _depth_of(child))
        object.__setattr__(self, "children", tuple(flat))
        object.__setattr__(self, "_depth", _check_depth(depth))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.children))})"


class And(_Junction):
    """TRUE when every child is. ``And()`` is TRUE. Children that are themselves And are taken in flat."""

    __slots__ = ()


class Or(_Junction):
    """TRUE when any child is. ``Or()`` is FALSE. Children that are themselves Or are taken in flat."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Not(Predicate):
    """TRUE when the child is FALSE; NULL when it is NULL."""

    child: Predicate
    _depth: int = field(compare=False)

    def __init__(self, child: Predicate) -> None:
        object.__setattr__(self, "child", _require_predicate(child))
        object.__setattr__(self, "_depth", _check_depth(1 + _depth_of(child)))

    def __repr__(self) -> str:
        return f"Not({self.child!r})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Leaf(Predicate):
    """A test of one column, given by its name or path. A name with dots is a path if no column is called so."""

    column: Column

    def __init__(self, column: str | Iterable[str]) -> None:
        object.__setattr__(self, "column", _to_column(column))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_repr_column(self.column)})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Comparison(Leaf):
    """A column compared with one value: NULL when either is."""

    value: Value
    symbol: ClassVar[str] = ""

    def __init__(self, column: str | Iterable[str], value: Any) -> None:
        object.__setattr__(self, "column", _to_column(column))
        object.__setattr__(self, "value", normalize_value(value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_repr_column(self.column)}, {self.value!r})"


class Eq(Comparison):
    """``column = value``. NaN equals NaN, and -0.0 equals 0.0, as in Spark."""

    __slots__ = ()
    symbol = "="


class NotEq(Comparison):
    """``column <> value``."""

    __slots__ = ()
    symbol = "<>"


class EqNullSafe(Comparison):
    """``column <=> value``: never NULL, and NULL equals NULL."""

    __slots__ = ()
    symbol = "<=>"


class Lt(Comparison):
    """``column < value``. NaN is greater than every other number, as in Spark."""

    __slots__ = ()
    symbol = "<"


class LtEq(Comparison):
    """``column <= value``."""

    __slots__ = ()
    symbol = "<="


class Gt(Comparison):
    """``column > value``."""

    __slots__ = ()
    symbol = ">"


class GtEq(Comparison):
    """``column >= value``."""

    __slots__ = ()
    symbol = ">="


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Membership(Leaf):
    """A column looked up in a list of values, in the order in which they were given and with their repetitions."""

    values: tuple[Value, ...]

    def __init__(self, column: str | Iterable[str], values: Iterable[Any]) -> None:
        object.__setattr__(self, "column", _to_column(column))
        object.__setattr__(self, "values", normalize_values(values))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_repr_column(self.column)}, {self.values!r})"


class In(Membership):
    """``column IN (values)``: NULL, not FALSE, when nothing equals the column and one of the values is None."""

    __slots__ = ()


class NotIn(Membership):
    """``column NOT IN (values)``: never TRUE when one of the values is None."""

    __slots__ = ()


class IsNull(Leaf):
    """``column IS NULL``: never NULL itself."""

    __slots__ = ()


class IsNotNull(Leaf):
    """``column IS NOT NULL``: never NULL itself."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class StartsWith(Leaf):
    """``column LIKE 'prefix%'``, byte by byte."""

    prefix: str | bytes | None

    def __init__(self, column: str | Iterable[str], prefix: Any) -> None:
        value = normalize_value(prefix)
        if not isinstance(value, (str, bytes, type(None))):
            raise PlanError(f"startswith takes str or bytes as its prefix, not {describe(prefix)}")
        object.__setattr__(self, "column", _to_column(column))
        object.__setattr__(self, "prefix", value)

    def __repr__(self) -> str:
        return f"StartsWith({_repr_column(self.column)}, {self.prefix!r})"


_NEGATED: dict[type[Leaf], type[Comparison]] = {Eq: NotEq, NotEq: Eq, Lt: GtEq, GtEq: Lt, Gt: LtEq, LtEq: Gt}


def columns(predicate: Predicate) -> set[Column]:
    """The columns that `predicate` names, as it names them."""
    return {leaf.column for leaf in leaves(predicate)}


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """The tests of single columns that `predicate` is made of, in no particular order."""
    left = [predicate]
    while left:
        node = left.pop()
        if isinstance(node, _Junction):
            left.extend(node.children)
        elif isinstance(node, Not):
            left.append(node.child)
        elif isinstance(node, Leaf):
            yield node


def normalize(predicate: Predicate) -> Predicate:
    """The negation normal form: TRUE for exactly the same rows.

    It is built of And, Or, Always(True), Always(False), leaves without None, and Not around EqNullSafe or StartsWith.
    And and Or have at least two children, none of them of their own class; Always is only ever the whole result.
    Which rows are FALSE and which NULL is not kept: both mean that the row is not wanted.
    """
    return _normalize(predicate, negated=False)


def to_sql(predicate: Predicate, *, max_values: int | None = None) -> str:
    """`predicate` in Spark's SQL, which `parse_where` reads back. Lists longer than `max_values` are cut short."""
    if isinstance(predicate, Always):
        return "NULL" if predicate.value is None else str(predicate.value).upper()
    if isinstance(predicate, Not):
        return f"NOT {_to_operand(predicate.child, max_values)}"
    if isinstance(predicate, _Junction):
        if not predicate.children:
            return "TRUE" if isinstance(predicate, And) else "FALSE"
        word = " AND " if isinstance(predicate, And) else " OR "
        return word.join(_to_operand(child, max_values) for child in predicate.children)
    return _leaf_to_sql(predicate, max_values)


def column_to_sql(column: Column) -> str:
    """``address.city``; parts that are no plain identifier are quoted: `` `first name` ``."""
    return ".".join(part if _PLAIN_NAME.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in column)


def _to_operand(predicate: Predicate, max_values: int | None) -> str:
    text = to_sql(predicate, max_values=max_values)
    return f"({text})" if isinstance(predicate, _Junction) and predicate.children else text


def _leaf_to_sql(leaf: Predicate, max_values: int | None) -> str:
    assert isinstance(leaf, Leaf)
    name = column_to_sql(leaf.column)
    if isinstance(leaf, Comparison):
        return f"{name} {leaf.symbol} {literal_to_sql(leaf.value)}"
    if isinstance(leaf, Membership):
        shown = [literal_to_sql(value) for value in leaf.values[:max_values]]
        if len(shown) < len(leaf.values):
            shown.append(f"… {len(leaf.values) - len(shown):,} more")
        return f"{name} {'IN' if isinstance(leaf, In) else 'NOT IN'} ({', '.join(shown)})"
    if isinstance(leaf, StartsWith):
        return f"startswith({name}, {literal_to_sql(leaf.prefix)})"
    return f"{name} IS {'NULL' if isinstance(leaf, IsNull) else 'NOT NULL'}"


def _normalize(node: Predicate, *, negated: bool) -> Predicate:
    if isinstance(node, Not):
        return _normalize(node.child, negated=not negated)
    if isinstance(node, Always):
        return Always(node.value is not None and node.value != negated)
    if not isinstance(node, _Junction):
        return _normalize_leaf(node, negated)
    conjunction = isinstance(node, And) != negated
    kept = []
    for child in node.children:
        child = _normalize(child, negated=negated)
        if not isinstance(child, Always):
            kept.append(child)
        elif child.value is not conjunction:
            return child
    if len(kept) == 1:
        return kept[0]
    if not kept:
        return Always(conjunction)
    return And(*kept) if conjunction else Or(*kept)


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


def _require_predicate(node: object) -> Predicate:
    if not isinstance(node, Predicate):
        raise PlanError(f"And, Or and Not take predicates, not {describe(node)}")
    return node


def _depth_of(node: Predicate) -> int:
    return node._depth if isinstance(node, (_Junction, Not)) else 0


def _check_depth(depth: int) -> int:
    if depth > MAX_DEPTH:
        raise PlanError(f"the predicate nests deeper than {MAX_DEPTH} levels; write a list of values as IN (…)")
    return depth


def _to_column(column: str | Iterable[str]) -> Column:
    path = (column,) if isinstance(column, str) else tuple(column)
    if not path or not all(isinstance(part, str) and part for part in path):
        raise PlanError(f"a column is a name or a path of names, not {column!r}")
    return path


def _repr_column(column: Column) -> str:
    return repr(column[0] if len(column) == 1 else column)
