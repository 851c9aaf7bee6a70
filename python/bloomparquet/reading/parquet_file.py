"""Reads the rows of one Parquet file: row groups by pyarrow, and single rows from the pages that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError, PlanError, first_line, located, quoted
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages.decrypted_row_group import DecryptedRowGroups
from bloomparquet.parquet.pages.image import ColumnPages, find_column, index_extents, read_rows
from bloomparquet.parquet.pages.search import rows_of_pages_with
from bloomparquet.parquet.values.encoding import plain_values
from bloomparquet.planning.arrow_schema import cast_int96, int96_columns
from bloomparquet.reading.amounts import ReadAmounts
from bloomparquet.reading.calendars import legacy_calendar_columns
from bloomparquet.reading.cost import reads_pages, searches, searches_dictionary, threads_for_pages
from bloomparquet.reading.interface import FileReader, rows_of
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import ReadBytes, prefetch
from bloomparquet.storage.threads import in_threads

_BATCH_ROWS = 64 * 1024
_KEPT_COLUMNS = 4096  # of one file, in all row groups: where their pages lie


class ParquetFileReader(FileReader):
    """The reader of one Parquet file.

    The file is opened once, so that all rows are of one version, and closed with the last reference to the reader.
    """

    def __init__(self, storage: Storage, path: str, footer: Footer) -> None:
        self.storage, self.path, self.schema = storage, path, footer.profile.schema
        self.collated, self.legacy_calendar = footer.profile.traits.collated, legacy_calendar_columns(footer)
        self._footer, self._is_remote = footer, storage.threads > 1
        # A remote file that was renamed away and back has the same time: so places are not kept beyond this reader.
        self._pages: dict[tuple[int, int], ColumnPages] = {} if self._is_remote else footer.pages
        self._int96 = int96_columns(self.schema)
        self._numbers = {node.name: number for number, node in enumerate(self.schema.root.children)}
        self._opened: pq.ParquetFile | None = None
        if footer.crypto is None:
            self._source, self._metadata = storage.open_file(path), footer.to_arrow()

    def size_of(self, unit: int, columns: Sequence[str]) -> int:
        names, leaves = frozenset(columns), self.schema.leaves
        wanted = sum(leaf.path[0] in names for leaf in leaves)
        return (self._footer.sizes[unit] or 0) * wanted // max(len(leaves), 1)

    def read(self, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = list(columns)
        if self.amounts is not None:
            for unit in units:
                self._count(self.amounts, unit, names)
        batches: Iterable[pa.RecordBatch] | None = None
        if len(units) > 1 and self._can_be_read_at_once(units, names):
            rows = sum(self._footer.rows[unit] for unit in units)
            # If this fails, each row group is read alone: that names the damaged one.
            with suppress(FormatError, OSError, pa.ArrowException):
                # No batch is returned before all rows are counted: at an empty page, pyarrow goes on in the next row
                # group, and the values of that column move.
                batches = list(self._decode(self._file(), units, rows, names))
        yield from chain.from_iterable(self._read_one(unit, names) for unit in units) if batches is None else batches

    def _can_be_read_at_once(self, units: Sequence[int], names: Sequence[str]) -> bool:
        """Whether each column has as many values as each row group has rows. Only then pyarrow gives each row group its
        own rows: it fills a batch with the next values of a column. Nested columns are not compared, and so read alone.
        """
        footer, leaves = self._footer, self.schema.leaves
        chosen = [leaf for leaf in leaves if leaf.path[0] in names]
        if footer.crypto is not None or any(len(leaf.path) > 1 for leaf in chosen):
            return False
        with suppress(FormatError):
            return all(
                footer.read_chunk(unit, leaf.index).values == footer.rows[unit] for unit in units for leaf in chosen
            )
        return False

    def _read_one(self, unit: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        with located(f"{self.path}: row group {unit}"):
            if self._footer.crypto is None:
                yield from self._decode(self._file(), [unit], self._footer.rows[unit], names)
            else:
                yield from self._read_encrypted(unit, names)

    def _decode(
        self, file: pq.ParquetFile, row_groups: Sequence[int], rows: int, names: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """The batches of row groups. FormatError unless pyarrow reads as many `rows` as they have together.

        pyarrow reads no further in a column when it finds an empty data page where a batch begins.
        """
        read = 0
        try:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=row_groups, columns=names):
                if absent := set(names).difference(batch.schema.names):
                    raise FormatError(
                        f"column {quoted(min(absent))} is a group without leaf columns, and has no values; "
                        "read other columns of this file"
                    )
                read += batch.num_rows
                yield cast_int96(batch, self._int96) if self._int96 else batch
        except pa.ArrowInvalid as error:  # columns or fields of different lengths, among others
            raise FormatError(_incomplete(file, row_groups, rows, names) or first_line(error)) from error
        if read != rows:
            raise FormatError(_incomplete(file, row_groups, rows, names) or _counts(read, rows))

    def find_rows(
        self, unit: int, column: str, values: Sequence[Any], timezone: str | None
    ) -> NDArray[np.int64] | None:
        size = self.size_of(unit, [column])
        leaf = self.schema.comparable.get((column,))
        if leaf is None or column in self.legacy_calendar | self.collated:
            return None
        if self._footer.crypto is not None or not searches(size, len(values), self.storage):
            return None
        number = self._numbers[column]
        with suppress(FormatError, PlanError):  # reading the whole column says what is wrong
            plain = plain_values(leaf, values, self._footer.profile.traits, timezone)
            pages = None if plain is None else self._find_pages(unit, number, self._read_bytes)
            if plain is None or pages is None:
                return None
            chunk = pages.chunks[0]
            size = int(chunk.end[-1] - chunk.start[0])
            if chunk.dictionary is not None and chunk.may_use_dictionary.all():
                start, end = chunk.dictionary
                if not searches_dictionary(end - start, size):
                    return None
            sizes: list[int] = []
            read = _noting(sizes, self._read_bytes)
            threads = threads_for_pages(size, self.storage)
            rows = rows_of_pages_with(chunk, plain, read, threads)
            if self.amounts is not None:
                self.amounts.add_pages(column, sizes)
            return None if len(rows) == self._footer.rows[unit] else rows
        return None

    def read_rows(self, unit: int, columns: Sequence[str], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        has_pages = self._footer.crypto is None and reads_pages(self.size_of(unit, columns), len(columns))
        pages = self._read_pages(unit, columns, rows) if has_pages else {}
        whole = [name for name in columns if name not in pages]
        if not whole:
            yield pa.RecordBatch.from_arrays(list(pages.values()), names=list(pages))
            return
        start = 0
        for batch in rows_of(self.read([unit], whole), rows):
            arrays = {name: column.slice(start, batch.num_rows) for name, column in pages.items()}
            arrays |= zip(batch.schema.names, batch.columns, strict=True)
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
            start += batch.num_rows

    def _read_pages(self, unit: int, columns: Sequence[str], rows: NDArray[np.int64]) -> dict[str, pa.Array]:
        """The values at `rows` of those columns of which a part of the pages holds them. Damaged pages are left to
        pyarrow, which reads the whole column or says what is wrong."""
        read: ReadBytes = self._read_bytes
        numbers = [self._numbers[name] for name in columns]
        if self._is_remote:
            indexes = {number: index_extents(self._footer, unit, number) for number in numbers}
            read = prefetch(self.storage, read, list(chain(*indexes.values())))
            # Without an index, each header would be a request.
            pages = [self._find_pages(unit, number, read) if indexes[number] else None for number in numbers]
        else:
            pages = [self._find_pages(unit, number, read) for number in numbers]
        extents = [extent for column in pages if column is not None for extent in column.extents(rows)]
        if self._is_remote:
            read = prefetch(self.storage, read, extents)
        threads = threads_for_pages(sum(end - start for start, end in extents), self.storage)
        work = partial(self._read_column, rows, read)
        decoded = in_threads(threads, work, list(zip(columns, pages, strict=True)))
        arrays = {name: values for name, values in zip(columns, decoded, strict=True) if values is not None}
        if self._int96 and arrays:
            batch = cast_int96(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)), self._int96)
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        return arrays

    def _find_pages(self, unit: int, number: int, read: ReadBytes) -> ColumnPages | None:
        known = self._pages
        pages = known.get((unit, number))
        if pages is None:
            with suppress(FormatError):
                pages = find_column(self._footer, unit, number, read, by_index=self._is_remote)
        if pages is not None:
            if len(known) >= _KEPT_COLUMNS:
                known.clear()
            known[unit, number] = pages
        return pages

    def _read_column(
        self, rows: NDArray[np.int64], read: ReadBytes, column: tuple[str, ColumnPages | None]
    ) -> pa.Array | None:
        name, pages = column
        if pages is None:
            return None
        with suppress(FormatError):
            sizes: list[int] = []
            values = read_rows(pages, rows, _noting(sizes, read))
            if self.amounts is not None and values is not None:
                self.amounts.add_pages(name, sizes)
            return values
        return None

    def _count(self, amounts: ReadAmounts, unit: int, columns: Sequence[str]) -> None:
        for leaf in self.schema.leaves:
            if leaf.path[0] in columns:
                with suppress(BloomParquetError):  # reading it says what is wrong
                    amounts.add_whole(leaf.path[0], self._footer.read_chunk(unit, leaf.index).compressed_size or 0)

    def _read_bytes(self, start: int, end: int) -> bytes:
        data: bytes = self._source.read_at(end - start, start)
        return data

    def _file(self) -> pq.ParquetFile:
        """The file as pyarrow opens it. A remote file is opened for each read, because pyarrow keeps what it has
        prefetched in memory."""
        file = self._opened or pq.ParquetFile(
            self._source, metadata=self._metadata, coerce_int96_timestamp_unit="us", pre_buffer=self._is_remote
        )
        self._opened = None if self._is_remote else file
        return file

    def _read_encrypted(self, unit: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        images = DecryptedRowGroups(self.storage, self.path, self._footer, names)
        data, metadata = images.read(unit, ReadCount())
        try:
            file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata, coerce_int96_timestamp_unit="us")
            yield from self._decode(file, [0], self._footer.rows[unit], names)
        except (OSError, pa.ArrowException) as error:  # pyarrow reads from memory here: an OSError means damage
            raise FormatError(first_line(error)) from error


def _noting(sizes: list[int], read: ReadBytes) -> ReadBytes:
    """`read`, which appends the sizes of what it reads to `sizes`."""

    def read_noted(start: int, end: int) -> bytes | memoryview:
        sizes.append(end - start)
        return read(start, end)

    return read_noted


def _incomplete(file: pq.ParquetFile, row_groups: Sequence[int], rows: int, columns: Sequence[str]) -> str | None:
    """A message that names the first column of which pyarrow cannot read all `rows`; None if there is none."""
    for name in columns:
        try:
            read = sum(b.num_rows for b in file.iter_batches(_BATCH_ROWS, row_groups=row_groups, columns=[name]))
        except pa.ArrowInvalid as error:
            return f"column {name}: expected {rows} rows; pyarrow cannot read them: {first_line(error)}"
        if read != rows:
            return f"column {name}: {_counts(read, rows)}"
    return None


def _counts(read: int, rows: int) -> str:
    return (
        f"pyarrow read {read} rows; expected {rows}, the number in the footer; the file is damaged, or it has data "
        "pages without values, where pyarrow stops; write the file again with another engine"
    )
