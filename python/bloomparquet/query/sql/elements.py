"""Converts SQL's functions of lists and maps to predicates on elements."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from bloomparquet.query.elements import ContainsAny, ItemIn, Part
from bloomparquet.query.predicate import Always, Column, Predicate
from bloomparquet.query.values import Value


class Converter(Protocol):
    """The converter of :mod:`bloomparquet.query.sql.parse`, as far as the modules ``sql_*`` use it."""

    @property
    def exp(self) -> Any: ...
    def convert_supported(self, node: Any) -> Predicate: ...
    def column(self, node: Any, whole: Any) -> Column: ...
    def literal(self, node: Any, whole: Any) -> Value: ...
    def find_literal(self, node: Any) -> Any: ...
    def refuse(self, node: Any) -> Exception: ...


def convert_elements(node: Any, converter: Converter) -> Predicate | None:
    """The predicate that `node` of sqlglot's tree means; None if it is not about elements."""
    exp = converter.exp
    if isinstance(node, exp.ArrayContains):
        column, part = _part_of(node.this, node, converter)
        value = converter.literal(node.expression, node)
        return Always(None) if value is None else ContainsAny(column, [value], part)
    if isinstance(node, exp.MapContainsKey):
        value = converter.literal(node.args["key"], node)
        return Always(None) if value is None else ContainsAny(converter.column(node.this, node), [value], "key")
    if _function(node, exp) == "arrays_overlap" and len(node.expressions) == 2:
        array, literals = node.expressions
        if isinstance(array, exp.Array):
            array, literals = literals, array
        if not isinstance(literals, exp.Array):
            raise converter.refuse(node)
        column, part = _part_of(array, node, converter)
        return ContainsAny(column, [converter.literal(item, node) for item in literals.expressions], part)
    if isinstance(node, exp.Exists) and isinstance(node.expression, exp.Lambda):
        return _convert_exists(node, converter)
    if isinstance(node, exp.EQ):
        sides = (node.this, node.expression), (node.expression, node.this)
        for accessed, value in sides:
            if isinstance(without_parentheses(accessed, exp), exp.Bracket):
                return _convert_item(accessed, [value], node, converter)
    if isinstance(node, exp.NEQ):
        equality = convert_elements(exp.EQ(this=node.this, expression=node.expression), converter)
        return None if equality is None else ~equality
    if isinstance(node, exp.In) and isinstance(without_parentheses(node.this, exp), exp.Bracket) and node.expressions:
        return _convert_item(node.this, node.expressions, node, converter)
    return None


def _convert_item(accessed: Any, values: list[Any], whole: Any, converter: Converter) -> Predicate:
    bracket = without_parentheses(accessed, converter.exp)
    if len(bracket.expressions) != 1:
        raise converter.refuse(whole)
    first: Literal[0, 1] = 1 if bracket.args.get("offset") else 0
    item = converter.literal(bracket.expressions[0], whole)
    literals = [converter.literal(value, whole) for value in values]
    return ItemIn(converter.column(bracket.this, whole), item, literals, first=first)


def _convert_exists(node: Any, converter: Converter) -> Predicate:
    """``exists(c, x -> x = 1)`` and ``exists(c, x -> x IN (1, 2))``."""
    exp, body = converter.exp, node.expression.this
    (name, *others) = (identifier.name for identifier in node.expression.expressions)

    def is_parameter(side: Any) -> bool:
        return isinstance(side, exp.Identifier) and side.name == name

    if others or not isinstance(body, exp.EQ | exp.In) or (isinstance(body, exp.In) and not body.expressions):
        raise converter.refuse(node)
    sides = (body.this, *body.expressions) if isinstance(body, exp.In) else (body.this, body.expression)
    if isinstance(body, exp.EQ) and not is_parameter(sides[0]):
        sides = sides[::-1]
    if not is_parameter(sides[0]):
        raise converter.refuse(node)
    column, part = _part_of(node.this, node, converter)
    return ContainsAny(column, [converter.literal(side, node) for side in sides[1:]], part)


def _part_of(node: Any, whole: Any, converter: Converter) -> tuple[Column, Part]:
    """The column and its part: of a list, or of the map in ``map_keys(column)`` or ``map_values(column)``."""
    exp = converter.exp
    if isinstance(node, exp.MapKeys):
        return converter.column(node.this, whole), "key"
    if _function(node, exp) == "map_values" and len(node.expressions) == 1:
        return converter.column(node.expressions[0], whole), "value"
    return converter.column(node, whole), "element"


def _function(node: Any, exp: Any) -> str | None:
    """The name of a function that sqlglot has no class for."""
    return node.this.lower() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else None


def without_parentheses(node: Any, exp: Any) -> Any:
    """`node`, or the node inside it if it is a pair of parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
