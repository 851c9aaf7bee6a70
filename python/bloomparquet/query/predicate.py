"""Predicates as data: comparisons of columns with values, combined by And, Or and Not under SQL's three-valued logic.

This module owns the tree and its SQL text. It knows no file and no column type: `literals` checks whether a value fits
its column. pyarrow's expressions do not serve: Python cannot inspect them, they have no ``<=>``, and they need types.

    Predicate
    ├── And, Or, Not, Always
    ├── Opaque                                 a condition that is not understood
    ├── RowTest                                see `expressions`
    └── Leaf                                   has a `column`
        ├── Comparison  (column, value)        Eq  NotEq  EqNullSafe  Lt  LtEq  Gt  GtEq
        ├── Membership  (column, values)       In  NotIn
        ├── IsNull, IsNotNull
        ├── StartsWith  (column, prefix)
        └── FunctionPredicate                  see `case_mapping`, `variants`, `like`, `elements`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from bloomparquet.errors import PlanError, shorten
from bloomparquet.query.names import column_to_sql, repr_column
from bloomparquet.query.values import Value, describe, normalize_value, normalize_values, values_to_sql
from bloomparquet.query.values import to_sql as literal_to_sql
from bloomparquet.query.why_not import WhyNot

Column = tuple[str, ...]
"""The path of a column as users see it: ``("id",)``, ``("address", "city")``."""

MAX_DEPTH = 100
"""The deepest nesting of And, Or and Not, so that functions may recurse. An And directly inside an And is one level."""

_SHOWN_VALUES = 20


class Predicate:
    """Base of all predicates. ``p & q``, ``p | q`` and ``~p`` combine them; ``str(p)`` is SQL.

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
        raise PlanError("a predicate has no truth value; use & | ~ instead of and, or, not")

    def __str__(self) -> str:
        return to_sql(self, max_values=_SHOWN_VALUES)


@dataclass(frozen=True, slots=True)
class Always(Predicate):
    """The constant TRUE, FALSE or, as None, NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Opaque(Predicate):
    """A condition that skips nothing: no evidence is asked about it. Asking for rows is an error with the message
    `refusal`."""

    sql: str
    reason: WhyNot
    refusal: str


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Junction(Predicate):
    """Base of And and Or."""

    children: tuple[Predicate, ...]
    _depth: int = field(compare=False)

    def __init__(self, *children: Predicate) -> None:
        flat: list[Predicate] = []
        depth = 1
        for child in children:
            _require_predicate(child)
            if isinstance(child, Junction) and type(child) is type(self):
                flat.extend(child.children)
                depth = max(depth, child._depth)
            else:
                flat.append(child)
                depth = max(depth, 1 + _depth_of(child))
        object.__setattr__(self, "children", tuple(flat))
        object.__setattr__(self, "_depth", _check_depth(depth))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.children))})"


class And(Junction):
    """TRUE if every child is TRUE. ``And()`` is TRUE. Children of a child And become children of this one."""

    __slots__ = ()


class Or(Junction):
    """TRUE if any child is TRUE. ``Or()`` is FALSE. Children of a child Or become children of this one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Not(Predicate):
    """TRUE if the child is FALSE, NULL if the child is NULL."""

    child: Predicate
    _depth: int = field(compare=False)

    def __init__(self, child: Predicate) -> None:
        object.__setattr__(self, "child", _require_predicate(child))
        object.__setattr__(self, "_depth", _check_depth(1 + _depth_of(child)))

    def __repr__(self) -> str:
        return f"Not({self.child!r})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Leaf(Predicate):
    """A test of one column, given by its name or path. A name with dots is a path unless a column has that name."""

    column: Column

    def __init__(self, column: str | Iterable[str]) -> None:
        object.__setattr__(self, "column", _to_column(column))

    def __repr__(self) -> str:
        others = (getattr(self, each.name) for each in fields(self) if each.name != "column")
        return f"{type(self).__name__}({', '.join([repr_column(self.column), *map(repr, others)])})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Comparison(Leaf):
    """A column compared with one value: NULL if either is NULL."""

    value: Value
    symbol: ClassVar[str] = ""

    def __init__(self, column: str | Iterable[str], value: Any) -> None:
        Leaf.__init__(self, column)
        object.__setattr__(self, "value", normalize_value(value))


class Eq(Comparison):
    """``column = value``. NaN equals NaN, and -0.0 equals 0.0, as in Spark."""

    __slots__ = ()
    symbol = "="


class NotEq(Comparison):
    """``column <> value``."""

    __slots__ = ()
    symbol = "<>"


class EqNullSafe(Comparison):
    """``column <=> value``: never NULL. NULL equals NULL."""

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
    """A column looked up in a list of values. Order and repetitions of the values are kept."""

    values: tuple[Value, ...]

    def __init__(self, column: str | Iterable[str], values: Iterable[Any]) -> None:
        Leaf.__init__(self, column)
        object.__setattr__(self, "values", normalize_values(values))


class In(Membership):
    """``column IN (values)``: NULL, not FALSE, if no value equals the column and one of the values is None."""

    __slots__ = ()


class NotIn(Membership):
    """``column NOT IN (values)``: never TRUE if one of the values is None."""

    __slots__ = ()


class IsNull(Leaf):
    """``column IS NULL``: never NULL."""

    __slots__ = ()


class IsNotNull(Leaf):
    """``column IS NOT NULL``: never NULL."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class StartsWith(Leaf):
    """``column LIKE 'prefix%'``, compared by bytes."""

    prefix: str | bytes | None

    def __init__(self, column: str | Iterable[str], prefix: Any) -> None:
        Leaf.__init__(self, column)
        object.__setattr__(self, "prefix", normalize_value(prefix))
        if not isinstance(self.prefix, (str, bytes, type(None))):
            raise PlanError(f"the prefix of startswith is {describe(prefix)}; expected str or bytes")


class FunctionPredicate(Leaf):
    """Base of the predicates on the result of a function of a column, such as an element or ``lower(column)``."""

    __slots__ = ()

    def normalized(self, *, negated: bool) -> Predicate:
        """The negation normal form of this predicate, or of its negation."""
        raise NotImplementedError

    def to_sql(self, max_values: int | None) -> str:
        """The SQL text, with at most `max_values` values of a list."""
        raise NotImplementedError

    def provable(self, *, negated: bool) -> Predicate:
        """A predicate that evidence can exclude, and that is TRUE wherever this predicate, or its negation, is."""
        return Not(self) if negated else self


class ElementPredicate(FunctionPredicate):
    """Base of the predicates on elements of lists and maps; see :mod:`bloomparquet.query.elements`."""

    __slots__ = ()

    def normalized(self, *, negated: bool) -> Predicate:
        return Not(self) if negated else self.without_nulls()

    def without_nulls(self) -> Predicate:
        """A predicate without None among its values that is TRUE for the same rows."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RowTest(Predicate):
    """A condition that another library evaluates for batches of `columns`; `implied` is TRUE wherever it is TRUE.
    `types`: the Arrow types that the condition is bound to, for columns that a file lacks."""

    columns: tuple[Column, ...]
    text: str
    implied: Predicate
    evaluate: Callable[[Any], Any] = field(compare=False, repr=False)
    types: tuple[Any, ...] = field(default=(), compare=False, repr=False)


def columns(predicate: Predicate) -> set[Column]:
    """The columns of `predicate`, under the names that it uses."""
    return set().union(*((node.column,) if isinstance(node, Leaf) else node.columns for node in _operands(predicate)))


def column_of(leaf: Predicate) -> Column:
    """The column of a leaf predicate, or of the one in a Not."""
    leaf = leaf.child if isinstance(leaf, Not) else leaf
    assert isinstance(leaf, Leaf)
    return leaf.column


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """The leaf predicates of `predicate`, in no particular order."""
    return (node for node in _operands(predicate) if isinstance(node, Leaf))


def map_leaves(predicate: Predicate, change: Callable[[Leaf], Predicate]) -> Predicate:
    """`predicate` with each leaf replaced by what `change` returns for it."""
    if isinstance(predicate, Junction):
        return type(predicate)(*(map_leaves(child, change) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(map_leaves(predicate.child, change))
    return change(predicate) if isinstance(predicate, Leaf) else predicate


def _operands(predicate: Predicate) -> Iterator[Leaf | RowTest]:
    pending = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, Junction):
            pending.extend(node.children)
        elif isinstance(node, Not):
            pending.append(node.child)
        elif isinstance(node, Leaf | RowTest):
            yield node


def to_sql(predicate: Predicate, *, max_values: int | None = None) -> str:
    """`predicate` in Spark's SQL, which ``parse_where`` parses back. Only `max_values` values of a list are shown."""
    if isinstance(predicate, Always):
        return "NULL" if predicate.value is None else str(predicate.value).upper()
    if isinstance(predicate, Not):
        return f"NOT {_to_operand(predicate.child, max_values)}"
    if isinstance(predicate, Junction):
        if not predicate.children:
            return "TRUE" if isinstance(predicate, And) else "FALSE"
        word = " AND " if isinstance(predicate, And) else " OR "
        return word.join(_to_operand(child, max_values) for child in predicate.children)
    if isinstance(predicate, Opaque):
        return predicate.sql if max_values is None else shorten(predicate.sql)
    if isinstance(predicate, RowTest):
        return predicate.text
    assert isinstance(predicate, Leaf)
    return leaf_to_sql(predicate, column_to_sql(predicate.column), max_values)


def _to_operand(predicate: Predicate, max_values: int | None) -> str:
    text = to_sql(predicate, max_values=max_values)
    return f"({text})" if isinstance(predicate, Junction) and predicate.children else text


def leaf_to_sql(leaf: Leaf, operand: str, max_values: int | None) -> str:
    """The SQL text of `leaf`, with `operand` in place of its column."""
    if isinstance(leaf, Comparison):
        return f"{operand} {leaf.symbol} {literal_to_sql(leaf.value)}"
    if isinstance(leaf, Membership):
        return f"{operand} {'IN' if isinstance(leaf, In) else 'NOT IN'} ({values_to_sql(leaf.values, max_values)})"
    if isinstance(leaf, FunctionPredicate):
        return leaf.to_sql(max_values)
    if isinstance(leaf, StartsWith):
        return f"startswith({operand}, {literal_to_sql(leaf.prefix)})"
    if isinstance(leaf, IsNull):
        return f"{operand} IS NULL"
    if isinstance(leaf, IsNotNull):
        return f"{operand} IS NOT NULL"
    raise TypeError(f"no SQL is known for {leaf!r}")


def _require_predicate(node: object) -> Predicate:
    if not isinstance(node, Predicate):
        raise PlanError(f"And, Or and Not take predicates; found {describe(node)}")
    return node


def _depth_of(node: Predicate) -> int:
    return node._depth if isinstance(node, (Junction, Not)) else 0


def _check_depth(depth: int) -> int:
    if depth > MAX_DEPTH:
        raise PlanError(f"the predicate is nested deeper than {MAX_DEPTH} levels; write a list of values as IN (…)")
    return depth


def _to_column(column: str | Iterable[str]) -> Column:
    path = (column,) if isinstance(column, str) or not isinstance(column, Iterable) else tuple(column)
    if not path or not all(isinstance(part, str) and part for part in path):
        raise PlanError(f"the column is {column!r}; expected a name, or a path of names")
    return path
