"""Converts SQL's conditions on functions of columns, and comparisons of two columns, to tests of computed values.

The functions are those whose result is proven equal to Spark's. All others stay refused.
"""

from __future__ import annotations

from typing import Any

from bloomparquet.query.computed import Call, Operand
from bloomparquet.query.predicate import Eq, Not, Predicate
from bloomparquet.query.sql.elements import Converter, without_parentheses
from bloomparquet.query.sql.opaque import is_column

_FUNCTIONS = {
    "Length": "length", "Lower": "lower", "Upper": "upper", "Abs": "abs", "Year": "year", "Month": "month",
    "Day": "day", "DayOfMonth": "day", "IsNan": "isnan",
}  # fmt: skip
"""Functions of one argument, by the names of sqlglot's classes."""

_TRIMS = {None: "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_MOST = (1 << 31) - 1  # positions and lengths are INT


def convert_computed(node: Any, converter: Converter) -> tuple[Call, Predicate] | None:
    """The computed value that `node` of sqlglot's tree tests, and the predicate on it. None if it tests no such
    value."""
    exp = converter.exp
    operators = {
        exp.EQ: "=", exp.NEQ: "<>", exp.NullSafeEQ: "<=>", exp.NullSafeNEQ: "<=>", exp.LT: "<", exp.LTE: "<=",
        exp.GT: ">", exp.GTE: ">=",
    }  # fmt: skip
    tests = exp.In | exp.Between | exp.Is | exp.Like | exp.StartsWith | exp.EndsWith | exp.Contains
    if isinstance(node, exp.IsNan):
        return _is_true(_to_call(node, node, converter))
    keys = ["this"] if isinstance(node, tests) else []
    if type(node) in operators:
        keys = ["this", "expression"]
        sides = [without_parentheses(node.args[key], exp) for key in keys]
        if all(_is_computed(side, exp) or is_column(side, exp) for side in sides):
            comparison = Call(operators[type(node)], tuple(_to_operand(side, node, converter) for side in sides))
            return _is_true(comparison, negated=isinstance(node, exp.NullSafeNEQ))
    key = next((key for key in keys if _is_computed(without_parentheses(node.args[key], exp), exp)), None)
    if key is None:
        return None
    call = _to_call(without_parentheses(node.args[key], exp), node, converter)
    # The condition is converted as that of a column, whose place the computed value takes.
    test = node.copy()
    test.set(key, exp.column(exp.to_identifier(str(call), quoted=True)))
    return call, converter.convert_supported(test)


def _is_true(call: Call, *, negated: bool = False) -> tuple[Call, Predicate]:
    equal: Predicate = Eq((str(call),), True)
    return call, Not(equal) if negated else equal


def _is_computed(node: Any, exp: Any) -> bool:
    is_call = type(node).__name__ in _FUNCTIONS or isinstance(
        node, exp.Trim | exp.Substring | exp.Left | exp.Right | exp.Concat | exp.DPipe
    )
    return is_call and next(node.find_all(exp.Column), None) is not None


def _to_operand(node: Any, whole: Any, converter: Converter) -> Operand:
    """The column or the call that `node` is."""
    node = without_parentheses(node, converter.exp)
    if _is_computed(node, converter.exp):
        return _to_call(node, whole, converter)
    return converter.column(node, whole)


def _to_call(node: Any, whole: Any, converter: Converter) -> Call:
    exp = converter.exp
    kind, given = type(node).__name__, {key for key, value in node.args.items() if value}
    if kind in _FUNCTIONS and given == {"this"}:
        argument = node.this
        if isinstance(argument, exp.TsOrDsToDate) and set(argument.args) == {"this"}:  # sqlglot puts it there
            argument = argument.this
        return Call(_FUNCTIONS[kind], (_to_operand(argument, whole, converter),))
    if isinstance(node, exp.Trim) and given <= {"this", "position"} and node.args.get("position") in _TRIMS:
        return Call(_TRIMS[node.args.get("position")], (_to_operand(node.this, whole, converter),))
    if isinstance(node, exp.Substring) and {"start"} <= given <= {"this", "start", "length"}:
        numbers = [_to_integer(node.args.get(key), whole, converter) for key in ("start", "length")]
        return Call("substring", (_to_operand(node.this, whole, converter), *numbers))
    if isinstance(node, exp.Left | exp.Right) and given == {"this", "expression"}:
        number = _to_integer(node.expression, whole, converter)
        return Call(kind.lower(), (_to_operand(node.this, whole, converter), number))
    if isinstance(node, exp.Concat):
        return _concat(node.expressions, whole, converter)
    if isinstance(node, exp.DPipe):
        return _concat([node.this, node.expression], whole, converter)
    raise converter.refuse(whole)


def _concat(parts: list[Any], whole: Any, converter: Converter) -> Call:
    arguments: list[Operand] = []
    for part in parts:
        value = converter.find_literal(part)
        arguments.append(value if isinstance(value, str) else _to_operand(part, whole, converter))
    return Call("concat", tuple(arguments))


def _to_integer(node: Any, whole: Any, converter: Converter) -> int | None:
    """The value of a literal INT; None for an argument that is left out."""
    if node is None:
        return None
    value = converter.literal(node, whole)
    if type(value) is not int or abs(value) > _MOST:
        raise converter.refuse(whole)
    return value
