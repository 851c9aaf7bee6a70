"""Rewrites polars expressions, with columns in place of the fields of structs. polars passes conditions on fields on to
no other library.

An expression is taken apart by its operands, and a part is only replaced if polars says that putting the operands
together again makes an equal expression.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any

import pyarrow as pa

from bloomparquet.query.predicate import Column

_MOST_NODES = 500
_MOST_FIELDS = 2_000
_COMBINATIONS: dict[int, tuple[Any, ...]] = {
    1: (operator.invert, lambda operand: operand.is_null(), lambda operand: operand.is_not_null()),
    2: (
        operator.and_, operator.or_, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
        lambda operand, values: operand.is_in(values),
    ),
    3: (lambda operand, low, high: operand.is_between(low, high),),
}  # fmt: skip
"""The operations that are understood, by their number of operands."""


def without_struct_fields(expression: Any, schema: pa.Schema) -> tuple[Any, pa.Schema, dict[Column, Column]]:
    """`expression` with columns in place of the fields of structs, `schema` with these columns, and the fields that the
    columns stand for."""
    roots = set(expression.meta.root_names())
    structs = [field for field in schema if field.name in roots and pa.types.is_struct(field.type)]
    fields = [each for field in structs for each in _fields(field, ())]
    if not fields or len(fields) > _MOST_FIELDS:
        return expression, schema, {}
    rewriter = _Rewriter(fields, set(schema.names))
    rewritten = rewriter.rewrite(expression)
    names: dict[Column, Column] = {(name,): path for name, (path, _) in rewriter.used.items()}
    return rewritten, pa.schema([*schema, *(pa.field(name, kind) for name, (_, kind) in rewriter.used.items())]), names


def _fields(field: pa.Field, above: Column) -> Iterator[tuple[Column, pa.DataType]]:
    path = (*above, field.name)
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from _fields(child, path)
    else:
        yield path, field.type


class _Rewriter:
    """Rewrites one expression. `used`: by the name of each new column, the path and the type of its field."""

    def __init__(self, fields: Iterable[tuple[Column, pa.DataType]], names: set[str]) -> None:
        self._fields, self._names, self._left = dict(fields), names, _MOST_NODES
        self.used: dict[str, tuple[Column, pa.DataType]] = {}

    def rewrite(self, node: Any) -> Any:
        self._left -= 1
        operands = node.meta.pop()
        if not operands or self._left < 0:
            return node
        if len(operands) == 1 and (column := self._column(node)) is not None:
            return column
        for ordered in permutations(operands) if len(operands) in _COMBINATIONS else ():
            for combine in _COMBINATIONS[len(operands)]:
                if is_equal(node, combine, ordered):
                    return combine(*map(self.rewrite, ordered))
        return node

    def _column(self, node: Any) -> Any:
        """The column in place of `node`; None if `node` is no field of a struct."""
        import polars as pl

        for path, kind in self._fields.items():
            field = pl.col(path[0])
            for name in path[1:]:
                field = field.struct.field(name)
            if node.meta.eq(field):
                name = ".".join(path)
                while name in self._names or self.used.get(name, (path,))[0] != path:  # another column's name
                    name += "_"
                self.used[name] = path, kind
                return pl.col(name)
        return None


def is_equal(node: Any, combine: Any, operands: Sequence[Any]) -> bool:
    """Whether `combine` makes `node` of these operands."""
    try:
        return bool(node.meta.eq(combine(*operands)))
    except Exception:  # noqa: BLE001 - polars refuses some combinations with errors of its own
        return False
