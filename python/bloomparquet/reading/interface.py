"""The interface between a file format and the reading of rows and inspection of filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.query.arrow_values import filter_rows, from_bools
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.evaluate.mask import Convert
from bloomparquet.query.literals import Family
from bloomparquet.reading.amounts import ReadAmounts
from bloomparquet.storage.files import Storage


class FilterRow(NamedTuple):
    """One Bloom filter, as :func:`bloomparquet.inspect` returns it. `stripe` and `unusable` are of ORC only, and
    `page_index` of Parquet."""

    file: str
    row_group: int
    stripe: int | None
    column: str
    type: str
    rows: int
    offset: int
    bytes: int
    bits_set: int
    estimated_ndv: float
    estimated_fpp: float
    unusable: str | None = None
    page_index: bool | None = None


class Probed(NamedTuple):
    """The answers of filters for n row groups, shape (n,). False in `might_match` is a proof, true is a maybe.

    `fpp` is about the filters that say maybe: the share of absent values for which they would say maybe, too, from a
    sample; 0 if no filter says maybe.
    """

    might_match: NDArray[np.bool_]
    has_filter: NDArray[np.bool_]
    fpp: float


class FileReader(Protocol):
    """Reads the rows of one file. Several threads may use it. `columns` name top-level columns of the file.

    `collated`: the top-level columns with text that Spark compares by a collation. `legacy_calendar`: those with dates
    or timestamps in a calendar that is Julian before 1582. `amounts`: where to count what is read, if anywhere.
    """

    path: str
    storage: Storage
    schema: FileSchema
    collated: frozenset[str]
    legacy_calendar: frozenset[str]
    amounts: ReadAmounts | None

    def size_of(self, unit: int, columns: Sequence[str]) -> int:
        """About how many bytes `columns` of a row group or stripe have in the file."""

    def read(self, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of row groups or stripes, in this order. Raises FormatError if they have not as many as the footer
        says."""

    def find_rows(
        self, unit: int, column: str, values: Sequence[Any], timezone: str | None
    ) -> NDArray[np.int64] | None:
        """Positions in a row group or stripe that include those of all rows in which `column` equals one of `values`,
        ascending. None: all of them, or not known without decoding the column."""

    def read_rows(self, unit: int, columns: Sequence[str], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at the positions `rows` of a row group or stripe, ascending, at least one."""


def rows_of(batches: Iterator[pa.RecordBatch], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The rows at the positions `rows`, ascending, of `batches`."""
    start = end = 0
    for batch in batches:
        start, end = end, end + batch.num_rows
        first, last = np.searchsorted(rows, (start, end)).tolist()
        if first < last:
            is_wanted = np.zeros(batch.num_rows, np.bool_)
            is_wanted[rows[first:last] - start] = True
            yield filter_rows(batch, from_bools(is_wanted))


class FormatReader(Protocol):
    """Reads the rows of the files of one table."""

    @property
    def convert(self) -> Convert:
        """Converts literals for comparison; see :func:`bloomparquet.query.evaluate.mask.bind_mask`."""

    def schemas(self, files: Sequence[int] | None = None) -> Iterator[pa.Schema]:
        """The Arrow schemas of `files`, given by index (None: all files), in order of first occurrence.

        The call reads the footers that are not in memory, all at once.
        """

    def file(self, file_index: int) -> FileReader:
        """The reader of the rows of a file."""


class Inspector(Protocol):
    """Looks into the Bloom filters of the files of one table, which were read together."""

    def column_type(self, schema_index: int, leaf: LeafColumn) -> tuple[Family, str]:
        """The family of `leaf`, and its type for a message."""

    def row_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The file index of each row group, and its number within the file, in file order."""

    def filters(self, leaves: Sequence[tuple[int, LeafColumn]]) -> Iterator[FilterRow]:
        """Every Bloom filter of `leaves`. Each leaf has the index of its schema in ``table.schemas`` before it.

        Raises the error of a filter that cannot be used.
        """

    def probe(self, leaves: Sequence[tuple[int, LeafColumn]], value: Any, timezone: str) -> Probed:
        """Ask the filters of `leaves` in each of :meth:`row_groups` whether they might hold `value`.

        Raises PlanError for a value of another kind than the column's, UnsupportedError if the stored bytes of the
        value are not known or the filters prove nothing, and the error of a filter that cannot be used.
        """
