"""Reads the rows and the Bloom filters of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bloomparquet.errors import FormatError, UnsupportedError, first_line, located, quoted, shorten
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages.decrypted_row_group import DecryptedRowGroups
from bloomparquet.parquet.values.encoding import encode_values, parquet_family
from bloomparquet.planning.arrow_schema import cast_int96, footer_schemas, int96_columns
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.leaf_reasons import false_positives
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.evaluate.mask import Convert
from bloomparquet.query.literals import Family, coerce_all
from bloomparquet.query.names import dotted_name
from bloomparquet.reading.calendars import legacy_calendar_columns
from bloomparquet.reading.interface import FilterRow, Probed, rows_of
from bloomparquet.storage.files import ReadCount, Storage

_BATCH_ROWS = 64 * 1024


class ParquetReader:
    """The reader of Parquet files; see :class:`bloomparquet.reading.interface.FormatReader`."""

    def __init__(self, table: RowGroups) -> None:
        self._table = table

    @property
    def convert(self) -> Convert:
        return coerce_all

    def schemas(self) -> Iterator[pa.Schema]:
        return footer_schemas(self._table.footers)

    def file(self, file_index: int) -> ParquetFileReader:
        return ParquetFileReader(self._table.storage, self._table.paths[file_index], self._table.footer(file_index))

    def column_type(self, schema_index: int, leaf: LeafColumn) -> tuple[Family, str]:
        return parquet_family(leaf.node), leaf.describe()

    def row_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._table.file, self._table.index

    def filters(self, leaves: Sequence[tuple[int, LeafColumn]]) -> Iterator[FilterRow]:
        table = self._table
        for schema_index, leaf in leaves:
            chunks = table.chunks(schema_index, leaf)
            for i, row_group in enumerate(chunks.members.tolist()):
                bitset = chunks.filters.read(table.storage, i, ReadCount())
                if bitset is None:
                    continue
                bloom = SplitBlockBloomFilter.from_bytes(bitset.tobytes())
                path, index = table.paths[int(table.file[row_group])], int(table.index[row_group])
                yield FilterRow(
                    path, index, None, dotted_name(leaf.path), leaf.describe(), int(table.rows[row_group]),
                    int(chunks.filters.offset[i]), bloom.num_bytes, bloom.bits_set, bloom.estimated_ndv,
                    bloom.estimated_fpp, None,
                )  # fmt: skip

    def probe(self, leaves: Sequence[tuple[int, LeafColumn]], value: Any, timezone: str) -> Probed:
        might_match = np.ones(len(self._table), np.bool_)
        has_filter = np.zeros(len(self._table), np.bool_)
        shares: list[float] = []
        for schema_index, leaf in leaves:
            chunks = self._table.chunks(schema_index, leaf)
            encoded = encode_values(leaf, [value], self._table.profiles[schema_index].traits, timezone)
            if encoded is None or encoded.hashes is None:
                raise UnsupportedError(
                    f"column {shorten('.'.join(leaf.path))} ({leaf.describe()}): cannot probe for {quoted(value)}: "
                    "the bytes that this column stores for the value are not known"
                )
            n, hashes = len(chunks.members), encoded.hashes
            question = Question(
                self._table.storage, np.arange(n), np.zeros(n, np.int64), np.full(n, len(hashes)), hashes, ReadCount()
            )  # fmt: skip
            verdicts, unusable = chunks.filters.check(question)
            if unusable:
                raise min(chunks.filters.errors.items())[1]
            might_match[chunks.members] = verdicts
            has_filter[chunks.members] = chunks.filters.present
            if len(maybe := np.flatnonzero(verdicts & chunks.filters.present)):
                shares.append(false_positives(chunks.filters, maybe, self._table.storage, ReadCount()))
        return Probed(might_match, has_filter, max(shares, default=0.0))


class ParquetFileReader:
    """The reader of one Parquet file; see :class:`bloomparquet.reading.interface.FileReader`."""

    def __init__(self, storage: Storage, path: str, footer: Footer) -> None:
        self.storage, self.path, self.schema = storage, path, footer.profile.schema
        self.collated, self.legacy_calendar = footer.profile.traits.collated, legacy_calendar_columns(footer)
        self._footer = footer
        self._metadata = footer.to_arrow()
        self._leaves: dict[str, list[int]] = {}
        for leaf in self.schema.leaves:
            self._leaves.setdefault(leaf.path[0], []).append(leaf.index)

    def size_of(self, unit: int, columns: Sequence[str]) -> int:
        total = self._footer.sizes[unit]
        wanted = sum(len(self._leaves.get(name, ())) for name in columns)
        return (total or 0) * wanted // max(len(self.schema.leaves), 1)

    def read(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return read_row_groups(self.storage, self.path, self._footer, [unit], columns, self._metadata)

    def read_rows(self, unit: int, columns: Sequence[str], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        return rows_of(self.read(unit, columns), rows)


def read_row_groups(
    storage: Storage,
    path: str,
    footer: Footer,
    row_groups: Sequence[int],
    columns: Sequence[str] | None = None,
    metadata: pq.FileMetaData | None = None,
) -> Iterator[pa.RecordBatch]:
    """Some row groups of the Parquet file at `path` as record batches. One row group is decoded at a time.

    `columns` names top-level columns. INT96 is read as ``timestamp[us, UTC]``, as Spark does.

    Raises EncryptionError for a column whose key is missing, and for data that was altered; FormatError for a column of
    which pyarrow reads fewer rows than the row group has, and for a struct without leaf columns, which it leaves out.
    """
    names = None if columns is None else list(columns)
    int96 = int96_columns(footer.profile.schema.root)
    read = _read_plaintext if footer.crypto is None else _read_encrypted
    for batch in read(storage, path, footer, row_groups, names, metadata):
        if absent := [name for name in names or () if name not in batch.schema.names]:
            raise FormatError(
                f"{path}: column {quoted(absent[0])} is a group without leaf columns, and has no values; "
                "read other columns of this file"
            )
        yield cast_int96(batch, int96) if int96 else batch


def _read_plaintext(
    storage: Storage,
    path: str,
    footer: Footer,
    row_groups: Sequence[int],
    columns: list[str] | None,
    metadata: pq.FileMetaData | None,
) -> Iterator[pa.RecordBatch]:
    with storage.open_file(path) as source:
        file = pq.ParquetFile(
            source,
            metadata=metadata or footer.to_arrow(),
            coerce_int96_timestamp_unit="us",
            pre_buffer=storage.threads > 1,
        )
        # One at a time: over several row groups, pyarrow cannot decode dictionaries inside structs.
        for row_group in row_groups:
            with located(f"{path}: row group {row_group}"):
                yield from _all_rows(file, row_group, footer.rows[row_group], columns)


def _read_encrypted(
    storage: Storage,
    path: str,
    footer: Footer,
    row_groups: Sequence[int],
    columns: list[str] | None,
    _: pq.FileMetaData | None,
) -> Iterator[pa.RecordBatch]:
    images, count = DecryptedRowGroups(storage, path, footer, columns), ReadCount()
    for row_group in row_groups:
        data, metadata = images.read(row_group, count)
        with located(f"{path}: row group {row_group}"):
            try:
                file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata, coerce_int96_timestamp_unit="us")
                yield from _all_rows(file, 0, footer.rows[row_group], columns)
            except (OSError, pa.ArrowException) as error:  # pyarrow reads from memory here: an OSError means damage
                raise FormatError(first_line(error)) from error


def _all_rows(file: pq.ParquetFile, row_group: int, rows: int, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """The batches of one row group. FormatError unless pyarrow reads as many `rows` as the row group has.

    pyarrow reads no further in a column when it finds an empty data page where a batch begins.
    """
    read = 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[row_group], columns=columns):
            read += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:  # columns or fields of different lengths, among others
        raise FormatError(_incomplete(file, row_group, rows, columns) or first_line(error)) from error
    if read != rows:
        raise FormatError(_incomplete(file, row_group, rows, columns) or _counts(read, rows))


def _incomplete(file: pq.ParquetFile, row_group: int, rows: int, columns: list[str] | None) -> str | None:
    """A message that names the first column of which pyarrow cannot read all `rows`; None if there is none."""
    for name in file.schema_arrow.names if columns is None else columns:
        try:
            read = sum(b.num_rows for b in file.iter_batches(_BATCH_ROWS, row_groups=[row_group], columns=[name]))
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
