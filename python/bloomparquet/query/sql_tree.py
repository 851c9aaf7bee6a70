"""Parses SQL text to sqlglot's tree of a condition.

sqlglot is imported only when there is text to parse: it is large, and Spark's workers never need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from bloomparquet.errors import PlanError, quoted, shorten


@lru_cache(maxsize=1)
def _dialect() -> Any:
    from sqlglot.dialects.spark import Spark

    class BloomparquetWhere(Spark):
        """Spark's dialect, with ``''`` inside a string as one quote, as in Spark 4.0."""

        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012

    return BloomparquetWhere


def parse_condition(text: str) -> Any:
    """The tree of `text`. PlanError with the position where it is no condition; RecursionError if it nests deeply."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError, SqlglotError

    try:
        return parse_one(text, dialect=_dialect(), into=exp.Condition)
    except ParseError as error:
        raise PlanError(f"cannot parse where {_position(error.errors)}: {shorten(text)}") from None
    except SqlglotError as error:
        raise PlanError(f"cannot parse where ({error}): {shorten(text)}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # over .2.BD, for example
        raise PlanError(f"cannot parse where: {shorten(text)}") from error


def _position(errors: Sequence[dict[str, Any]]) -> str:
    first = errors[0] if errors else {}
    line, column, token = first.get("line"), first.get("col"), str(first.get("highlight") or "")
    if line is None or column is None:
        return "to its end"
    position = f"at line {line}, column {max(column - len(token) + 1, 1)}, near {quoted(token)}"
    if token.upper() in ("SELECT", "WHERE"):
        return f"{position} (write only the condition, without SELECT or WHERE)"
    return position + (" (something is missing after it)" if "missing" in str(first.get("description")) else "")
