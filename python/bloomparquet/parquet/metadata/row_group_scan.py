"""Finds the row groups of a footer and their column chunks, in one footer or in many that are alike.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.parquet.metadata.column_chunks import MANY, ChunkTemplates, DecodeBudget
from bloomparquet.parquet.thrift.definitions import ColumnChunk, FileMetaData, RowGroup
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import STRUCT
from bloomparquet.parquet.thrift.struct_arrays import Buffer, Cursor, match
from bloomparquet.parquet.thrift.template import MAX_TEMPLATE_VALUES, Template, Wanted, compile_template
from bloomparquet.parquet.thrift.writer import write_struct

_MAX_VALUES = 1 << 20  # Thrift values of row groups without their column chunks: five in each
_MAX_ROW_GROUPS = _MAX_VALUES // MAX_TEMPLATE_VALUES  # of one file that is scanned together with others
_FORMS = 4  # of row groups that are read at once
_ROWS, _SIZE = 0, 1
_FIELDS = RowGroup.num_rows, RowGroup.total_compressed_size
_WANTED = Wanted(
    {(field.id,): slot for field, slot in zip(_FIELDS, (_ROWS, _SIZE), strict=True)},
    kinds={(field.id,): field.kind for field in _FIELDS},
)
_NO_SIZE = np.iinfo(np.int64).min
_NUM_ROWS, _ROW_GROUPS = b"\x16", b"\x19"  # the headers of these fields, which follow the schema


class RowGroupScan(NamedTuple):
    """The row groups of a footer: `rows`; `sizes`, the bytes of the column chunks (None if the footer does not say);
    ``chunks[row_group, leaf]``, the offset in the footer of a leaf's ColumnChunk; `marks`, file_offset and ordinal.

    `end`: where the row groups end in the footer.
    """

    rows: tuple[int, ...]
    sizes: tuple[int | None, ...]
    chunks: NDArray[np.uint32]
    marks: tuple[tuple[Any, Any], ...]
    end: int


def scan_row_groups(raw: bytes, schema_end: int, templates: Sequence[ChunkTemplates]) -> RowGroupScan:
    """Scan one footer, whose schema ends at `schema_end`. Raises FormatError or LimitError for damaged bytes."""
    reader = CompactReader(raw, schema_end, most=_MAX_VALUES)
    for field_id, kind in reader.fields(FileMetaData.schema.id):
        if field_id == FileMetaData.row_groups.id:
            break
        reader.read_value(kind)
    else:
        raise FormatError(f"{FileMetaData.row_groups} is missing")
    size, _ = reader.read_list_header()
    budget = DecodeBudget(len(templates))
    groups = [_read_row_group(reader, raw, templates, budget) for _ in range(size)]
    rows, sizes, chunks, marks = zip(*groups, strict=True) if groups else ((), (), (), ())
    offsets = np.array(chunks, np.uint32).reshape(len(rows), len(templates))
    return RowGroupScan(rows, sizes, offsets, marks, reader.position)


def _read_row_group(
    reader: CompactReader, raw: bytes, templates: Sequence[ChunkTemplates], budget: DecodeBudget
) -> tuple[int, int | None, list[int], tuple[Any, Any]]:
    """The row group at the reader's position: its rows, compressed size, chunk offsets, and (file_offset, ordinal)."""
    numbers: dict[int, Any] = {}
    chunks: list[int] | None = None
    for field_id, kind in reader.fields():
        if field_id != RowGroup.columns.id:
            value = reader.read_value(kind)
            if _WANTED.kinds.get((field_id,), kind) == kind:
                numbers[field_id] = value
            continue
        size, _ = reader.read_list_header()
        if size != len(templates):
            raise FormatError(f"a row group has {size} column chunks, but the schema has {len(templates)} leaf columns")
        chunks = []
        position = reader.position
        for template in templates:
            chunks.append(position)
            position = template.skip(raw, position, budget)
        reader.position = position
    rows = numbers.get(RowGroup.num_rows.id)
    if chunks is None or rows is None or not 0 <= rows < 2**63:
        raise FormatError(f"the row group that ends at byte {reader.position} lacks its columns or its row count")
    mark = numbers.get(RowGroup.file_offset.id), numbers.get(RowGroup.ordinal.id)
    return rows, numbers.get(RowGroup.total_compressed_size.id), chunks, mark


def scan_many(
    footers: Sequence[bytes], schema_end: int, templates: Sequence[ChunkTemplates]
) -> list[RowGroupScan | None]:
    """Scan the footers of unencrypted files that begin with the same schema. Their scans have no `marks`.

    None for a footer that must be scanned alone: it may be damaged, or is unlike the others.
    """
    if len(footers) < MANY:
        return [None] * len(footers)
    scan = _ManyFooters(footers, schema_end, templates)
    while len(scan.files) >= MANY:
        scan.read_row_groups()
    return scan.results()


class _ManyFooters:
    """The scan of many footers. `files` are the indexes of those that have more row groups."""

    def __init__(self, footers: Sequence[bytes], schema_end: int, templates: Sequence[ChunkTemplates]) -> None:
        self._buffer, self._templates = Buffer(footers), templates
        self._budget = DecodeBudget(len(templates))
        empty_chunks = write_struct(RowGroup(columns=[ColumnChunk()] * len(templates)))
        self._columns_header = empty_chunks[: -1 - len(templates)]
        cursor = Cursor(self._buffer, self._buffer.starts + schema_end)
        cursor.integers(_NUM_ROWS)
        cursor.literal(_ROW_GROUPS)
        counts = cursor.list_size(STRUCT)
        self._at = cursor.at.view(np.int64)
        usable = (cursor.differs == 0) & (counts <= _MAX_ROW_GROUPS) & (self._at + counts <= self._buffer.ends)
        self._counts = np.where(usable, counts, -1)
        none = np.empty(0, np.int64)
        self._parts = [(none, none, none, none.reshape(0, len(templates)))]  # of each round: files, rows, sizes, chunks
        self.files = np.flatnonzero(self._counts > 0)

    def read_row_groups(self) -> None:
        """Read the next row group of each of `files`. Files that must be scanned alone are left out from then on."""
        buffer, files = self._buffer, self.files
        cursor = Cursor(buffer, self._at[files])
        cursor.literal(self._columns_header)
        position = np.where(cursor.differs == 0, cursor.at.view(np.int64), -1)
        chunks = np.empty((len(files), len(self._templates)), np.int64)
        for leaf, template in enumerate(self._templates):
            if (position < 0).any():
                files, chunks, position = (array[position >= 0] for array in (files, chunks, position))
            chunks[:, leaf] = position
            position = template.skip_all(buffer, position, buffer.ends[files], self._budget)
        rows, sizes, ends = self._read_last_fields(files, position)
        readable = (ends >= 0) & (rows >= 0)
        files, chunks = files[readable], chunks[readable]
        self._at[files] = ends[readable]
        self._parts.append((files, rows[readable], sizes[readable], chunks - buffer.starts[files, np.newaxis]))
        self.files = files[self._counts[files] >= len(self._parts)]

    def _read_last_fields(self, files: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows, the sizes and the ends of row groups, read from the fields after the columns, at `positions`.

        The end is -1 for fields that cannot be read, and for a position of -1.
        """
        buffer = self._buffer
        rows, sizes, ends = np.full((3, len(files)), -1, np.int64)
        left = np.flatnonzero(positions >= 0)
        for _ in range(_FORMS):
            if len(left) < MANY:
                break
            template = _template_of_last_fields(buffer.data, int(positions[left[0]]))
            if template is None:
                left = left[1:]
                continue
            matches = match(template, b"", buffer, positions[left], buffer.ends[files[left]])
            ends[left], rows[left] = matches.ends, matches.integers[_ROWS]
            sizes[left] = matches.integers.get(_SIZE, _NO_SIZE)
            left = left[matches.ends < 0]
        return np.stack((rows, sizes, ends))

    def results(self) -> list[RowGroupScan | None]:
        """The scan of each footer."""
        files, rows, sizes, chunks = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        order = np.argsort(files, kind="stable")
        all_rows, chunks = rows[order].tolist(), chunks[order].astype(np.uint32)
        all_sizes = [None if size == _NO_SIZE else size for size in sizes[order].tolist()]
        read = np.bincount(files, minlength=len(self._counts))
        last, starts = np.cumsum(read), self._buffer.starts
        scans: list[RowGroupScan | None] = []
        for i, j, is_whole, end in zip(last - read, last, read == self._counts, self._at - starts, strict=True):
            scan = RowGroupScan(tuple(all_rows[i:j]), tuple(all_sizes[i:j]), chunks[i:j], (), int(end))
            scans.append(scan if is_whole else None)
        return scans


def _template_of_last_fields(buffer: bytes, position: int) -> Template | None:
    """The template of a row group's fields after its columns. None if they do not say the rows, or are damaged."""
    try:
        compiled = compile_template(buffer, position, _WANTED, last_id=RowGroup.columns.id)
    except BloomParquetError:
        return None
    if compiled is None or all(step.slot != _ROWS for step in compiled[0].steps):
        return None
    return compiled[0]
