"""Makes predicates of expressions of pyarrow.

pyarrow evaluates an expression for rows. Evidence is asked about a predicate that the expression implies, which
pyarrow shows by writing expressions as Substrait.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import PlanError, first_line, shorten
from bloomparquet.query.predicate import And, Eq, Opaque, Predicate, RowTest
from bloomparquet.query.why_not import WhyNot

_MAX_DEPTH = 12  # pyarrow's Substrait of nested calls doubles with each level: 22 ANDs are 805 MB
_PLAIN = (
    pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary, pa.types.is_date32,
    pa.types.is_float64, pa.types.is_float32, pa.types.is_decimal128, pa.types.is_uint64,
)  # fmt: skip
"""The types of Substrait plans that are understood."""
_LIKE_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (lambda kind: pa.types.is_unsigned_integer(kind) and kind.bit_width < 64, lambda _: pa.int64()),
    (pa.types.is_timestamp, lambda kind: pa.timestamp("us", kind.tz)), (pa.types.is_time, lambda _: pa.time64("us")),
    (pa.types.is_date64, lambda _: pa.date32()), (pa.types.is_large_string, lambda _: pa.string()),
    (pa.types.is_string_view, lambda _: pa.string()), (pa.types.is_large_binary, lambda _: pa.binary()),
    (pa.types.is_binary_view, lambda _: pa.binary()), (pa.types.is_fixed_size_binary, lambda _: pa.binary()),
    (lambda kind: pa.types.is_decimal256(kind) and 0 <= kind.scale <= 38, lambda kind: pa.decimal128(38, kind.scale)),
    (pa.types.is_dictionary, lambda kind: _plain_type(kind.value_type)),
)  # fmt: skip
"""Types that Substrait lacks, and the type of a plan that stands for each. Arrow compares both exactly: it converts
neither side to a coarser unit or fewer digits."""


def is_expression(where: object) -> bool:
    """Whether `where` is an expression of pyarrow."""
    return isinstance(where, pc.Expression)


def bind_expression(expression: Any, schemas: Iterable[pa.Schema]) -> RowTest:
    """`expression` as a predicate on the first of `schemas` that has its columns.

    Raises PlanError, with the message of pyarrow, if there is none or if the types do not fit.
    """
    if "FieldPath(" in str(expression):
        raise PlanError(
            f"where is {_describe(expression)}, which names a column by its number; expected names, as in "
            "pc.field('id'): numbers differ between files"
        )
    reason: Exception | None = None
    evaluate = partial(_evaluate_arrow, expression)
    for schema in schemas:
        try:
            evaluate(_empty(schema))
        except Exception as error:  # noqa: BLE001 - functions that users register raise anything
            reason = reason or error
            continue
        needed = pa.schema([schema.field(name) for name in _needed(evaluate, schema, schema.names)])
        implied = _with_text(And(*_implied(expression, needed)), expression)
        return RowTest(
            tuple((name,) for name in needed.names),
            _describe(expression),
            implied,
            partial(_evaluate_rows, evaluate, _describe(expression)),
            tuple(needed.types),
        )
    why = "" if reason is None else first_line(reason)
    raise PlanError(f"where is {_describe(expression)}, which does not fit the files: {why}") from reason


def _describe(expression: Any) -> str:
    return shorten(" ".join(str(expression).split()), 2_000)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _needed(evaluate: Callable[[pa.RecordBatch], Any], schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """The columns among `names` that an expression needs. Leaves out half of them at a time, because most are not
    needed."""
    some = set(names)
    try:
        evaluate(_empty(pa.schema([field for field in schema if field.name not in some])))
    except Exception:  # noqa: BLE001 - as in bind_expression
        if len(names) == 1:
            return list(names)
        half = len(names) // 2
        return [*_needed(evaluate, schema, names[:half]), *_needed(evaluate, schema, names[half:])]
    return []


def _evaluate_rows(evaluate: Callable[[pa.RecordBatch], Any], text: str, batch: pa.RecordBatch) -> Any:
    try:
        return evaluate(batch)
    except Exception as error:  # noqa: BLE001 - as in bind_expression
        reason = _why_every_row_fails(evaluate, batch.schema)
        if reason is not None:
            raise PlanError(f"where is {text}, which does not fit the files: {reason}") from None
        # Messages of pyarrow quote values, which may be of an encrypted column.
        raise PlanError(
            f"where is {text}, which fails for some rows ({type(error).__name__}); exclude them first, or cast so that "
            "values that do not fit become null"
        ) from None


def _why_every_row_fails(evaluate: Callable[[pa.RecordBatch], Any], schema: pa.Schema) -> str | None:
    """The error for a row of nulls, which quotes no data; None if there is none. Not all types fail without rows."""
    try:
        nulls = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)
    except pa.ArrowException:  # a type that has no nulls
        return None
    try:
        evaluate(nulls)
    except Exception as error:  # noqa: BLE001 - as in bind_expression
        return first_line(error)
    return None


def _evaluate_arrow(expression: Any, batch: pa.RecordBatch) -> Any:
    import pyarrow.dataset as ds

    rows = ds.InMemoryDataset(pa.Table.from_batches([batch]))
    return rows.to_table(columns={"matches": expression}).column("matches").combine_chunks()


def _with_text(implied: Predicate, expression: Any) -> Predicate:
    """`implied`, with the text of the whole `expression` if nothing of it is understood."""
    only = implied.children[0] if isinstance(implied, And) and len(implied.children) == 1 else implied
    return replace(only, sql=_describe(expression)) if isinstance(only, Opaque) else implied


def _implied(expression: Any, schema: pa.Schema) -> Iterator[Predicate]:
    """Predicates that are TRUE wherever `expression` is."""
    plain = pa.schema(_plain_fields(schema))
    try:
        plan = None if _depth(str(expression)) > _MAX_DEPTH else bytes(expression.to_substrait(plain))
    except (pa.ArrowException, ValueError, OverflowError):  # one function, cast or type that Substrait does not have
        plan = None
    if plan is None:
        equalities = list(_equalities(expression, plain))
        yield from equalities
        known = [pc.field(each.column[0]) == each.value for each in equalities if _fits_64_bits(each.value)]
        if not known or str(reduce(and_, known)) != str(expression):
            yield Opaque("a part of the expression", WhyNot.NOT_A_COMPARISON, "")
        return
    from bloomparquet.query.substrait import implied_by  # lazy import: protobuf

    yield implied_by(plan, plain)


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that `kind` has in a Substrait plan; None if it is not understood."""
    if any(check(kind) for check in _PLAIN):
        return kind
    return next((plain(kind) for check, plain in _LIKE_PLAIN if check(kind)), None)


def _plain_fields(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """The fields whose types are understood, and structs of such fields."""
    for field in fields:
        if pa.types.is_struct(field.type):
            if inner := list(_plain_fields(field.type)):
                yield field.with_type(pa.struct(inner))
        elif (kind := _plain_type(field.type)) is not None:
            yield field.with_type(kind)


def _depth(text: str) -> int:
    """The depth of nested parentheses in the text of an expression."""
    steps = np.frombuffer(text.encode(), np.uint8)
    return int(np.cumsum((steps == ord("(")).astype(np.int64) - (steps == ord(")"))).max(initial=0))


def _equalities(expression: Any, schema: pa.Schema) -> Iterator[Eq]:
    """The equalities among the operands of an AND, whatever its other operands are."""
    import pyarrow.dataset as ds

    try:
        values = ds.get_partition_keys(expression)
    except (AssertionError, pa.ArrowException, ValueError, OverflowError):  # ValueError: nanoseconds without pandas
        return
    for name, value in values.items():
        index = schema.get_field_index(name)
        if index >= 0 and _is_exact(value, schema.field(index).type):
            yield Eq((name,), value)


def _fits_64_bits(value: Any) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63  # pyarrow makes no scalars of others


def _is_exact(value: Any, kind: pa.DataType) -> bool:
    """Whether Arrow compares a column of type `kind` with `value` without a conversion of the column."""
    if pa.types.is_timestamp(kind) and isinstance(value, dt.datetime):
        return (value.tzinfo is None) is (kind.tz is None)
    return any(type(value) is python and check(kind) for check, python in _EXACT)


_EXACT = (
    (pa.types.is_integer, int), (pa.types.is_boolean, bool), (pa.types.is_string, str), (pa.types.is_binary, bytes),
)  # fmt: skip
