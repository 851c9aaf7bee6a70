"""The Bloom filters of ORC files looked at: what there is of each, and what they answer.

A row group's number is that in its file, counted over all stripes; a stripe whose file has no row groups counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from bloomparquet.errors import BloomParquetError, UnsupportedError
from bloomparquet.orc.bloom_filter import Hashes, check_filters
from bloomparquet.orc.encoding import encode_value
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import COMPOUND, OrcType, columns_at, paths
from bloomparquet.orc.stripe_indexes import Place, RowGroupFilters, StripeIndexes, read_filters, read_stripes
from bloomparquet.orc.writer_quirks import why_filters_unusable
from bloomparquet.query.names import names_of, shown
from bloomparquet.storage.files import ReadCount, Storage

_AT_ONCE = 256
"""Stripes whose filters of a column are in memory."""

Path = tuple[str, ...]
_Found = TypeVar("_Found")


class Described(NamedTuple):
    """One filter. `offset` is that of the stream that holds all of its column in its stripe, `bytes` those of its
    bitset. `unusable` says why it proves nothing."""

    file: str
    row_group: int
    stripe: int
    column: str
    type: str
    rows: int
    offset: int
    bytes: int
    bits_set: int
    estimated_ndv: float
    estimated_fpp: float
    unusable: str | None


class OrcFiles:
    """Files by their tails."""

    def __init__(self, storage: Storage, tails: Sequence[Tail]) -> None:
        self._storage, self.tails = storage, tails

    def choose(self, readings: Sequence[Path]) -> Path | None:
        """The first of `readings` that a file has, or may have within a list, a map or a union."""
        return next((path for path in readings if any(columns_at(t.types, path) != [] for t in self.tails)), None)

    def names(self) -> list[str]:
        """The columns without children of all files."""
        return list(dict.fromkeys(".".join(path) for tail in self.tails for _, path in _leaves(tail)))

    def leaf_names(self) -> set[Any]:
        """Every name by which :meth:`describe` knows a column, or a group around it."""
        return {name for tail in self.tails for _, path in _leaves(tail) for name in names_of(path)}

    def type_of(self, path: Path) -> OrcType | None:
        """The type of the column at `path`, in the first file that has it."""
        found = ((tail, _column_at(tail, path)) for tail in self.tails)
        return next((tail.types[column] for tail, column in found if column is not None), None)

    def describe(self, wanted: set[Any] | None) -> Iterator[Described]:
        """Every filter of the columns that have one of the names `wanted`; None: of all. Raises what is wrong with one
        that cannot be read."""
        for part in self._stripes():
            for stripe, first in part:
                tail = self.tails[stripe.place.file]
                columns = [
                    (column, path)
                    for column, path in _leaves(tail)
                    if stripe.filter_kind(column) is not None
                    and (wanted is None or not wanted.isdisjoint(names_of(path)))
                ]
                found = read_filters(self._storage, [(stripe, column) for column, _ in columns], ReadCount())
                for (column, path), result in zip(columns, found, strict=True):
                    filters = _good(result)
                    if filters is not None:
                        yield from _describe(tail, stripe, first, column, path, filters)

    def probe(self, path: Path, value: Any, timezone: str) -> Iterator[tuple[str, int, bool]]:
        """For every row group, in file order: its file, its number, and whether the column at `path` may hold `value`.
        **False is a proof, true is a maybe.**

        Raises PlanError for a value of another kind than the column's, UnsupportedError where it cannot be told what is
        hashed of it, or where the filters are of a writer whose filters prove nothing, and what is wrong with a filter.
        """
        for tail in self.tails:
            if _column_at(tail, path) is not None:  # also of a file without filters
                _encode(tail, path, value, timezone, "UTC")
        encoded: dict[tuple[int, str | None], Hashes] = {}
        for part in self._stripes():
            asked = []
            for stripe, _ in part:
                column = _column_at(self.tails[stripe.place.file], path)
                if column is not None:
                    asked.append((stripe, column))
            results = read_filters(self._storage, asked, ReadCount())
            by_place = {stripe.place: _good(each) for (stripe, _), each in zip(asked, results, strict=True)}
            for stripe, first in part:
                tail = self.tails[stripe.place.file]
                verdicts = [True] * _groups(tail, stripe.place.stripe)
                filters = by_place.get(stripe.place)
                if filters is not None and filters.filters:
                    _refuse_unusable(tail, path, filters)
                    key = stripe.place.file, stripe.writer_timezone
                    if key not in encoded:
                        encoded[key] = _encode(tail, path, value, timezone, stripe.writer_timezone)
                    verdicts = [bool(each.any()) for each in check_filters(filters.filters, encoded[key])]
                yield from ((tail.path, first + i, verdict) for i, verdict in enumerate(verdicts))

    def _stripes(self) -> Iterator[list[tuple[StripeIndexes, int]]]:
        """Every stripe with the number of its first row group, some at once."""
        places: list[Place] = []
        firsts: list[int] = []
        for i, tail in enumerate(self.tails):
            first = 0
            for stripe in range(len(tail.stripes)):
                places.append(Place(i, stripe))
                firsts.append(first)
                first += _groups(tail, stripe)
        for at in range(0, len(places), _AT_ONCE):
            found = read_stripes(self._storage, self.tails, places[at : at + _AT_ONCE], ReadCount())
            yield list(zip(map(_good, found), firsts[at : at + _AT_ONCE], strict=True))


def _groups(tail: Tail, stripe: int) -> int:
    return tail.row_groups(stripe) or int(tail.stripes[stripe].rows > 0)


def _leaves(tail: Tail) -> list[tuple[int, Path]]:
    return [(column, path) for column, path in paths(tail.types) if tail.types[column].kind not in COMPOUND]


def _column_at(tail: Tail, path: Path) -> int | None:
    """The column at `path`, where it is one with one value per row."""
    found = columns_at(tail.types, path)
    return found[0] if found is not None and len(found) == 1 and tail.types[found[0]].kind not in COMPOUND else None


def _describe(
    tail: Tail, stripe: StripeIndexes, first: int, column: int, path: Path, found: RowGroupFilters
) -> Iterator[Described]:
    place, stride = stripe.place.stripe, tail.row_index_stride
    kind = stripe.filter_kind(column)
    assert kind is not None
    offset = stripe.streams[kind, column].offset
    unusable = why_filters_unusable(tail, column, found)
    for i, each in enumerate(found.filters):
        rows = min(stride, tail.stripes[place].rows - i * stride)
        yield Described(
            tail.path, first + i, place, shown(path), tail.types[column].describe(), rows, offset, each.bits // 8,
            each.bits_set, each.estimated_ndv, each.estimated_fpp, unusable,
        )  # fmt: skip


def _encode(tail: Tail, path: Path, value: Any, timezone: str, writer_timezone: str | None) -> Hashes:
    column, name = _column_at(tail, path), shown(path)
    assert column is not None
    found = tail.types[column]
    encoded = encode_value(found, value, timezone=timezone, writer_timezone=writer_timezone, column=name)
    if encoded is None:
        raise UnsupportedError(
            f"{tail.path}: column {name} ({found.describe()}): it cannot be told what is hashed of {value!r} here"
        )
    return encoded


def _refuse_unusable(tail: Tail, path: Path, filters: RowGroupFilters) -> None:
    column = _column_at(tail, path)
    assert column is not None
    why = why_filters_unusable(tail, column, filters)
    if why is not None:
        raise UnsupportedError(f"{tail.path}: the Bloom filters of column {shown(path)} prove nothing: {why}")


def _good(found: _Found | BloomParquetError) -> _Found:
    if isinstance(found, BloomParquetError):
        raise found
    return found
