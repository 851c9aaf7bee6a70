"""Hive-style partition values: from directory names to typed columns.

Which directories count, how names are unescaped, and which type a column gets follow Spark (``PartitioningUtils``), so
that rows are those that Spark shows.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from bloomparquet.errors import PlanError
from bloomparquet.query.arrow_values import make_array
from bloomparquet.query.literals import find_zone

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

Values = tuple[tuple[str, str | None], ...]
"""The partition columns of one directory, outermost first: (name, text). None as text is Hive's null directory."""

_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(rf"\s*([+-]?(NaN|Infinity)|{_NUMBER.pattern}[dDfF]?)\s*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?")
_INT_DIGITS = {pa.int32(): 10, pa.int64(): 20}  # the decimal precision to which Spark widens integers
_DECIMAL_DIGITS = 38
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def parse_directories(directories: Sequence[str]) -> Values:
    """The ``name=value`` pairs among the directories between a table's root and a file. Other names are ignored."""
    pairs = []
    for directory in directories:
        name, separator, value = directory.partition("=")
        if separator and name and value:
            pairs.append((_unescape(name), None if value == NULL_DIRECTORY else _unescape(value)))
    return tuple(pairs)


def _unescape(text: str) -> str:
    """Replace each ``%XX`` by the character with that code, as Spark's ``unescapePathName`` does; never as UTF-8."""
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text)


def infer_type(values: Iterable[str | None]) -> pa.DataType:
    """The type that Spark infers for a partition column with these values.

    int32, int64, decimal128(digits, 0), float64, date32 or timestamp[us, UTC]; string if the values have no common type
    or are all null.
    """
    kinds = {_infer_one(value) for value in values if value is not None}
    if not kinds:
        return pa.string()
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {pa.int32(), pa.int64()}:
        return pa.int64()
    if all(pa.types.is_decimal(kind) or kind in _INT_DIGITS for kind in kinds):
        return pa.decimal128(
            max(kind.precision if pa.types.is_decimal(kind) else _INT_DIGITS[kind] for kind in kinds), 0
        )
    if kinds == {pa.int32(), pa.float64()}:
        return pa.float64()
    if kinds == {pa.date32(), pa.timestamp("us", "UTC")}:
        return pa.timestamp("us", "UTC")
    return pa.string()


def to_array(values: Sequence[Any], kind: pa.DataType, timezone: str) -> pa.Array:
    """The partition column of `values` with the type `kind`. Text is parsed; timestamps in it are local times in
    `timezone`. Other values are of the type already.

    Raises PlanError for a value that does not fit.
    """
    try:
        return make_array(
            [_convert(value, kind, timezone) if isinstance(value, str) else value for value in values], kind
        )
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise PlanError(
            f"a partition value does not fit the column's type {kind}: {error}; check the name=value directories"
        ) from error


def _infer_one(value: str) -> pa.DataType:
    if _INTEGER.fullmatch(value):
        number = int(value)
        if -(2**31) <= number < 2**31:
            return pa.int32()
        if -(2**63) <= number < 2**63:
            return pa.int64()
    if _NUMBER.fullmatch(value):
        with suppress(InvalidOperation):  # an exponent may have any number of digits
            _, digits, exponent = Decimal(value).as_tuple()
            if isinstance(exponent, int) and exponent >= 0 and len(digits) + exponent <= _DECIMAL_DIGITS:
                return pa.decimal128(len(digits) + exponent, 0)
    if _DOUBLE.fullmatch(value):
        return pa.float64()
    try:
        if _DATE.fullmatch(value):
            dt.date.fromisoformat(value)
            return pa.date32()
        if _TIMESTAMP.fullmatch(value):
            dt.datetime.strptime(value.partition(".")[0], "%Y-%m-%d %H:%M:%S")
            return pa.timestamp("us", "UTC")
    except ValueError:
        pass
    return pa.string()


def _convert(value: str, kind: pa.DataType, timezone: str) -> Any:
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_floating(kind):
        return float(value.strip().rstrip("dDfF") or value)
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return dt.datetime.fromisoformat(value + "00000" if "." in value else value).replace(tzinfo=find_zone(timezone))
    return value
