"""Reads the operands of conditions of SQL: columns and literals."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from bloomparquet.errors import PlanError, quoted
from bloomparquet.query.casts import cast_literal, require_decimal
from bloomparquet.query.predicate import Column
from bloomparquet.query.sql.opaque import is_column, sql_of
from bloomparquet.query.values import Value
from bloomparquet.query.why_not import WhyNot

_UNSUPPORTED = (
    "it is not supported; expected a column compared with a literal by =, <=>, <>, <, <=, >, >=, BETWEEN, IN, LIKE or "
    "IS NULL. To read rows, leave it out, and filter the result"
)
MISSING = object()
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]*")


class RefusedError(PlanError):
    """A condition is not supported, but the rest of the text may be. `why`: the reason for explanations, if known."""

    def __init__(self, message: str, why: WhyNot | None = None) -> None:
        super().__init__(message)
        self.why = why


class Operands:
    """Reads the operands in sqlglot's tree of `text`.

    Methods take a `node` of the tree. Their errors quote that node, or `whole`, the condition that it is part of.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def column(self, node: Any, whole: Any) -> Column:
        if isinstance(node, exp.Paren):
            return self.column(node.this, whole)
        parts = node.parts if is_column(node) else []
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            is_text = isinstance(node, exp.Literal) and node.is_string and '"' in self.text
            raise self.refuse_quotes(whole) if is_text else self.refuse(whole)
        return tuple(part.name for part in parts)

    def literal(self, node: Any, whole: Any) -> Value:
        value = self.find_literal(node)
        if value is MISSING:
            raise self.refuse(whole)
        return value  # type: ignore[no-any-return]

    def find_literal(self, node: Any) -> Any:
        """The value of `node` if it is a literal, else MISSING."""
        if isinstance(node, exp.Literal):
            return node.this if node.is_string else self.number(node)
        if isinstance(node, exp.Paren):
            return self.find_literal(node.this)
        if isinstance(node, exp.Boolean):
            return node.this
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Neg):
            negated = node.this
            value = self.cast(negated, negated=True) if isinstance(negated, exp.Cast) else self.find_literal(negated)
            if isinstance(value, Decimal):
                return value.copy_negate()  # unary minus would round to the context's precision
            return -value if type(value) in (int, float) else MISSING
        if isinstance(node, exp.HexString):
            digits = node.this
            if not _HEXADECIMAL.fullmatch(digits):
                raise self.refuse(node, "it is not hexadecimal")
            return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        if isinstance(node, exp.RawString):
            return node.this
        if isinstance(node, exp.Concat):
            parts = [self.find_literal(part) for part in node.expressions]
            return "".join(parts) if all(isinstance(part, str) for part in parts) else MISSING
        if isinstance(node, exp.Cast):
            return self.cast(node)
        return MISSING

    def number(self, node: Any) -> int | float | Decimal:
        text = node.this
        try:
            if text.isdecimal():
                return int(text)
            return float(text) if "e" in text.lower() else Decimal(text)
        except (ValueError, InvalidOperation):
            raise self.refuse(node, "it is not a number") from None

    def cast(self, node: Any, *, negated: bool = False) -> Any:
        """The value of a cast. sqlglot parses ``1.5D`` and ``DATE '2024-05-17'`` as casts, too."""
        value, kind = self.find_literal(node.this), node.to.this.value
        if kind == "DECIMAL":
            require_decimal(sql_of(node), [parameter.name for parameter in node.to.expressions])
        if node.to.args.get("collate"):
            # Spark refuses most such comparisons, and finds unequal bytes equal in the others.
            raise self.refuse(node, "it has a collation")
        if value is MISSING or value is None:
            return value
        try:
            parameters = [int(parameter.name) for parameter in node.to.expressions]
            return cast_literal(value, kind, parameters, negated=negated)
        except (ValueError, ArithmeticError, PlanError):
            raise self.refuse(node, f"{quoted(value)} is not exactly representable as {kind}") from None

    def refuse(self, node: Any, reason: str = _UNSUPPORTED, why: WhyNot | None = None) -> PlanError:
        return RefusedError(f"cannot use {quoted(sql_of(node))} in where: {reason}", why)

    def refuse_quotes(self, node: Any) -> PlanError:
        """The error for a column in double quotes."""
        why = WhyNot.DOUBLE_QUOTES
        return self.refuse(node, f"{why.sentence}; {why.remedy}", why)
