"""Values that a row test computes from columns: functions of columns, and comparisons of two of them.

Evidence is about stored values, so a condition on a computed value skips nothing.
:mod:`bloomparquet.query.evaluate.computed` evaluates it for rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from bloomparquet.query.names import column_to_sql
from bloomparquet.query.values import to_sql as literal_to_sql

ColumnPath = tuple[str, ...]
Operand = Union["Call", ColumnPath, str, int, None]
"""A call, a column as its path, or a literal argument of a call. None: an argument that was left out."""

COMPARISONS = ("=", "<>", "<=>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Call:
    """A function of SQL by its name, or one of :data:`COMPARISONS`."""

    name: str
    arguments: tuple[Operand, ...]

    def __str__(self) -> str:
        arguments = [operand_to_sql(argument) for argument in self.arguments if argument is not None]
        return f" {self.name} ".join(arguments) if self.name in COMPARISONS else f"{self.name}({', '.join(arguments)})"

    @property
    def columns(self) -> tuple[ColumnPath, ...]:
        """The columns that the value is computed from."""
        pending: list[Operand] = [self]
        columns: dict[ColumnPath, None] = {}
        while pending:
            operand = pending.pop()
            if isinstance(operand, Call):
                pending.extend(operand.arguments)
            elif isinstance(operand, tuple):
                columns[operand] = None
        return tuple(columns)

    def rename(self, names: Mapping[ColumnPath, ColumnPath]) -> Call:
        """The call with each column replaced by ``names[column]``, if there is such an entry."""

        def renamed(operand: Operand) -> Operand:
            if isinstance(operand, Call):
                return operand.rename(names)
            return names.get(operand, operand) if isinstance(operand, tuple) else operand

        return Call(self.name, tuple(map(renamed, self.arguments)))


def operand_to_sql(operand: Operand) -> str:
    """The SQL text of a call, a column or a literal."""
    if isinstance(operand, Call):
        return str(operand)
    return column_to_sql(operand) if isinstance(operand, tuple) else literal_to_sql(operand)
