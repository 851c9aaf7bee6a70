"""Evaluates functions of columns for Arrow rows as Spark does.

Spark converts arguments that do not have the type which a function takes. Here, such an argument is an error. Arrays of
values are in the comparable types of :mod:`bloomparquet.query.domains`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import BloomParquetError, FormatError, PlanError, shorten
from bloomparquet.query.computed import COMPARISONS, Call, ColumnPath, Operand, operand_to_sql
from bloomparquet.query.domains import arrow_family, decoded_type
from bloomparquet.query.evaluate.case_mapping import map_case
from bloomparquet.query.evaluate.pairs import bind_pair, compare_missing


class Rows(Protocol):
    """The rows of one batch."""

    @property
    def batch(self) -> pa.RecordBatch | pa.Table: ...

    def column(self, path: tuple[int, ...]) -> Any:
        """The column at `path` in its comparable type."""


class Computed(NamedTuple):
    """The Arrow type of values, and how they are computed for rows."""

    kind: pa.DataType
    values: Callable[[Rows], Any]


Find = Callable[[ColumnPath], tuple[tuple[int, ...], pa.DataType | None]]


def bind_call(call: Call, find: Find) -> Computed:
    """The values of `call`. `find` gives the position and the type of a column; None if the column is missing.

    Raises PlanError if the types of the columns do not fit. The function raises PlanError where a value is out of
    range, and FormatError for text that is not UTF-8.
    """
    arguments = [_bind(argument, call, find) for argument in call.arguments]
    if call.name in COMPARISONS:
        return _compare(call, *arguments)
    if call.name == "isnan":
        return _is_nan(call, arguments[0])
    kinds = [argument.kind for argument in arguments if isinstance(argument, Computed)]
    if any(map(pa.types.is_null, kinds)):
        return Computed(pa.null(), lambda rows: pa.nulls(rows.batch.num_rows))
    if call.name == "concat":
        return _concat(call, arguments)
    compute = _FUNCTIONS[call.name](call, kinds[0])
    values, kind = arguments[0].values, compute.kind
    return Computed(kind, lambda rows: compute.values(values(rows)))


def _bind(operand: Operand, call: Call, find: Find) -> Any:
    if isinstance(operand, Call):
        return bind_call(operand, find)
    if not isinstance(operand, tuple):
        return operand
    path, kind = find(operand)
    if kind is None or pa.types.is_null(kind):
        return Computed(pa.null(), lambda rows: pa.nulls(rows.batch.num_rows))
    if arrow_family(kind) in ("other", "uuid"):
        raise _cannot(call, f"column {operand_to_sql(operand)} is of type {shorten(str(kind))}")
    return Computed(decoded_type(kind), lambda rows: rows.column(path))


class _Function(NamedTuple):
    """The type of a function's result, and the function of an array."""

    kind: pa.DataType
    values: Callable[[Any], Any]


def _require(call: Call, kind: pa.DataType, expected: str, *families: str, argument: int = 0) -> str:
    """The family of `kind`, the type of one argument. PlanError if it is not one of `families`."""
    family = arrow_family(kind)
    if family not in families:
        operand = shorten(operand_to_sql(call.arguments[argument]))
        raise _cannot(call, f"{call.name} needs {expected}, but {operand} is of type {shorten(str(kind))}")
    return family


def _cannot(call: Call, reason: str, error: type[BloomParquetError] = PlanError) -> BloomParquetError:
    return error(
        f"cannot evaluate {shorten(str(call))}: {reason}; leave this condition out, and filter the rows that were read"
    )


def _length(call: Call, kind: pa.DataType) -> _Function:
    _require(call, kind, "a column of text", "string")
    return _Function(pa.int64(), lambda column: pc.utf8_length(_valid_text(column, call)).cast(pa.int64()))


def _trim(call: Call, kind: pa.DataType) -> _Function:
    """Spark trims U+0020 alone."""
    _require(call, kind, "a column of text", "string")
    trim = {"trim": pc.ascii_trim, "ltrim": pc.ascii_ltrim, "rtrim": pc.ascii_rtrim}[call.name]
    return _Function(kind, partial(trim, characters=" "))


def _map_case(call: Call, kind: pa.DataType) -> _Function:
    _require(call, kind, "a column of text", "string")
    case: Any = call.name
    return _Function(kind, lambda column: map_case(column, case))


def _substring(call: Call, kind: pa.DataType) -> _Function:
    """Positions count from 1, or from -1 at the end; 0 is 1. A position before the text shortens the result."""
    _require(call, kind, "a column of text", "string")
    numbers: Any = call.arguments[1:]
    position, length = {"substring": numbers, "left": (1, numbers[0]), "right": (-numbers[0], None)}[call.name]
    start: int
    stop: int | None
    if (length is not None and length <= 0) or (call.name == "right" and position >= 0):
        start, stop = 0, 0
    else:
        start = position - 1 if position > 0 else position
        stop = None if length is None or start < 0 <= start + length else start + length
    return _Function(kind, lambda column: pc.utf8_slice_codeunits(_valid_text(column, call), start, stop))


def _abs(call: Call, kind: pa.DataType) -> _Function:
    if _require(call, kind, "a column of numbers", "integer", "float", "decimal") == "decimal" and kind.precision > 34:
        _require(call, kind, "decimals of at most 34 digits, because Spark rounds longer ones")

    def absolute(column: Any) -> Any:
        try:
            return pc.abs_checked(column)
        except pa.ArrowInvalid:
            reason = (
                f"the least {shorten(str(kind))} has no absolute value, and Spark's depends on spark.sql.ansi.enabled"
            )
            raise _cannot(call, reason) from None

    return _Function(kind, absolute)


def _date_part(call: Call, kind: pa.DataType) -> _Function:
    """Arrow's functions have years of 16 bits."""
    if not pa.types.is_date32(kind):
        _require(call, kind, "a column of dates")

    def part(column: Any) -> Any:
        days = np.asarray(pc.fill_null(column, 0)).astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        if call.name == "year":
            values = months.astype("datetime64[Y]").astype(np.int64) + 1970
        elif call.name == "month":
            values = months.astype(np.int64) % 12 + 1
        else:
            values = (days - months).astype(np.int64) + 1
        return pa.array(values, pa.int64(), mask=np.asarray(pc.is_null(column)))

    return _Function(pa.int64(), part)


_FUNCTIONS: dict[str, Callable[[Call, pa.DataType], _Function]] = {
    "length": _length, "trim": _trim, "ltrim": _trim, "rtrim": _trim, "lower": _map_case, "upper": _map_case,
    "substring": _substring, "left": _substring, "right": _substring, "abs": _abs, "year": _date_part,
    "month": _date_part, "day": _date_part,
}  # fmt: skip


def _valid_text(column: Any, call: Call) -> Any:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _cannot(call, f"the text is not UTF-8 ({error})", FormatError) from None
    return column


def _concat(call: Call, arguments: list[Any]) -> Computed:
    for i, argument in enumerate(arguments):
        if isinstance(argument, Computed):
            _require(call, argument.kind, "columns of text", "string", argument=i)
    text = pa.large_string()
    literals = [None if isinstance(each, Computed) else pa.scalar(each, text) for each in arguments]

    def joined(rows: Rows) -> Any:
        parts = [
            argument.values(rows).cast(text) if literal is None else literal
            for argument, literal in zip(arguments, literals, strict=True)
        ]
        return pc.binary_join_element_wise(*parts, pa.scalar("", text), null_handling="emit_null")

    return Computed(text, joined)


def _is_nan(call: Call, argument: Computed) -> Computed:
    if pa.types.is_null(argument.kind):
        return Computed(pa.bool_(), lambda rows: pa.repeat(False, rows.batch.num_rows))
    _require(call, argument.kind, "a column of floating-point numbers", "float")
    return Computed(pa.bool_(), lambda rows: pc.fill_null(pc.is_nan(argument.values(rows)), False))


def _compare(call: Call, left: Computed, right: Computed) -> Computed:
    boolean = pa.bool_()
    if pa.types.is_null(left.kind) or pa.types.is_null(right.kind):
        return Computed(boolean, lambda rows: compare_missing(call.name, left.values(rows), right.values(rows)))
    compare = bind_pair(call.name, left.kind, right.kind)
    if compare is None:
        raise _cannot(
            call,
            f"the types are {shorten(str(left.kind))} and {shorten(str(right.kind))}; expected both to be text, bytes, "
            "dates, booleans, timestamps with a zone, timestamps without one, floating-point numbers, or integers, "
            "decimals and doubles that Spark converts exactly",
        )

    def compared(rows: Rows) -> Any:
        try:
            return compare(left.values(rows), right.values(rows))
        except pa.ArrowInvalid as error:
            raise _cannot(call, f"a value does not fit the type that both are compared in ({error})") from None

    return Computed(boolean, compared)
