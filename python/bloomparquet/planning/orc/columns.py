"""Statistics of one ORC column in many stripes or row groups, as arrays.

Bounds are keys in the order of :func:`bloomparquet.orc.encoding.encode_values`, and only those that
:func:`bloomparquet.orc.writer_quirks.usable_bounds` returns.

Source: ORC specification, "Column Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.encoding import encode_point, encode_values, orc_family
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.statistics import Statistics, StatisticsKind
from bloomparquet.orc.writer_quirks import is_known, may_misplace_values, usable_bounds
from bloomparquet.planning.evidence.interface import ChunkFilters, Counts
from bloomparquet.planning.evidence.joined import JoinedFilters, join, join_bounds, join_counts, join_errors
from bloomparquet.planning.evidence.section_file import Section
from bloomparquet.planning.evidence.stored_arrays import flat_keys, keys_of
from bloomparquet.query.case_mapping import Case
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.families import MAX_DIGITS
from bloomparquet.query.literals import Family
from bloomparquet.query.names import dotted_name
from bloomparquet.query.ordering import Bounds, Encoded, Point

_UNKNOWN = -1
"""A count that is not known."""

_MICROSECOND = 1_000  # in nanoseconds
_RANGES = {Kind.BYTE: 1 << 7, Kind.SHORT: 1 << 15, Kind.INT: 1 << 31}


class _BoundsFormat(NamedTuple):
    """The form of a family's bounds: the `kind` of their statistics, the `dtype` of their keys, and a function.

    ``key(bound, orc_type, is_upper)`` returns the key of a bound, or None.
    """

    kind: StatisticsKind
    dtype: str
    key: Callable[[Any, OrcType, bool], Any]


def _unchanged(bound: Any, orc_type: OrcType, is_upper: bool) -> Any:
    return bound


def _widened(bound: int, orc_type: OrcType, is_upper: bool) -> int:
    """A timestamp plus or minus a microsecond: readers with microseconds cut off the rest, some of them towards
    1970."""
    return bound + (_MICROSECOND if is_upper else -_MICROSECOND)


def _unscaled(bound: Decimal, orc_type: OrcType, is_upper: bool) -> int | None:
    if orc_type.scale is None or orc_type.scale > MAX_DIGITS or abs(bound.adjusted()) > MAX_DIGITS:
        return None
    exact = Fraction(bound) * Fraction(10) ** orc_type.scale
    return math.ceil(exact) if is_upper else math.floor(exact)


_FORMATS: dict[Family, _BoundsFormat] = {
    "integer": _BoundsFormat(StatisticsKind.INTEGER, "i8", _unchanged),
    "float": _BoundsFormat(StatisticsKind.DOUBLE, "f8", _unchanged),
    "date": _BoundsFormat(StatisticsKind.DATE, "i8", _unchanged),
    "string": _BoundsFormat(StatisticsKind.STRING, "O", _unchanged),
    "decimal": _BoundsFormat(StatisticsKind.DECIMAL, "O", _unscaled),
    "timestamp": _BoundsFormat(StatisticsKind.TIMESTAMP, "O", _widened),
    "timestamp_ntz": _BoundsFormat(StatisticsKind.TIMESTAMP, "O", _widened),
}


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column in n chunks, all of shape (n,).

    `lower` and `upper` hold where `known`. `nulls` is -1 where it is not known. A chunk is `sound` if its
    statistics do not contradict the column's type.
    """

    lower: NDArray[Any]
    upper: NDArray[Any]
    known: NDArray[np.bool_]
    nulls: NDArray[np.int64]
    sound: NDArray[np.bool_]

    @classmethod
    def unknown(cls, orc_type: OrcType, n: int) -> ColumnStatistics:
        bounds = _bounds_format(orc_type)
        dtype = "i8" if bounds is None else bounds.dtype
        # numpy's zeros of objects are numbers, which cannot be compared with bytes.
        lower, upper = (np.full(n, b"" if dtype == "O" else 0, dtype) for _ in range(2))
        return cls(lower, upper, np.zeros(n, np.bool_), np.full(n, _UNKNOWN, np.int64), np.ones(n, np.bool_))

    def take(self, chunks: NDArray[np.int64]) -> ColumnStatistics:
        """The statistics of some chunks, in their order."""
        return ColumnStatistics(
            self.lower[chunks], self.upper[chunks], self.known[chunks], self.nulls[chunks], self.sound[chunks]
        )

    def for_parts(self, rows: NDArray[np.int64], part_rows: NDArray[np.int64]) -> ColumnStatistics:
        """Statistics that hold for a part of each chunk: for `part_rows` of its `rows`. A null count holds for a part
        only if no row is null, or every row."""
        nulls = np.where(self.nulls == 0, 0, np.where(self.nulls == rows, part_rows, _UNKNOWN))
        return replace(self, nulls=nulls)

    def set(self, chunks: NDArray[np.int64], statistics: ColumnStatistics) -> None:
        """Replace the statistics of some chunks."""
        for name in ("lower", "upper", "known", "nulls", "sound"):
            getattr(self, name)[chunks] = getattr(statistics, name)

    def to_section(self, part: str) -> Section:
        """The arrays that :meth:`of_section` restores. `part`: the beginning of their names."""
        known = self.known
        section = {f"{part}_known": known, f"{part}_nulls": self.nulls, f"{part}_sound": self.sound}
        for side, keys in (("lower", self.lower), ("upper", self.upper)):
            if keys.dtype == object and known.any():
                keys = np.where(known, keys, keys[known][0])  # arrays are of one type of keys
            section |= flat_keys(keys, f"{part}_{side}")
        return section

    @classmethod
    def of_section(cls, section: Section, part: str, n: int) -> ColumnStatistics:
        """The statistics of n chunks in `section`. Raises the errors :data:`MALFORMED`."""
        lower, upper = (keys_of(section, f"{part}_{side}") for side in ("lower", "upper"))
        known, nulls, sound = (section[f"{part}_{name}"] for name in ("known", "nulls", "sound"))
        if {len(lower), len(upper), len(known), len(nulls), len(sound)} != {n}:
            raise ValueError(f"statistics of {len(nulls)} chunks; expected {n}")
        return cls(lower, upper, known, nulls, sound)

    def parse(
        self,
        first: int,
        tail: Tail,
        column: int,
        statistics: Sequence[Statistics | None],
        rows: NDArray[np.int64],
        is_top_level: bool,
    ) -> None:
        """Set the chunks from `first` on to what their `statistics` prove; other values are kept.

        ``rows[i]`` are the rows of chunk ``first + i``. `is_top_level`: the column is not within a struct.
        """
        orc_type = tail.types[column]
        bounds = _bounds_format(orc_type)
        if not is_known(tail):
            return
        may_be_misplaced = may_misplace_values(tail, column)
        for i, each in enumerate(statistics, first):
            if each is None:
                continue
            nulls = _nulls(each, int(rows[i - first]), is_top_level)
            if nulls != _UNKNOWN and not (nulls == 0 and may_be_misplaced):
                self.nulls[i] = nulls
            if bounds is None or each.kind is not bounds.kind or _may_hide_nan(each):
                continue
            lower, upper = (
                None if bound is None else bounds.key(bound, orc_type, is_upper)
                for bound, is_upper in zip(usable_bounds(tail, column, each), (False, True), strict=True)
            )
            # A lower bound above the upper one proves only that the writer erred.
            if lower is None or upper is None or lower > upper:
                continue
            self.lower[i], self.upper[i], self.known[i] = lower, upper, True
            limit = _RANGES.get(orc_type.kind)  # type: ignore[call-overload]
            if limit is not None and not -limit <= lower <= upper < limit:
                # Java writes any number, and readers show as much of it as fits the type.
                self.known[i] = self.sound[i] = False


def _bounds_format(orc_type: OrcType) -> _BoundsFormat | None:
    family = orc_family(orc_type)
    if orc_type.kind == Kind.LONG and family == "timestamp_ntz":
        return _FORMATS["integer"]
    # Readers differ in the blanks at the end of a CHAR.
    return None if orc_type.kind == Kind.CHAR else _FORMATS.get(family)


def _may_hide_nan(statistics: Statistics) -> bool:
    """Whether numbers other than NaN may lie outside the bounds.

    A row group that begins with NaN has no bounds, and writers then take the bounds of the other row groups for the
    stripe. Only the sum shows that there is a NaN.
    """
    total = statistics.total
    return statistics.kind is StatisticsKind.DOUBLE and (total is None or math.isnan(total))


def _nulls(statistics: Statistics, rows: int, is_top_level: bool) -> int:
    """The number of rows in which the column is null. Within a struct, a null struct counts too, though `has_null` does
    not include it."""
    non_nulls = statistics.non_nulls
    if non_nulls is None or non_nulls > rows or (non_nulls == 0 and statistics.minimum is not None):
        return _UNKNOWN
    if non_nulls == rows:
        return 0 if statistics.has_null is False else _UNKNOWN
    return _UNKNOWN if is_top_level and statistics.has_null is False else rows - non_nulls


@dataclass(frozen=True)
class OrcChunks:
    """A column of stripes, or of row groups, that share a schema; see
    :class:`bloomparquet.planning.evidence.interface.Chunks`.

    `name` is for messages. `errors`: by chunk, why its evidence cannot be read. `zones` are the time zones of the
    writers. `why_filters_unusable`: why their filters prove nothing.
    """

    name: str
    type: OrcType
    members: NDArray[np.int64]
    bounds: Bounds | None
    counts: Counts
    shown_as_stored: NDArray[np.bool_]
    filters: ChunkFilters
    errors: Mapping[int, BloomParquetError]
    zones: frozenset[str]
    why_filters_unusable: str

    @classmethod
    def of(
        cls,
        leaf: LeafColumn,
        orc_type: OrcType,
        members: NDArray[np.int64],
        statistics: ColumnStatistics,
        rows: NDArray[np.int64],
        zones: Sequence[str | None] | None,
        filters: ChunkFilters,
        errors: Mapping[int, BloomParquetError],
        why_filters_unusable: str = "",
    ) -> OrcChunks:
        """The chunks with these `statistics`. `zones` are the time zones of their writers: if the zone is unknown, the
        bounds of a chunk prove nothing."""
        known = statistics.known
        if zones is not None:
            known = known & np.array([zone is not None for zone in zones], np.bool_)
        bounds = Bounds(statistics.lower, statistics.upper, known) if known.any() else None
        named_zones = frozenset(zone for zone in zones or () if zone is not None)
        return cls(
            dotted_name(leaf.path),
            orc_type,
            members,
            bounds,
            Counts(statistics.nulls, rows),
            statistics.sound,
            filters,
            errors,
            named_zones,
            why_filters_unusable,
        )

    @property
    def unreadable(self) -> list[BloomParquetError]:
        return list(dict.fromkeys(self.errors.values()))

    @property
    def family(self) -> Family:
        return orc_family(self.type)

    @property
    def has_order(self) -> bool:
        return _bounds_format(self.type) is not None

    def expression_filters(self, case: Case) -> None:
        """None: the files have no filters of expressions."""

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        return encode_values(self.type, values, timezone=timezone, writer_timezones=self.zones, column=self.name)

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        return encode_point(
            self.type, value, timezone=timezone, writer_timezones=self.zones, column=self.name, upwards=upwards
        )

    def joined(self, pieces: Sequence[Any], at: Sequence[NDArray[np.int64]], members: NDArray[np.int64]) -> OrcChunks:
        """See :class:`bloomparquet.planning.evidence.interface.Chunks`."""
        shown = join((piece.shown_as_stored, some) for piece, some in zip(pieces, at, strict=True))
        return OrcChunks(
            name=self.name,
            type=self.type,
            members=members,
            bounds=join_bounds([piece.bounds for piece in pieces], at),
            counts=join_counts([piece.counts for piece in pieces], at),
            shown_as_stored=shown,
            filters=JoinedFilters([piece.filters for piece in pieces], at),
            errors=join_errors([piece.errors for piece in pieces], at),
            zones=frozenset().union(*(piece.zones for piece in pieces)),
            why_filters_unusable=next(filter(None, (piece.why_filters_unusable for piece in pieces)), ""),
        )
