"""The interface of a file format to plans: a table of units, and evidence about their columns.

A unit is what a scan reads or skips as a whole: a Parquet row group or an ORC stripe. A row range is what evidence
excludes: a unit, or one of the row groups within an ORC stripe. A table has one array for each property of all units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.query.case_mapping import Case
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds, Encoded, Point
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """A question to n Bloom filters: might chunk ``chunks[k]`` hold one of ``hashes[first[k]:last[k]]``?

    `chunks`, `first` and `last` have shape (n,). `hashes` is shared by all. `reads` counts what is read to answer.
    """

    storage: Storage
    chunks: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    reads: ReadCount

    def about(self, some: NDArray[np.int64]) -> Question:
        """The question to the chunks at the positions `some` only."""
        return replace(self, chunks=self.chunks[some], first=self.first[some], last=self.last[some])


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts about n column chunks, shape (n,), negative if unknown; None if the format or the segment lacks them.
    `values` includes nulls. Fields have the names of :class:`bloomparquet.parquet.metadata.chunk_fields.ChunkColumns`.
    """

    nulls: NDArray[np.int64]
    values: NDArray[np.int64]


class ChunkFilters(Protocol):
    """The Bloom filters of n column chunks. `errors`: by chunk, why its filter cannot be used."""

    @property
    def errors(self) -> Mapping[int, BloomParquetError]: ...
    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each chunk has a filter, shape (n,), as far as is known without reading filters."""

    @property
    def in_index(self) -> NDArray[np.bool_]:
        """Whether each chunk has its filter in an index, shape (n,)."""

    def check(self, question: Question) -> NDArray[np.bool_]:
        """One answer per chunk of `question`. False proves that the chunk holds none of the values; True proves
        nothing. A filter that turns out to be unusable is in `errors` afterwards."""


class Chunks(Protocol):
    """The chunks of one leaf column in all row ranges whose files have one profile.

    All arrays have shape (n,). `members`: for each chunk, the position of its row range in the table. `unreadable`: why
    some of the evidence cannot be read.
    """

    @property
    def members(self) -> NDArray[np.int64]: ...
    @property
    def bounds(self) -> Bounds | None: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def filters(self) -> ChunkFilters: ...
    @property
    def unreadable(self) -> Sequence[BloomParquetError]: ...
    @property
    def family(self) -> Family: ...
    @property
    def why_filters_unusable(self) -> str:
        """The reason why filters of the files' writer on this column prove nothing; empty if they prove something."""

    @property
    def shown_as_stored(self) -> NDArray[np.bool_]:
        """Whether readers show the values of each chunk as they are stored: a column may be too narrow for them."""

    @property
    def has_order(self) -> bool:
        """Whether min/max of this type can prove anything: all writers order its values in one way."""

    def expression_filters(self, case: Case) -> ChunkFilters | None:
        """The Bloom filters of ``lower(column)`` or ``upper(column)``; None if no chunk has one. A chunk that holds a
        value outside ASCII has none: what it is mapped to depends on the reader."""

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        """The literals of an equality or IN as this column stores them; None if that is unknown for one of them.
        Raises PlanError for a literal of the wrong type."""

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        """The position of a literal in the order of the bounds; None if it is unknown. `upwards`: whether the predicate
        is > or >=, not < or <=. Raises PlanError for a literal of the wrong type."""

    def joined(self, pieces: Sequence[Any], at: Sequence[NDArray[np.int64]], members: NDArray[np.int64]) -> Any:
        """The chunks ``at[i]`` of ``pieces[i]``, one piece after another, as those of the row ranges `members` of
        another table. The pieces, of which this is the first, are of one column and one profile."""


class RowRanges(Protocol):
    """n row ranges in file order. Evidence may exclude each of them: units, or the row groups within ORC stripes.

    Arrays of shape (n,): `file`, an index into the files of the table, and `rows`, the number of rows.
    """

    @property
    def format(self) -> FileFormat: ...
    @property
    def file(self) -> NDArray[np.int64]: ...
    @property
    def rows(self) -> NDArray[np.int64]: ...

    def __len__(self) -> int: ...

    @property
    def schemas(self) -> Sequence[FileSchema]:
        """The schema of each profile: of the files with one schema and one writer. Methods take an index into them as
        `profile`. Schemas of two profiles may be equal."""

    def members(self, profile: int) -> NDArray[np.int64]:
        """The positions of the row ranges whose files have this profile."""

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        """Whether a reader that gives the column `reader_type` (None: the file's own type) returns the stored values.
        With `leaf` None, the files lack the column: whether the reader returns nulls."""

    def chunks(self, profile: int, leaf: LeafColumn, reads: ReadCount) -> Chunks:
        """The chunks of `leaf` in the row ranges of :meth:`members`. `reads` counts what is read."""


class Units(RowRanges, Protocol):
    """Row ranges that a scan reads or skips as a whole: Parquet row groups or ORC stripes."""

    def row_groups_within(self, units: NDArray[np.int64]) -> RowGroupsOfStripes | None:
        """The row groups within the stripes `units`; None if the format has no evidence about parts of a unit."""


class Table(Units, Protocol):
    """The units of `files`. `index` (n,): the position of each unit in its file."""

    storage: Storage

    @property
    def files(self) -> Sequence[FileInfo]: ...
    @property
    def paths(self) -> Sequence[str]: ...
    @property
    def indexed(self) -> int:
        """The number of files that were found in an index."""

    @property
    def index(self) -> NDArray[np.int64]: ...

    def extents_of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The start offsets of `units` in their files, and their lengths in bytes."""

    def gather(self, files: Sequence[int], get: Callable[[Any, Sequence[int]], Sequence[T]]) -> list[T]:
        """One item for each of `files`, given by index: ``get(part, numbers)`` gives those of files of one part of this
        table (:mod:`bloomparquet.planning.evidence.selection`), which may be the table itself."""


class ReadAmount(NamedTuple):
    """How much this process has read for a table: the number of columns, and what was read about them, as a part of
    all that is `known`, in a measure of the format's own. By it, the cache decides whether to store the table again."""

    columns: int
    evidence: int
    known: int


class RowGroupsOfStripes(RowRanges, Protocol):
    """The row groups within some stripes, in order. Evidence excludes single row groups; a scan reads whole stripes.

    Arrays of shape (n,): `stripe_index`, the stripe of each row group, in the table of stripes; and `position`, among
    the stripes that were asked for. `total`: the number of row groups in all stripes of the table.
    """

    @property
    def stripe_index(self) -> NDArray[np.int64]: ...
    @property
    def position(self) -> NDArray[np.int64]: ...
    @property
    def total(self) -> int: ...


ReaderTypes = Mapping[tuple[str, ...], str]
"""The type that a reader gives to each column, in Spark's notation: ``bigint``, ``decimal(10,2)``."""
