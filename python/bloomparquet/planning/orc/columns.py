"""What ORC's statistics say of one column, of stripes or of row groups, as arrays.

Bounds are in the order of the keys of :func:`bloomparquet.orc.encoding.encode_values`, and only those that
:func:`bloomparquet.orc.writer_quirks.usable_bounds` believes.

Source: ORC specification, "Column Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.encoding import encode_point, encode_values, family_of
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.statistics import Statistics, StatisticsKind
from bloomparquet.orc.writer_quirks import is_known, usable_bounds
from bloomparquet.planning.evidence.interface import ChunkFilters
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds, Encoded, Point

UNKNOWN = -1

_MICROSECOND = 1_000
_MOST_DIGITS = 76  # of the widest decimal that anybody reads; an absurd exponent must not make a number of gigabytes
_RANGES = {Kind.BYTE: 1 << 7, Kind.SHORT: 1 << 15, Kind.INT: 1 << 31}

_Narrow = Callable[[Any, OrcType, bool], Any]


class _Order(NamedTuple):
    """How bounds of a family are kept: `kind` of the statistics that have them, `dtype` of the keys, and `key`, which
    makes a key of a bound (True: of the upper one); None where it cannot."""

    kind: StatisticsKind
    dtype: str
    key: _Narrow


def _same(bound: Any, found: OrcType, upper: bool) -> Any:
    return bound


def _clock(bound: int, found: OrcType, upper: bool) -> int:
    """Readers that keep microseconds cut the rest off, which is towards 1970 in some of them."""
    return bound + (_MICROSECOND if upper else -_MICROSECOND)


def _unscaled(bound: Decimal, found: OrcType, upper: bool) -> int | None:
    if found.scale is None or found.scale > _MOST_DIGITS or abs(bound.adjusted()) > _MOST_DIGITS:
        return None
    exact = Fraction(bound) * Fraction(10) ** found.scale
    return math.ceil(exact) if upper else math.floor(exact)


_ORDERS: dict[Family, _Order] = {
    "integer": _Order(StatisticsKind.INTEGER, "i8", _same),
    "float": _Order(StatisticsKind.DOUBLE, "f8", _same),
    "date": _Order(StatisticsKind.DATE, "i8", _same),
    "string": _Order(StatisticsKind.STRING, "O", _same),
    "decimal": _Order(StatisticsKind.DECIMAL, "O", _unscaled),
    "timestamp": _Order(StatisticsKind.TIMESTAMP, "O", _clock),
    "timestamp_ntz": _Order(StatisticsKind.TIMESTAMP, "O", _clock),
}
_SPARKS_NTZ = _Order(StatisticsKind.INTEGER, "i8", _same)


@dataclass(frozen=True, slots=True)
class ColumnArrays:
    """What is known of a column in n chunks, all of shape (n,): `lower` and `upper` where `known`, `nulls` (UNKNOWN
    where it is not), and which are `sound`: their statistics do not contradict the column's type."""

    lower: NDArray[Any]
    upper: NDArray[Any]
    known: NDArray[np.bool_]
    nulls: NDArray[np.int64]
    sound: NDArray[np.bool_]

    @classmethod
    def unknown(cls, found: OrcType, n: int) -> ColumnArrays:
        order = _order_of(found)
        dtype = "i8" if order is None else order.dtype
        # numpy's zeros of objects would be numbers, which order with no bytes.
        lower, upper = (np.full(n, b"" if dtype == "O" else 0, dtype) for _ in range(2))
        return cls(lower, upper, np.zeros(n, np.bool_), np.full(n, UNKNOWN, np.int64), np.ones(n, np.bool_))

    def take(self, some: NDArray[np.int64]) -> ColumnArrays:
        """Those of some chunks, by their places."""
        return ColumnArrays(self.lower[some], self.upper[some], self.known[some], self.nulls[some], self.sound[some])

    def copy(self, at: NDArray[np.int64], found: ColumnArrays) -> None:
        """Set the chunks `at` to what `found` has, in their order."""
        self.lower[at], self.upper[at], self.known[at] = found.lower, found.upper, found.known
        self.nulls[at], self.sound[at] = found.nulls, found.sound

    def put(
        self,
        at: int,
        tail: Tail,
        column: int,
        statistics: Sequence[Statistics | None],
        rows: NDArray[np.int64],
        top: bool,
    ) -> None:
        """Note the `statistics` of the chunks from `at` on, of so many `rows` each; what they do not say stays. `top`:
        the column is none within a struct."""
        found = tail.types[column]
        order = _order_of(found)
        if not is_known(tail):
            return
        for i, each in enumerate(statistics, at):
            if each is None:
                continue
            nulls = _nulls(each, int(rows[i - at]), top)
            if nulls != UNKNOWN:
                self.nulls[i] = nulls
            if order is None or each.kind is not order.kind or _may_hide_nan(each):
                continue
            lower, upper = (
                None if bound is None else order.key(bound, found, at_top)
                for bound, at_top in zip(usable_bounds(tail, column, each), (False, True), strict=True)
            )
            # Bounds the wrong way round prove nothing but that their writer erred.
            if lower is None or upper is None or lower > upper:
                continue
            self.lower[i], self.upper[i], self.known[i] = lower, upper, True
            limit = _RANGES.get(found.kind)  # type: ignore[call-overload]
            if limit is not None and not -limit <= lower <= upper < limit:
                # Java writes what it is given, and readers show of it what fits into the type.
                self.known[i] = self.sound[i] = False


def _order_of(found: OrcType) -> _Order | None:
    family = family_of(found)
    if found.kind == Kind.LONG and family == "timestamp_ntz":
        return _SPARKS_NTZ
    # Readers differ in the blanks at the end of a CHAR.
    return None if found.kind == Kind.CHAR else _ORDERS.get(family)


def _may_hide_nan(statistics: Statistics) -> bool:
    """Whether bounds may leave out numbers besides NaN: a row group that begins with NaN has no bounds, and writers
    take those of the others for the stripe's. Only the sum tells."""
    total = statistics.total
    return statistics.kind is StatisticsKind.DOUBLE and (total is None or math.isnan(total))


def _nulls(statistics: Statistics, rows: int, top: bool) -> int:
    """How many of the rows are null; within a struct also where the struct is, which is no null of the column's own."""
    values = statistics.values
    if values is None or values > rows or (values == 0 and statistics.minimum is not None):
        return UNKNOWN
    if values == rows:
        return 0 if statistics.has_null is False else UNKNOWN
    return UNKNOWN if top and statistics.has_null is False else rows - values


@dataclass(frozen=True)
class OrcChunks:
    """A column of stripes, or of row groups, that share a layout; see
    :class:`bloomparquet.planning.evidence.interface.Chunks`.

    `name` is for messages; `zones` are those of the writers' clocks.
    """

    name: str
    type: OrcType
    members: NDArray[np.int64]
    bounds: Bounds | None
    nulls: NDArray[np.int64]
    values: NDArray[np.int64]
    filters: ChunkFilters
    unreadable: Sequence[BloomParquetError]
    zones: frozenset[str]

    @property
    def family(self) -> Family:
        return family_of(self.type)

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        return encode_values(self.type, values, timezone=timezone, writer_timezones=self.zones, column=self.name)

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        return encode_point(
            self.type, value, timezone=timezone, writer_timezones=self.zones, column=self.name, upwards=upwards
        )
