"""What a plan asks of a file format: tables of units that are read or skipped as a whole, and evidence about their
columns.

A unit is a row group of Parquet or a stripe of ORC. What is in files is said by columns, one array over many units;
so a plan over thousands of them is a few numpy operations, whatever the format is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds, Encoded, Point
from bloomparquet.storage.files import FileInfo, ReadCount, Storage


@dataclass(frozen=True, slots=True)
class Question:
    """Of each of `chunks`: might it hold one of ``hashes[first[k]:last[k]]``?

    `chunks`, `first` and `last` have one shape (n,), `hashes` is shared. What is read to answer is counted in `reads`.
    """

    storage: Storage
    chunks: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    reads: ReadCount

    def about(self, some: NDArray[np.int64]) -> Question:
        """The same question of some of the chunks, given by their places in it."""
        return replace(self, chunks=self.chunks[some], first=self.first[some], last=self.last[some])


class ChunkFilters(Protocol):
    """The Bloom filters of n column chunks. `errors` has by chunk why a filter cannot be used."""

    @property
    def errors(self) -> Mapping[int, BloomParquetError]: ...
    @property
    def present(self) -> NDArray[np.bool_]:
        """Which chunks have a filter, shape (n,), as far as that is known without reading it."""

    def check(self, question: Question) -> tuple[NDArray[np.bool_], int]:
        """The answer for each chunk of `question`, and how many of their filters were unusable. False is a proof, True
        is a maybe."""


class Chunks(Protocol):
    """One leaf column of the units that share a schema.

    `members` (n,) are the places of these chunks among all units; `nulls` and `values` (n,) their counts, negative
    where unknown; `unreadable` is why evidence is missing that the files should have.
    """

    @property
    def members(self) -> NDArray[np.int64]: ...
    @property
    def bounds(self) -> Bounds | None: ...
    @property
    def nulls(self) -> NDArray[np.int64]: ...
    @property
    def values(self) -> NDArray[np.int64]: ...
    @property
    def filters(self) -> ChunkFilters: ...
    @property
    def unreadable(self) -> Sequence[BloomParquetError]: ...
    @property
    def family(self) -> Family: ...

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        """As :func:`bloomparquet.parquet.values.encoding.encode_values`."""

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        """As :func:`bloomparquet.parquet.values.encoding.encode_point`, for a comparison with what is above `value`,
        or below."""


class Table(Protocol):
    """The units of `files`, in file order: `file` (place of the file), `index` (within the file) and `rows`, each of
    shape (n,)."""

    @property
    def format(self) -> FileFormat: ...
    @property
    def files(self) -> Sequence[FileInfo]: ...
    @property
    def paths(self) -> Sequence[str]: ...
    @property
    def file(self) -> NDArray[np.int64]: ...
    @property
    def index(self) -> NDArray[np.int64]: ...
    @property
    def rows(self) -> NDArray[np.int64]: ...

    def __len__(self) -> int: ...

    @property
    def schemas(self) -> Sequence[FileSchema]:
        """The layouts that files share, by their places."""

    def members(self, layout: int) -> NDArray[np.int64]:
        """The units whose files have a layout."""

    def is_lossless(self, layout: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        """Whether a reader that shows the column as a type (None: as the file's own) shows what is stored; and nulls
        where the file lacks it (`leaf` is None)."""

    def chunks(self, layout: int, leaf: LeafColumn, reads: ReadCount) -> Chunks:
        """The chunks of `leaf` in :meth:`members`; `reads` grows by what it takes."""

    def extent(self, unit: int) -> tuple[int, int]:
        """The byte offset at which a unit begins in its file, and its length in bytes."""

    def extents_of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and the lengths of several."""

    def within(self, units: NDArray[np.int64]) -> Parts | None:
        """What `units` consist of, where there is evidence about less than a unit; None where there is not."""


class Parts(Table, Protocol):
    """The row groups of some stripes, in their order: `of` (n,) is the place of each one's unit in the table that it
    belongs to, `total` how many that whole table has. Only a whole unit can be read, but each of its parts can be
    excluded."""

    @property
    def of(self) -> NDArray[np.int64]: ...
    @property
    def total(self) -> int: ...


ReaderTypes = Mapping[tuple[str, ...], str]
"""The types that a reader shows columns as, in Spark's words: ``bigint``, ``decimal(10,2)``."""
