"""Makes predicates of expressions of pyarrow and polars.

The library that made an expression evaluates it for rows. Evidence is asked about a predicate that the expression
implies. Public interfaces show that predicate: pyarrow writes expressions as Substrait, and polars hands a scan of a
pyarrow data set the part of a filter that pyarrow can evaluate.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from itertools import permutations
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import BloomParquetError, PlanError, UnsupportedError, first_line, shorten
from bloomparquet.query.polars_structs import is_equal, without_struct_fields
from bloomparquet.query.predicate import And, Eq, Opaque, Predicate, RowTest
from bloomparquet.query.resolve import rename
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
_UTC = (None, "UTC", "Etc/UTC")


def is_expression(where: object) -> bool:
    """Whether `where` is an expression of pyarrow or polars."""
    return isinstance(where, pc.Expression) or _is_polars(where)


def _is_polars(where: object) -> bool:
    polars = sys.modules.get("polars")  # the caller has imported it to make an expression
    return polars is not None and isinstance(where, polars.Expr)


def bind_expression(expression: Any, schemas: Iterable[pa.Schema]) -> RowTest:
    """`expression` as a predicate on the first of `schemas` that has its columns.

    Raises PlanError, with the message of the library, if there is none or if the types do not fit.
    """
    if _is_polars(expression):
        _require_row_by_row(expression)
    elif "FieldPath(" in str(expression):
        raise PlanError(
            f"where is {_describe(expression)}, which names a column by its number; expected names, as in "
            "pc.field('id'): numbers differ between files"
        )
    reason: Exception | None = None
    evaluate = partial(_evaluate_polars if _is_polars(expression) else _evaluate_arrow, expression)
    for schema in schemas:
        try:
            evaluate(_empty(schema))
        except Exception as error:  # noqa: BLE001 - polars has errors without a common base
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


def _require_row_by_row(expression: Any) -> None:
    if not hasattr(expression.meta, "is_row_separable"):
        raise UnsupportedError(
            "this release of polars does not say whether an expression looks at single rows; install polars 2.1"
        )
    if not _looks_at_single_rows(expression):
        raise PlanError(
            f"where is {_describe(expression)}, which may look at several rows; expected a condition on single rows: "
            "filter the result by it"
        )


def _looks_at_single_rows(expression: Any) -> bool:
    """Whether polars says of each function in `expression` that it looks at single rows. Others cannot be evaluated
    batch by batch."""
    pending = [expression]
    try:
        with _panics_are_errors():
            while pending:
                node = pending.pop()
                operands = node.meta.pop()
                if not node.meta.is_row_separable() or _is_in_column(node, operands):
                    return False
                pending += operands
    except Exception:  # noqa: BLE001 - some expressions mean nothing without a data frame
        return False
    return True


def _is_in_column(node: Any, operands: Sequence[Any]) -> bool:
    """Whether `node` is ``is_in`` with values that are a column: all rows of it, although polars says otherwise."""
    return len(operands) == 2 and any(
        values.meta.root_names() and any(is_equal(node, is_in, (operand, values)) for is_in in _IS_IN)
        for operand, values in permutations(operands)
    )


_IS_IN: tuple[Callable[[Any, Any], Any], ...] = (
    lambda operand, values: operand.is_in(values),
    lambda operand, values: operand.is_in(values, nulls_equal=True),
)


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
    except BloomParquetError:
        raise
    except Exception as error:  # noqa: BLE001 - as in bind_expression
        reason = _why_every_row_fails(evaluate, batch.schema)
        if reason is not None:
            raise PlanError(f"where is {text}, which does not fit the files: {reason}") from None
        # Messages of polars and pyarrow quote values, which may be of an encrypted column.
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


@contextmanager
def _panics_are_errors() -> Iterator[None]:
    """polars ends some mistakes with a panic, which is no Exception: nobody would catch it."""
    from polars.exceptions import PanicException

    try:
        yield
    except PanicException as error:
        reason = str(error).partition("\\n")[0]  # a panic quotes the message of the error that caused it
        raise PlanError(f"polars cannot evaluate it: {reason}") from error


def _evaluate_polars(expression: Any, batch: pa.RecordBatch) -> Any:
    import polars as pl

    with _panics_are_errors():
        rows: Any = pl.from_arrow(pa.Table.from_batches([batch]))
        matches = rows.select(matches=expression).to_series()
    if matches.dtype != pl.Boolean or len(matches) not in (1, batch.num_rows):  # 1: a literal
        raise PlanError(f"it gives {len(matches)} values of type {matches.dtype}; expected a Boolean for each row")
    return matches.to_arrow() if len(matches) == batch.num_rows else pa.repeat(matches[0], batch.num_rows)


def _with_text(implied: Predicate, expression: Any) -> Predicate:
    """`implied`, with the text of the whole `expression` if nothing of it is understood."""
    only = implied.children[0] if isinstance(implied, And) and len(implied.children) == 1 else implied
    return replace(only, sql=_describe(expression)) if isinstance(only, Opaque) else implied


def _is_whole(expression: Any, schema: pa.Schema) -> bool:
    """Whether polars passes on all of `expression`. It passes on an OR as a whole or not at all, so an OR of
    `expression` and another condition shows it."""
    if not any(operand.meta.pop() for operand in expression.meta.pop()):  # one condition, which has no parts
        return True
    import polars as pl

    return _to_arrow(expression | pl.col(schema.names[0]).is_null(), schema) is not None


def _implied(expression: Any, schema: pa.Schema) -> Iterator[Predicate]:
    """Predicates that are TRUE wherever `expression` is."""
    if _is_polars(expression):
        expression, schema, names = without_struct_fields(expression, schema)
        if names:
            yield from (rename(each, names) for each in _implied(expression, schema))
            return
        arrow = _to_arrow(expression, schema)
        if arrow is None or not _is_whole(expression, schema):
            yield Opaque("a part of the expression", WhyNot.NOT_A_COMPARISON, "")
        if arrow is None:
            return
        expression, schema = arrow, pa.schema(_compared_exactly(schema))
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


def _compared_exactly(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """The fields, except timestamps with a zone other than UTC, of whose literals polars passes on those with the offset
    applied twice, and timestamps of nanoseconds, which polars cuts to the unit of the literal."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield field.with_type(pa.struct(list(_compared_exactly(field.type))))
        elif not pa.types.is_timestamp(field.type) or (field.type.tz in _UTC and field.type.unit != "ns"):
            yield field


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


class _Capture:
    """Looks like a pyarrow data set to polars, and keeps the filter that it is asked for."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.filter: Any = None

    def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
        self.filter = options.get("filter")
        return iter(())

    def to_table(self, **options: Any) -> pa.Table:  # which older releases of polars call
        self.filter = options.get("filter")
        return self.schema.empty_table()


def _to_arrow(expression: Any, schema: pa.Schema) -> Any:
    """The part of the filter `expression` that polars passes on to pyarrow; None if it passes on nothing. It is true
    wherever the filter is."""
    import polars as pl

    capture: Any = _Capture(schema)
    try:
        with _panics_are_errors():
            pl.scan_pyarrow_dataset(capture).filter(expression).collect()
    except Exception:  # noqa: BLE001 - then nothing is known, and every row group is kept
        return None
    return capture.filter if isinstance(capture.filter, pc.Expression) else None
