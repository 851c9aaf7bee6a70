"""Parses the statistics of a column in a stripe or a row group: bounds, and whether there are nulls.

Which statistics are usable depends on the writer: see :mod:`bloomparquet.orc.writer_quirks`.

Source: apache/orc-format ``orc_proto.proto`` (ColumnStatistics); ORC specification, "Column Statistics".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.orc import protobuf as messages
from bloomparquet.query.literals import DAY_NANOSECONDS, NANOSECONDS_PER_SECOND

MAX_BYTES = 16 * 1024 * 1024
"""The most bytes of one column's statistics. Real ones are far smaller: writers cut strings at 1,024 bytes."""

_MAX_DECIMAL_TEXT = 200  # characters; no writer has decimals of more than 76 digits
_MILLISECOND = 1_000_000  # in nanoseconds


class StatisticsKind(Enum):
    """The type of the values, and the Python type of their bounds."""

    NONE = "none"
    INTEGER = "int"  # int
    DOUBLE = "double"  # float, never NaN
    STRING = "string"  # bytes; may be shortened, so that no value equals the bound
    DECIMAL = "decimal"  # decimal.Decimal
    DATE = "date"  # int: days since 1970-01-01
    TIMESTAMP = "timestamp"  # int: nanoseconds since 1970-01-01 in UTC, or of a clock without a zone
    BOOLEAN = "bucket"  # no bounds
    BINARY = "binary"  # no bounds
    COLLECTION = "collection"  # no bounds


_FIELDS = tuple((f"{kind.value}_statistics", kind) for kind in StatisticsKind if kind is not StatisticsKind.NONE)
_UNBOUNDED = (StatisticsKind.BOOLEAN, StatisticsKind.BINARY, StatisticsKind.COLLECTION)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a column as the file has them; those that it lacks are None.

    `non_nulls` counts the values that are not null. Every value v except NaN has ``minimum <= v <= maximum``, if the
    writer's bounds are usable. `total` is the sum of floating-point values, NaN if one of them may be NaN.
    """

    kind: StatisticsKind
    non_nulls: int | None = None
    has_null: bool | None = None
    minimum: Any = None
    maximum: Any = None
    total: float | None = None


def parse_statistics(data: bytes | memoryview, what: str) -> Statistics:
    """The statistics in a ColumnStatistics message. `what` names them in errors: FormatError, LimitError."""
    if len(data) > MAX_BYTES:
        raise LimitError(f"{what}: statistics of {len(data)} bytes; at most {MAX_BYTES} are read")
    message = messages.parse_uncounted(messages.ColumnStatistics, data, what)
    non_nulls = message.number_of_values if message.HasField("number_of_values") else None
    has_null = message.has_null if message.HasField("has_null") else None
    kinds = [kind for name, kind in _FIELDS if message.HasField(name)]
    if not kinds:
        return Statistics(StatisticsKind.NONE, non_nulls, has_null)
    if len(kinds) > 1:
        raise FormatError(f"{what}: statistics of two kinds, {kinds[0].name} and {kinds[1].name}; expected one")
    (kind,) = kinds
    inner = getattr(message, f"{kind.value}_statistics")
    minimum, maximum = _bounds(kind, inner, what)
    total = inner.sum if kind is StatisticsKind.DOUBLE and inner.HasField("sum") else None
    return Statistics(kind, non_nulls, has_null, minimum, maximum, total)


def _bounds(kind: StatisticsKind, inner: Any, what: str) -> tuple[Any, Any]:
    if kind in _UNBOUNDED:
        return None, None
    if kind is StatisticsKind.STRING:
        return _first(inner, "minimum", "lower_bound"), _first(inner, "maximum", "upper_bound")
    if kind is StatisticsKind.TIMESTAMP:
        return _timestamp_bounds(inner)
    minimum, maximum = _first(inner, "minimum"), _first(inner, "maximum")
    if kind is StatisticsKind.DECIMAL:
        return _decimal(minimum, what), _decimal(maximum, what)
    if kind is StatisticsKind.DOUBLE and any(bound is not None and math.isnan(bound) for bound in (minimum, maximum)):
        # If the first value is NaN, it stays the bound: no number is less or greater.
        return None, None
    return minimum, maximum


def _first(inner: Any, *names: str) -> Any:
    return next((getattr(inner, name) for name in names if inner.HasField(name)), None)


def _timestamp_bounds(inner: Any) -> tuple[int | None, int | None]:
    """The bounds in UTC. The bounds without UTC are ignored: the statistics do not name their zone.

    The nanoseconds below the millisecond are stored plus one. If they are missing, the bounds include the whole
    millisecond. The bounds are widened for two quirks of writers with timestamps before 1970: milliseconds may be
    rounded towards 1970, and a value in the last second before 1970, by the clock of a zone that is up to a day off,
    may be read back as in the first second after it.
    """
    minimum, maximum = _first(inner, "minimum_utc"), _first(inner, "maximum_utc")
    below = inner.minimum_nanos - 1 if inner.HasField("minimum_nanos") else 0
    above = inner.maximum_nanos - 1 if inner.HasField("maximum_nanos") else _MILLISECOND - 1
    if not (0 <= below < _MILLISECOND and 0 <= above < _MILLISECOND):
        below, above = 0, _MILLISECOND - 1
    if minimum is not None:
        minimum = minimum * _MILLISECOND + below
        minimum -= _MILLISECOND if minimum <= _MILLISECOND else 0
    if maximum is not None:
        maximum = maximum * _MILLISECOND + above
        maximum += NANOSECONDS_PER_SECOND if abs(maximum) < DAY_NANOSECONDS else 0
    return minimum, maximum


def _decimal(text: bytes | None, what: str) -> Decimal | None:
    if text is None:
        return None
    try:
        # A million digits would take minutes.
        value = Decimal(text.decode("ascii") if len(text) <= _MAX_DECIMAL_TEXT else "NaN")
    except (InvalidOperation, ValueError):
        value = Decimal("NaN")
    if not value.is_finite():
        raise FormatError(f"{what}: a bound of {text[:50]!r}; expected a decimal number")
    return value
