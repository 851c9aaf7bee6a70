"""Reads from the tree of a pyarrow expression a predicate that the expression implies.

Arrow converts columns and literals of different types before it compares them, and the list of ``is_in`` to the type of
the column. A literal is understood only if it has the column's family of types and converting it to the column's type
and back changes nothing: then every conversion gives the same rows.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from bloomparquet.query import predicate as p
from bloomparquet.query.domains import arrow_family, decoded, decoded_type
from bloomparquet.query.expression_tree import Call, Field, Literal, Node
from bloomparquet.query.names import column_to_sql
from bloomparquet.query.values import Value
from bloomparquet.query.why_not import WhyNot

PART = "a part of the expression"
"""The text of a condition that is not understood and whose own text is not known."""

_COMPARISONS: dict[str, tuple[type[p.Comparison], type[p.Comparison]]] = {
    "equal": (p.Eq, p.Eq),
    "not_equal": (p.NotEq, p.NotEq),
    "less": (p.Lt, p.Gt),
    "less_equal": (p.LtEq, p.GtEq),
    "greater": (p.Gt, p.Lt),
    "greater_equal": (p.GtEq, p.LtEq),
}
"""The predicates of comparisons as written, and with the sides exchanged."""
_MATCH_NULLS = 0  # Arrow's SetLookupOptions: null is found in a list with null


def implied_by(tree: Node, schema: pa.Schema) -> p.Predicate:
    """A predicate that is TRUE for each row for which the expression of `tree` is true. `schema` has its columns."""
    return _Reader(schema).implied(tree, True, p.MAX_DEPTH)


class _Reader:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def implied(self, node: Node, value: bool, depth: int) -> p.Predicate:
        """A predicate that is TRUE wherever `node` has the `value`; Opaque, which skips nothing, if nothing is known.
        `depth`: how much deeper it may nest."""
        if isinstance(node, Literal):
            return (
                p.Always(node.scalar.as_py() is value) if node.scalar.type in (pa.bool_(), pa.null()) else _opaque(node)
            )
        if isinstance(node, Field):
            is_boolean = arrow_family(self._type(node.path)) == "boolean"
            return p.Eq(node.path, value) if is_boolean else _opaque(node)
        if node.function == "invert" and depth:
            return self.implied(node.arguments[0], not value, depth - 1)
        if node.function in ("and", "or") and depth:
            parts = [self.implied(each, value, depth - 1) for each in node.arguments]
            return p.And(*parts) if (node.function == "and") is value else p.Or(*parts)
        if node.function == "if_else" and depth and _is_null(node.arguments[2]):  # DuckDB writes lists so
            return self.implied(node.arguments[1], value, depth - 1)
        if node.function in ("is_null", "is_valid") and isinstance(node.arguments[0], Field):
            if node.options is not None and node.options["nan_is_null"].as_py():
                return _opaque(node)
            return (p.IsNull if (node.function == "is_null") is value else p.IsNotNull)(node.arguments[0].path)
        if node.function in _COMPARISONS:
            return self._comparison(node, value)
        if node.function == "is_in":
            return self._in_list(node, value)
        return _opaque(node)

    def _comparison(self, node: Call, value: bool) -> p.Predicate:
        left, right = node.arguments
        build, exchanged = _COMPARISONS[node.function]
        if isinstance(left, Literal):
            left, right, build = right, left, exchanged
        if not isinstance(left, Field) or not isinstance(right, Literal):
            return _opaque(node)
        literals = self._literals(left.path, pa.array([right.scalar]))
        if literals is None:
            return _opaque(node)
        if literals == [None]:
            return p.Always(False)
        if not value and self._orders_nan(left.path):
            return _opaque(node)
        comparison = build(left.path, literals[0])
        return comparison if value else p.Not(comparison)

    def _in_list(self, node: Call, value: bool) -> p.Predicate:
        column = node.arguments[0]
        if not isinstance(column, Field) or node.options["null_matching_behavior"].as_py() != _MATCH_NULLS:
            return _opaque(node)
        literals = self._literals(column.path, node.options["value_set"].values)
        if literals is None or (not value and self._orders_nan(column.path)):
            return _opaque(node)
        in_values = p.In(column.path, [each for each in literals if each is not None])
        listed = in_values if value else p.Not(in_values)
        return p.Or(listed, p.IsNull(column.path)) if (None in literals) is value else listed

    def _orders_nan(self, column: p.Column) -> bool:
        """Whether a negation may be true for NaN, which Arrow and this package order differently."""
        return arrow_family(self._type(column)) == "float"

    def _type(self, column: p.Column) -> pa.DataType:
        kind = self._schema.field(column[0]).type
        for name in column[1:]:
            kind = kind.field(name).type
        return kind

    def _literals(self, column: p.Column, values: pa.Array) -> list[Value] | None:
        """`values` as Python has them; None if Arrow may convert one of them, or the column, to another value."""
        kind, values = decoded_type(self._type(column)), decoded(values)
        family = arrow_family(kind)
        if family in ("other", "uuid") or pa.types.is_float16(kind):
            return None
        if pa.types.is_null(values.type):
            return [None] * len(values)
        if arrow_family(values.type) != family:
            return None
        try:
            if not values.cast(kind).cast(values.type).equals(values):
                return None
            return _to_python(values)
        except (pa.ArrowException, ValueError, OverflowError):  # or a date after the year 9999
            return None


def _to_python(values: pa.Array) -> list[Value] | None:
    """`values` as Python has them; None if one is NaN, or has nanoseconds that no Python type has."""
    kind = values.type
    if kind == pa.time64("ns") or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        is_time = pa.types.is_time(kind)
        micros = values.cast(pa.time64("us") if is_time else pa.timestamp("us", kind.tz), safe=False)
        if not micros.cast(kind).equals(values):
            if is_time or kind.tz is not None:
                return None
            return [None if each is None else np.datetime64(each, "ns") for each in values.cast(pa.int64()).to_pylist()]
        values = micros
    plain: list[Value] = values.to_pylist()
    return None if any(isinstance(each, float) and math.isnan(each) for each in plain) else plain


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and not node.scalar.is_valid


def _opaque(node: Node) -> p.Opaque:
    """A condition that is not understood, with its text as far as it is known."""
    if isinstance(node, Field):
        return p.Opaque(column_to_sql(node.path), WhyNot.NOT_A_COMPARISON, "")
    if isinstance(node, Literal):
        return p.Opaque(PART, WhyNot.NOT_A_COMPARISON, "")
    columns = [column_to_sql(each.path) for each in node.arguments if isinstance(each, Field)]
    if node.function not in _COMPARISONS:
        return p.Opaque(PART, WhyNot.FUNCTION, "")
    if len(columns) == len(node.arguments):
        return p.Opaque(f" {_COMPARISONS[node.function][0].symbol} ".join(columns), WhyNot.TWO_COLUMNS, "")
    return p.Opaque(PART, WhyNot.NOT_A_COMPARISON if columns else WhyNot.FUNCTION, "")
