"""What ORC says of a column's values, in a file, a stripe or a row group: bounds, and whether there are nulls.

Owns the reading of ``ColumnStatistics``. What may be concluded from it is for others to say: statistics of floating
point ignore NaN, those of a writer may be wrong in ways that only its version tells.

Source: apache/orc-format ``orc_proto.proto`` and the ORC specification, "Column Statistics".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.orc import protobuf as messages
from bloomparquet.query.literals import DAY_NANOSECONDS, NANOSECONDS

MAX_BYTES = 16 * 1024 * 1024
"""Of one column's statistics; far beyond any, as writers cut strings at 1,024 bytes."""

_MOST_DIGITS = 200
"""Of a decimal number's text; the longest of any writer has 76 digits."""

_NANOS_PER_MILLI = 1_000_000


class StatisticsKind(Enum):
    """Which values the bounds are of, and what they are in Python."""

    NONE = "none"
    INTEGER = "int"  # int
    DOUBLE = "double"  # float, never NaN
    STRING = "string"  # bytes; may be shortened, so that they bound the values without being among them
    DECIMAL = "decimal"  # decimal.Decimal
    DATE = "date"  # int: days since 1970-01-01
    TIMESTAMP = "timestamp"  # int: nanoseconds since 1970-01-01 in UTC, or of a clock without a zone
    BOOLEAN = "bucket"  # no bounds: `trues`
    BINARY = "binary"  # no bounds
    COLLECTION = "collection"  # no bounds


_FIELDS = tuple((f"{kind.value}_statistics", kind) for kind in StatisticsKind if kind is not StatisticsKind.NONE)


@dataclass(frozen=True, slots=True)
class Statistics:
    """None is "the file does not say" everywhere.

    `values` counts those that are not null. Every value v, NaN apart, has ``minimum <= v <= maximum``, as far as the
    writer can be believed. Of booleans, `trues` are how many are true. `total` is the sum of floating point, NaN where
    any of them may be NaN.
    """

    kind: StatisticsKind
    values: int | None = None
    has_null: bool | None = None
    minimum: Any = None
    maximum: Any = None
    trues: int | None = None
    total: float | None = None


def parse_statistics(data: bytes | memoryview, what: str) -> Statistics:
    """The statistics in a ColumnStatistics message. `what` names it in errors: FormatError, LimitError."""
    if len(data) > MAX_BYTES:
        raise LimitError(f"{what}: statistics of {len(data)} bytes; at most {MAX_BYTES} are read")
    message = messages.decode(messages.ColumnStatistics, data, what)
    values = message.number_of_values if message.HasField("number_of_values") else None
    has_null = message.has_null if message.HasField("has_null") else None
    kinds = [kind for name, kind in _FIELDS if message.HasField(name)]
    if not kinds:
        return Statistics(StatisticsKind.NONE, values, has_null)
    if len(kinds) > 1:
        raise FormatError(f"{what}: statistics of two kinds, {kinds[0].name} and {kinds[1].name}; expected one")
    (kind,) = kinds
    inner = getattr(message, f"{kind.value}_statistics")
    if kind is StatisticsKind.BOOLEAN:
        return Statistics(kind, values, has_null, trues=inner.count[0] if len(inner.count) else None)
    minimum, maximum = _bounds(kind, inner, what)
    total = inner.sum if kind is StatisticsKind.DOUBLE and inner.HasField("sum") else None
    return Statistics(kind, values, has_null, minimum, maximum, total=total)


def _bounds(kind: StatisticsKind, inner: Any, what: str) -> tuple[Any, Any]:
    if kind is StatisticsKind.STRING:
        return _first(inner, "minimum", "lower_bound"), _first(inner, "maximum", "upper_bound")
    if kind is StatisticsKind.TIMESTAMP:
        return _timestamps(inner)
    if kind in (StatisticsKind.BINARY, StatisticsKind.COLLECTION):
        return None, None
    minimum, maximum = _first(inner, "minimum"), _first(inner, "maximum")
    if kind is StatisticsKind.DECIMAL:
        return _decimal(minimum, what), _decimal(maximum, what)
    if kind is StatisticsKind.DOUBLE and any(bound is not None and math.isnan(bound) for bound in (minimum, maximum)):
        # A column that begins with NaN keeps it: nothing is less than it, and nothing more.
        return None, None
    return minimum, maximum


def _first(inner: Any, *names: str) -> Any:
    return next((getattr(inner, name) for name in names if inner.HasField(name)), None)


def _timestamps(inner: Any) -> tuple[int | None, int | None]:
    """Those in UTC. The others are of a zone that the statistics do not name, and say nothing.

    The nanoseconds below the millisecond are kept one too high; where they are not kept, they are the least and the
    most that there can be. Two things that writers do before 1970 make the bounds wider here than they are stored:
    milliseconds may be rounded towards 1970, and what is in the last second before it may come back as the first
    after it, by the clock of a zone that is up to a day off.
    """
    minimum, maximum = _first(inner, "minimum_utc"), _first(inner, "maximum_utc")
    below = inner.minimum_nanos - 1 if inner.HasField("minimum_nanos") else 0
    above = inner.maximum_nanos - 1 if inner.HasField("maximum_nanos") else _NANOS_PER_MILLI - 1
    if not (0 <= below < _NANOS_PER_MILLI and 0 <= above < _NANOS_PER_MILLI):
        below, above = 0, _NANOS_PER_MILLI - 1
    if minimum is not None:
        minimum = minimum * _NANOS_PER_MILLI + below
        minimum -= _NANOS_PER_MILLI if minimum <= _NANOS_PER_MILLI else 0
    if maximum is not None:
        maximum = maximum * _NANOS_PER_MILLI + above
        maximum += NANOSECONDS if abs(maximum) < DAY_NANOSECONDS else 0
    return minimum, maximum


def _decimal(text: bytes | None, what: str) -> Decimal | None:
    if text is None:
        return None
    try:
        # A million digits would take minutes.
        value = Decimal(text.decode("ascii") if len(text) <= _MOST_DIGITS else "NaN")
    except (InvalidOperation, ValueError):
        value = Decimal("NaN")
    if not value.is_finite():
        raise FormatError(f"{what}: a bound of {text[:50]!r}; expected a decimal number")
    return value
