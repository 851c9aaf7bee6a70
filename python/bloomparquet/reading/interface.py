"""What the file formats have in common for the reading of rows and the inspection of filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.query.arrow_values import filter_rows, from_bools
from bloomparquet.query.columns import FileSchema
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


class FileReader(ABC):
    """Reads the rows of one file. Several threads may use it. `columns` name top-level columns of the file.

    `collated`: the top-level columns with text that Spark compares by a collation. `legacy_calendar`: those with dates
    or timestamps in a calendar that is Julian before 1582. `amounts`: where to count what is read, if anywhere.
    """

    path: str
    storage: Storage
    schema: FileSchema
    collated: frozenset[str]
    legacy_calendar: frozenset[str]
    amounts: ReadAmounts | None = None

    @abstractmethod
    def size_of(self, unit: int, columns: Sequence[str]) -> int:
        """About how many bytes `columns` of a row group or stripe have in the file."""

    @abstractmethod
    def read(self, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of row groups or stripes, in this order. Raises FormatError if they have not as many as the footer
        says."""

    def find_rows(
        self, unit: int, column: str, values: Sequence[Any], timezone: str | None
    ) -> NDArray[np.int64] | None:
        """Positions in a row group or stripe that include those of all rows in which `column` equals one of `values`,
        ascending. None: all of them, or not known without decoding the column."""
        return None

    def read_rows(self, unit: int, columns: Sequence[str], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at the positions `rows` of a row group or stripe, ascending, at least one."""
        return rows_of(self.read([unit], columns), rows)


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
