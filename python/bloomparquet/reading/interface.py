"""The interface between a file format and the reading of rows and inspection of filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.evaluate.mask import Convert
from bloomparquet.query.literals import Family


class FilterRow(NamedTuple):
    """One Bloom filter, as :func:`bloomparquet.inspect` returns it. `stripe` and `unusable` are of ORC only."""

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
    unusable: str | None


class Probed(NamedTuple):
    """The answers of filters for n row groups, shape (n,). False in `might_match` is a proof, true is a maybe.

    `fpp` is about the filters that say maybe: the share of absent values for which they would say maybe, too, from a
    sample; 0 if no filter says maybe.
    """

    might_match: NDArray[np.bool_]
    has_filter: NDArray[np.bool_]
    fpp: float


class FormatReader(Protocol):
    """Reads the files of one table: their rows, and their Bloom filters."""

    @property
    def convert(self) -> Convert:
        """Converts literals for comparison; see :func:`bloomparquet.query.evaluate.mask.bind_mask`."""

    def schemas(self) -> Iterator[pa.Schema]:
        """The Arrow schemas of the files, in order of first occurrence."""

    def file_schema(self, file_index: int) -> FileSchema:
        """The schema of a file."""

    def collated(self, file_index: int) -> frozenset[str]:
        """The top-level columns of a file with text that Spark compares by a collation."""

    def legacy_calendar(self, file_index: int) -> frozenset[str]:
        """The top-level columns of a file with dates or timestamps in a calendar that is Julian before 1582."""

    def read(self, file_index: int, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some `columns` of row groups or stripes of a file. One row group or stripe is in memory at a time."""

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
