"""Converts SQL's conditions on functions of columns: on elements of lists and maps, on ``lower`` and ``upper``, and on
fields of VARIANT columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from sqlglot import exp

from bloomparquet.errors import PlanError
from bloomparquet.query.case_mapping import Case, CaseIn, case_equal_null_safe
from bloomparquet.query.elements import ContainsAny, ItemIn, Part
from bloomparquet.query.predicate import Always, Column, Predicate, map_leaves
from bloomparquet.query.sql.operands import Operands
from bloomparquet.query.variants import VariantField


def convert_function(node: Any, operands: Operands, convert: Callable[[Any], Predicate]) -> Predicate | None:
    """The predicate that `node` of sqlglot's tree means; None if it is about no such function. `convert` converts the
    comparison of a column."""
    predicate = _convert_elements(node, operands)
    if predicate is None:
        predicate = _convert_case_mapping(node, operands)
    return _convert_variant(node, operands, convert) if predicate is None else predicate


def is_plain_in(node: Any) -> bool:
    """Whether `node` is an IN with a list of values."""
    return isinstance(node, exp.In) and not any(node.args.get(key) for key in ("query", "unnest", "field"))


def _convert_elements(node: Any, operands: Operands) -> Predicate | None:
    if isinstance(node, exp.ArrayContains):
        column, part = _part_of(node.this, node, operands)
        value = operands.literal(node.expression, node)
        return Always(None) if value is None else ContainsAny(column, [value], part)
    if isinstance(node, exp.MapContainsKey):
        value = operands.literal(node.args["key"], node)
        return Always(None) if value is None else ContainsAny(operands.column(node.this, node), [value], "key")
    if _name(node) == "arrays_overlap" and len(node.expressions) == 2:
        array, literals = node.expressions
        if isinstance(array, exp.Array):
            array, literals = literals, array
        if not isinstance(literals, exp.Array):
            raise operands.refuse(node)
        column, part = _part_of(array, node, operands)
        return ContainsAny(column, [operands.literal(item, node) for item in literals.expressions], part)
    if isinstance(node, exp.Exists) and isinstance(node.expression, exp.Lambda):
        return _convert_exists(node, operands)
    if isinstance(node, exp.EQ):
        for accessed, value in (node.this, node.expression), (node.expression, node.this):
            if isinstance(_without_parentheses(accessed), exp.Bracket):
                return _convert_item(accessed, [value], node, operands)
    if isinstance(node, exp.NEQ):
        equality = _convert_elements(exp.EQ(this=node.this, expression=node.expression), operands)
        return None if equality is None else ~equality
    if isinstance(node, exp.In) and isinstance(_without_parentheses(node.this), exp.Bracket) and node.expressions:
        return _convert_item(node.this, node.expressions, node, operands)
    return None


def _convert_item(accessed: Any, values: list[Any], whole: Any, operands: Operands) -> Predicate:
    bracket = _without_parentheses(accessed)
    if len(bracket.expressions) != 1:
        raise operands.refuse(whole)
    first: Literal[0, 1] = 1 if bracket.args.get("offset") else 0
    item = operands.literal(bracket.expressions[0], whole)
    literals = [operands.literal(value, whole) for value in values]
    return ItemIn(operands.column(bracket.this, whole), item, literals, first=first)


def _convert_exists(node: Any, operands: Operands) -> Predicate:
    """``exists(c, x -> x = 1)`` and ``exists(c, x -> x IN (1, 2))``."""
    body = node.expression.this
    (name, *others) = (identifier.name for identifier in node.expression.expressions)

    def is_parameter(side: Any) -> bool:
        return isinstance(side, exp.Identifier) and side.name == name

    if others or not isinstance(body, exp.EQ | exp.In) or (isinstance(body, exp.In) and not body.expressions):
        raise operands.refuse(node)
    sides = (body.this, *body.expressions) if isinstance(body, exp.In) else (body.this, body.expression)
    if isinstance(body, exp.EQ) and not is_parameter(sides[0]):
        sides = sides[::-1]
    if not is_parameter(sides[0]):
        raise operands.refuse(node)
    column, part = _part_of(node.this, node, operands)
    return ContainsAny(column, [operands.literal(side, node) for side in sides[1:]], part)


def _part_of(node: Any, whole: Any, operands: Operands) -> tuple[Column, Part]:
    """The column and its part: of a list, or of the map in ``map_keys(column)`` or ``map_values(column)``."""
    if isinstance(node, exp.MapKeys):
        return operands.column(node.this, whole), "key"
    if _name(node) == "map_values" and len(node.expressions) == 1:
        return operands.column(node.expressions[0], whole), "value"
    return operands.column(node, whole), "element"


def _convert_case_mapping(node: Any, operands: Operands) -> Predicate | None:
    if is_plain_in(node):
        return _convert_case_in(node.this, node.expressions, node, operands)
    if not isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
        return None
    equality = _convert_case_in(node.this, [node.expression], node, operands)
    if equality is None:
        equality = _convert_case_in(node.expression, [node.this], node, operands)
    if equality is None:
        return None
    predicate: Predicate = equality
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        predicate = case_equal_null_safe(equality.column, equality.case, equality.values[0])
    return ~predicate if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else predicate


def _convert_case_in(mapped: Any, values: list[Any], whole: Any, operands: Operands) -> CaseIn | None:
    mapped = _without_parentheses(mapped)
    if not isinstance(mapped, exp.Lower | exp.Upper):
        return None
    case: Case = "lower" if isinstance(mapped, exp.Lower) else "upper"
    return CaseIn(operands.column(mapped.this, whole), case, [operands.literal(value, whole) for value in values])


def _convert_variant(node: Any, operands: Operands, convert: Callable[[Any], Predicate]) -> Predicate | None:
    """The comparison is converted with a column in place of the field, which is put back afterwards."""
    sides = {key: _without_parentheses(node.args.get(key)) for key in ("this", "expression")}
    is_field = (key for key, side in sides.items() if _name(side) in ("variant_get", "try_variant_get"))
    key = next(is_field, None)
    if key is None:
        return None
    function = sides[key]
    column = operands.column(function.expressions[0], node) if function.expressions else ()
    arguments = [operands.find_literal(argument) for argument in function.expressions[1:]]
    if len(arguments) != 2 or not all(isinstance(argument, str) for argument in arguments):
        raise operands.refuse(node)
    path, kind = arguments
    compared = node.copy()
    compared.set(key, function.expressions[0].copy())
    try:
        predicate = convert(compared)
    except PlanError:  # which shows the comparison of the column
        raise operands.refuse(node) from None
    return map_leaves(predicate, lambda leaf: VariantField(column, path, kind, leaf))


def _name(node: Any) -> str | None:
    """The name of a function that sqlglot has no class for."""
    return node.this.lower() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else None


def _without_parentheses(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
