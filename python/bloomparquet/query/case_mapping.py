"""The predicate on ``lower(column)`` and ``upper(column)``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bloomparquet.errors import PlanError, quoted
from bloomparquet.query import predicate as p
from bloomparquet.query.literals import Family
from bloomparquet.query.names import column_to_sql
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.values import Value, describe, normalize_values, values_to_sql, without_none

Case = Literal["lower", "upper"]
"""A function that maps the case of text, by its name in SQL."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class CaseIn(p.FunctionPredicate):
    """The text of a column in lower or upper case is one of `values`: ``lower(column) IN (values)``.

    NULL, not FALSE, if the column is null, or if no value is equal and one of them is None. `values` are compared as
    they are: ``CaseIn("c", "lower", ["A"])`` matches no row.

    >>> bp.CaseIn("email", "lower", ["ann@example.com"])
    CaseIn('email', 'lower', ('ann@example.com',))
    >>> print(bp.CaseIn("country", "upper", ["CH", "DE"]))
    upper(country) IN ('CH', 'DE')
    """

    case: Case
    values: tuple[Value, ...]

    def __init__(self, column: str | Iterable[str], case: Case, values: Iterable[Any]) -> None:
        p.Leaf.__init__(self, column)
        object.__setattr__(self, "case", case)
        object.__setattr__(self, "values", normalize_values(values))
        if case not in get_args(Case):
            raise PlanError(f"the case of CaseIn is {describe(case)}; expected 'lower' or 'upper'")

    def normalized(self, *, negated: bool) -> p.Predicate:
        if negated:
            if None in self.values:
                return p.Always(False)
            return p.Not(self) if self.values else p.Always(True)
        values = without_none(self.values)
        return CaseIn(self.column, self.case, values) if values else p.Always(False)

    def to_sql(self, max_values: int | None) -> str:
        mapped = f"{self.case}({column_to_sql(self.column)})"
        values = values_to_sql(self.values, max_values)
        return f"{mapped} = {values}" if len(self.values) == 1 else f"{mapped} IN ({values})"


def case_equal_null_safe(column: str | Iterable[str], case: Case, value: Any) -> p.Predicate:
    """``lower(column) <=> value``: never NULL. NULL equals NULL."""
    return p.IsNull(column) if value is None else p.And(p.IsNotNull(column), CaseIn(column, case, [value]))


def needs_expression_filters(predicate: p.Predicate) -> bool:
    """Whether only filters of ``lower(column)`` or ``upper(column)`` can exclude row groups for `predicate`.

    IS NOT NULL counts as excluding nothing: Spark adds it to every comparison.
    """
    return any(isinstance(leaf, CaseIn) for leaf in p.leaves(predicate)) and not _has_other_evidence(
        normalize(predicate)
    )


def _has_other_evidence(predicate: p.Predicate) -> bool:
    """Whether evidence other than filters of expressions may exclude `predicate`, in negation normal form."""
    if isinstance(predicate, p.And):
        return any(map(_has_other_evidence, predicate.children))
    if isinstance(predicate, p.Or):
        return all(map(_has_other_evidence, predicate.children))
    return not isinstance(predicate.child if isinstance(predicate, p.Not) else predicate, CaseIn | p.IsNotNull)


def require_text(leaf: CaseIn, family: Family, kind: str) -> None:
    """PlanError if the column of `leaf`, of the type `kind` in `family`, is no text."""
    if family != "string":
        column = quoted(".".join(leaf.column))
        raise PlanError(f"{leaf.case} needs a column of text, but column {column} is of type {kind}")
