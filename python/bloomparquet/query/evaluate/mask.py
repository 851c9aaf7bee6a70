"""Evaluates a predicate for Arrow rows, under SQL's three-valued logic and Spark's order of values.

Columns are compared with literals in :mod:`bloomparquet.query.domains`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import PlanError, UnsupportedError, join_names, quoted, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.arrow_values import FALSE, NULL, TRUE, make_scalar
from bloomparquet.query.case_mapping import CaseIn, require_text
from bloomparquet.query.domains import Domain, Test, comparable, constant, decoded, domain_of, invert
from bloomparquet.query.evaluate.case_mapping import map_case
from bloomparquet.query.evaluate.composite_keys import CompositeKeys, any_null, split_composite_keys
from bloomparquet.query.evaluate.elements import bind_elements, split_at_list
from bloomparquet.query.like import Like, to_regex
from bloomparquet.query.literals import coerce_all
from bloomparquet.query.names import find
from bloomparquet.query.nulls import value_for_null
from bloomparquet.query.predicate import Column, Leaf, Membership, Predicate
from bloomparquet.query.variants import VariantField

Convert = Callable[..., list[Any]]
"""A function with the signature of :func:`bloomparquet.query.literals.coerce_all`."""


def mask(
    predicate: Predicate, batch: pa.RecordBatch | pa.Table, *, timezone: str = "UTC", case_sensitive: bool = True
) -> pa.BooleanArray | pa.ChunkedArray:
    """The value of `predicate` for each row of `batch`: true, false or null. ``batch.filter`` keeps the true ones.

    Returns a boolean array for a record batch, a chunked array for a table. A column that `batch` lacks is NULL in
    every row. `timezone` is the zone of timestamp literals without an offset, for columns that are adjusted to UTC.
    Raises PlanError if a literal does not fit its column, if a column cannot be compared, or if a name is ambiguous;
    UnsupportedError for a field of a VARIANT.
    """
    return bind_mask(predicate, batch.schema, timezone=timezone, case_sensitive=case_sensitive)(batch)


def bind_mask(
    predicate: Predicate,
    schema: pa.Schema,
    *,
    timezone: str = "UTC",
    case_sensitive: bool = True,
    convert: Convert = coerce_all,
) -> Callable[[pa.RecordBatch | pa.Table], Any]:
    """:func:`mask` for many batches of one `schema`. Names are resolved and literals converted (by `convert`) once."""
    evaluate = _Binder(schema, timezone, case_sensitive, convert).bind(predicate)

    def masked(batch: pa.RecordBatch | pa.Table) -> Any:
        values = evaluate(_Rows(batch))
        if isinstance(batch, pa.Table) and not isinstance(values, pa.ChunkedArray):
            return pa.chunked_array([values], pa.bool_())
        return values

    return masked


@dataclass(eq=False)
class _Rows:
    """One batch, and a cache of its columns in their comparable types."""

    batch: pa.RecordBatch | pa.Table
    columns: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def repeat(self, value: bool | None) -> Any:
        return pa.repeat(make_scalar(value, pa.bool_()), self.batch.num_rows)

    def column(self, path: tuple[int, ...]) -> Any:
        if path not in self.columns:
            column = self.batch.column(path[0])
            for index in path[1:]:
                column = pc.struct_field(decoded(column), [index])
            self.columns[path] = comparable(column)
        return self.columns[path]


@dataclass(frozen=True)
class _Binder:
    """Turns predicates into functions of batches of one schema."""

    schema: pa.Schema
    timezone: str
    case_sensitive: bool
    convert: Convert

    def bind(self, node: Predicate) -> Callable[[_Rows], Any]:
        if isinstance(node, p.Always):
            value = node.value
            return lambda rows: rows.repeat(value)
        if isinstance(node, p.Not):
            child = self.bind(node.child)
            return lambda rows: pc.invert(child(rows))
        if isinstance(node, (p.And, p.Or)):
            children = self.bind_or(node) if isinstance(node, p.Or) else [self.bind(child) for child in node.children]
            combine = pc.and_kleene if isinstance(node, p.And) else pc.or_kleene
            if not children:
                return self.bind(p.Always(isinstance(node, p.And)))
            return lambda rows: reduce(combine, (child(rows) for child in children))
        if isinstance(node, p.Opaque):
            raise PlanError(node.refusal)
        if isinstance(node, p.ElementPredicate):
            return self.bind_elements(node)
        if isinstance(node, p.RowTest):
            return self.bind_row_test(node)
        if isinstance(node, VariantField):
            raise UnsupportedError(
                f"cannot find the rows of {shorten(str(node))}: pyarrow does not read the fields of a VARIANT; "
                "bp.plan finds the row groups, and Spark reads the rows"
            )
        assert isinstance(node, Leaf)
        return self.bind_leaf(node)

    def bind_or(self, node: p.Or) -> list[Callable[[_Rows], Any]]:
        composite, children = split_composite_keys(node.children)
        return [self.bind(child) for child in children] + [
            evaluate for columns, keys in composite.items() for evaluate in self.bind_composite_keys(columns, keys)
        ]

    def bind_composite_keys(self, columns: Sequence[Column], keys: Sequence[p.And]) -> list[Callable[[_Rows], Any]]:
        """The tests of `keys`, whose leaves are about `columns` in this order: one test, unless a column is missing or
        has values that are equal and stored in several ways."""
        each = [self.bind(key) for key in keys]
        paths_and_types = [self.find(column) for column in columns]
        leaves = zip(*(key.children for key in keys), strict=True)
        stored = [self.stored(some, kind) for some, (_, kind) in zip(leaves, paths_and_types, strict=True)]
        if any(values is None for values in stored) or not (lookup := CompositeKeys(stored)).is_usable:
            return each

        def evaluate(rows: _Rows) -> Any:
            arrays = [rows.column(path) for path, _ in paths_and_types]
            is_key, is_null = lookup.contain(arrays), any_null(arrays)
            if is_null is None:
                return is_key
            columns = {path: array.filter(is_null) for (path, _), array in zip(paths_and_types, arrays, strict=True)}
            some = _Rows(rows.batch, columns)  # FALSE or NULL, as another column decides
            rest = reduce(pc.or_kleene, (key(some) for key in each))
            return pc.replace_with_mask(*map(_in_one, (is_key, is_null, rest)))

        return [evaluate]

    def stored(self, leaves: Sequence[Any], kind: pa.DataType | None) -> pa.Array | None:
        """The literals of `leaves`, each an Eq of one column, as the column stores them; see :meth:`Domain.stored`."""
        if kind is None or pa.types.is_null(kind) or (domain := domain_of(kind)).family == "other":
            return None
        name = ".".join(leaves[0].column)
        values = [leaf.value for leaf in leaves]
        literals = self.convert(values, domain.family, timezone=self.timezone, column=name, kind=str(kind))
        return None if None in literals else domain.stored(literals)

    def bind_row_test(self, test: p.RowTest) -> Callable[[_Rows], Any]:
        names = [column[0] for column in test.columns]
        positions = [self.index(name, self.schema.names, (name,)) for name in names]

        def evaluate(rows: _Rows) -> Any:
            n_rows = rows.batch.num_rows
            arrays = [
                pa.nulls(n_rows, kind) if at is None else rows.batch.column(at)
                for at, kind in zip(positions, test.types, strict=True)
            ]
            if not arrays:  # a batch without columns does not know its rows
                return test.evaluate(pa.RecordBatch.from_arrays([pa.nulls(n_rows)], ["_"]))
            return test.evaluate(pa.RecordBatch.from_arrays(arrays, names))

        return evaluate

    def bind_elements(self, leaf: p.ElementPredicate) -> Callable[[_Rows], Any]:
        (path, kind), fields = split_at_list(leaf.column, self.find)
        if kind is None or pa.types.is_null(kind):
            return self.bind(p.Always(None))

        def make_test(values: Sequence[Any], kind: pa.DataType) -> Test:
            test = constant(None) if pa.types.is_null(kind) else self.test(p.In(leaf.column, values), kind)
            return lambda column: test(comparable(column))

        def find_field(name: str, names: Sequence[str]) -> int | None:
            return self.index(name, names, leaf.column)

        test = bind_elements(leaf, kind, fields, find_field, make_test)
        return lambda rows: test(rows.column(path))

    def bind_leaf(self, leaf: Leaf) -> Callable[[_Rows], Any]:
        path, kind = self.find(leaf.column)
        if kind is None or pa.types.is_null(kind):
            return self.bind(p.Always(value_for_null(leaf)))
        if isinstance(leaf, p.EqNullSafe) and leaf.value is None:
            leaf = p.IsNull(leaf.column)
        if isinstance(leaf, (p.IsNull, p.IsNotNull)):
            test: Test = pc.is_null if isinstance(leaf, p.IsNull) else pc.is_valid
        else:
            test = self.test(leaf, kind)
        return lambda rows: test(rows.column(path))

    def test(self, leaf: Leaf, kind: pa.DataType) -> Test:
        name, domain = ".".join(leaf.column), domain_of(kind)
        family = domain.family
        if family == "other":
            raise PlanError(
                f"column {quoted(name)} is of type {shorten(str(kind))}, which supports only IS NULL and IS NOT NULL"
            )
        if isinstance(leaf, Like) and family != "string":
            raise PlanError(f"LIKE needs a column of text, but column {quoted(name)} is of type {shorten(str(kind))}")
        if isinstance(leaf, Like):
            if "\\" in leaf.pattern:  # where it ends in %, Arrow's match_like takes a backslash as text
                return partial(pc.match_substring_regex, pattern=to_regex(leaf.pattern))
            return partial(pc.match_like, pattern=leaf.pattern)
        if isinstance(leaf, CaseIn):
            require_text(leaf, family, shorten(str(kind)))
        if isinstance(leaf, Membership | CaseIn):
            values = self.convert(leaf.values, family, timezone=self.timezone, column=name, kind=str(kind))
            contains = _contains(domain, values)
            if isinstance(leaf, CaseIn):
                case = leaf.case
                return lambda column: contains(map_case(column, case))
            return contains if isinstance(leaf, p.In) else invert(contains)
        if isinstance(leaf, p.StartsWith) and family not in ("string", "binary"):
            raise PlanError(
                f"startswith needs a column of text or bytes, but column {quoted(name)} is of type {shorten(str(kind))}"
            )
        assert isinstance(leaf, (p.Comparison, p.StartsWith))
        value = leaf.prefix if isinstance(leaf, p.StartsWith) else leaf.value
        (literal,) = self.convert([value], family, timezone=self.timezone, column=name, kind=str(kind))
        if literal is None:
            return constant(None)
        if isinstance(leaf, p.StartsWith):
            return lambda column: pc.starts_with(column, literal)
        if isinstance(leaf, p.EqNullSafe):
            equal = domain.equal(literal)
            return lambda column: pc.fill_null(equal(column), FALSE)
        if isinstance(leaf, (p.Eq, p.NotEq)):
            return domain.equal(literal) if isinstance(leaf, p.Eq) else invert(domain.equal(literal))
        at_most = domain.at_most(literal, inclusive=isinstance(leaf, (p.LtEq, p.Gt)))
        return invert(at_most) if isinstance(leaf, (p.Gt, p.GtEq)) else at_most

    def find(self, column: Column) -> tuple[tuple[int, ...], pa.DataType | None]:
        """The field index of the column at each level, and its type. The type is None if the column is missing."""
        path: list[int] = []
        fields: Sequence[pa.Field] = list(self.schema)
        kind: pa.DataType = None
        for part in column:
            if path and pa.types.is_nested(kind) and not pa.types.is_struct(kind):
                raise PlanError(
                    f"column {quoted('.'.join(column))} is inside a {shorten(str(kind))}; only structs have fields to "
                    "compare"
                )
            if path:
                fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
            index = self.index(part, [field.name for field in fields], column)
            if index is None:
                is_dotted = len(column) == 1 and "." in part
                return self.find(tuple(part.split("."))) if is_dotted else ((), None)
            path.append(index)
            kind = fields[index].type
        return tuple(path), kind

    def index(self, name: str, names: Sequence[str], column: Column) -> int | None:
        matching = find(names, name, self.case_sensitive)
        if len(matching) > 1:
            candidates = join_names(repr(names[i]) for i in matching)
            raise PlanError(f"column {quoted('.'.join(column))} is ambiguous: it could be any of {candidates}")
        return matching[0] if matching else None


def _in_one(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _contains(domain: Domain, values: Sequence[Any]) -> Test:
    """``IN (values)``. A row without an equal value is NULL if it is null or `values` has None, else FALSE."""
    if not values:
        return lambda column: pc.fill_null(constant(False)(column), FALSE)
    has_null = None in values
    is_in = domain.contains(value for value in values if value is not None)

    def contains(column: Any) -> Any:
        equal = is_in(column)
        if has_null:
            return pc.if_else(equal, TRUE, NULL)
        return equal if column.null_count == 0 else pc.if_else(pc.is_valid(column), equal, NULL)

    return contains
