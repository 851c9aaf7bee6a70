"""Converts SQL's comparisons of fields of VARIANT columns to predicates."""

from __future__ import annotations

from typing import Any

from bloomparquet.errors import PlanError
from bloomparquet.query.predicate import Leaf, Predicate
from bloomparquet.query.sql.elements import Converter, without_parentheses
from bloomparquet.query.variants import VariantField, map_leaves

_FUNCTIONS = ("variant_get", "try_variant_get")


def convert_variants(node: Any, converter: Converter) -> Predicate | None:
    """The predicate that `node` of sqlglot's tree means; None if it does not compare a field of a VARIANT.

    The comparison is converted with a column in place of the field, which is put back afterwards.
    """
    exp = converter.exp
    operands = {key: without_parentheses(node.args.get(key), exp) for key in ("this", "expression")}
    key = next((key for key, operand in operands.items() if _is_function(operand, exp)), None)
    if key is None:
        return None
    function = operands[key]
    column = converter.column(function.expressions[0], node) if function.expressions else ()
    arguments = [converter.find_literal(argument) for argument in function.expressions[1:]]
    if len(arguments) != 2 or not all(isinstance(argument, str) for argument in arguments):
        raise converter.refuse(node)
    path, kind = arguments
    compared = node.copy()
    compared.set(key, function.expressions[0].copy())

    def replace(leaf: Leaf) -> Predicate:
        return VariantField(column, path, kind, leaf)

    try:
        predicate = converter.convert_supported(compared)
    except PlanError:  # which shows the comparison of the column
        raise converter.refuse(node) from None
    return map_leaves(predicate, replace)


def _is_function(node: Any, exp: Any) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _FUNCTIONS
