r"""The predicate on patterns with wildcards. A pattern whose only wildcard is a % at its end is ``StartsWith`` instead.

As in Spark, % stands for any text, _ for one character, and ``\`` before %, _ or ``\`` takes away its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import PlanError
from bloomparquet.query.names import column_to_sql
from bloomparquet.query.predicate import FunctionPredicate, Leaf, Not, Predicate
from bloomparquet.query.values import describe
from bloomparquet.query.values import to_sql as literal_to_sql

_WILDCARDS = {"%": ".*", "_": "."}
_VALID = re.compile(r"(?:[^\\\ud800-\udfff]|\\[\\%_])*", re.DOTALL)  # halves of surrogate pairs are no text


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Like(FunctionPredicate):
    """``column LIKE pattern``. NULL if the column is null."""

    pattern: str

    def __init__(self, column: str | Iterable[str], pattern: Any) -> None:
        Leaf.__init__(self, column)
        if not isinstance(pattern, str) or not _VALID.fullmatch(pattern):
            raise PlanError(f"the pattern of LIKE is {describe(pattern)}; expected text, \\ only before %, _ and \\")
        object.__setattr__(self, "pattern", pattern)

    @property
    def prefix(self) -> str:
        """The text before the first wildcard."""
        return split_pattern(self.pattern)[0]

    def normalized(self, *, negated: bool) -> Predicate:
        return Not(self) if negated else self

    def to_sql(self, max_values: int | None) -> str:
        return f"{column_to_sql(self.column)} LIKE {literal_to_sql(self.pattern)}"


def to_regex(pattern: str) -> str:
    """The regular expression in RE2's syntax that matches the texts that `pattern` matches."""
    tokens = (_WILDCARDS.get(token) or _regex_of(token[-1]) for token in re.findall(r"\\.|.", pattern, re.DOTALL))
    return rf"(?s)\A{''.join(tokens)}\z"


def _regex_of(character: str) -> str:
    return character if character.isalnum() else rf"\x{{{ord(character):x}}}"


def escape_pattern(text: str) -> str:
    """The pattern that only `text` itself matches."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def split_pattern(pattern: str) -> tuple[str, str]:
    r"""The text of a LIKE pattern before its first wildcard, unescaped, and the rest. ``\%`` is an escaped %."""
    match = re.match(r"((?:[^\\%_]|\\[\\%_])*)(.*)", pattern, re.DOTALL)
    assert match is not None
    return re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL), match[2]
