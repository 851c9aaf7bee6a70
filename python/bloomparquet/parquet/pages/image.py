"""Reads some rows of a column by decoding only the pages that hold them.

pyarrow decodes row groups, not pages. So the pages that hold the rows are copied into memory as a file with one row
group and one top-level column: an *image*. Its schema is copied from the file, so that pyarrow gives the same type.
The dictionary page is left out if no page uses it.

The leaves of a struct have pages that end at different rows. Where one leaf has no page for rows of another, the image
has a page of nulls. Leaves that share a list must not be filled up: their pages are taken from a row to another at
which pages of all of them begin.

The image claims one row more than its pages should have. pyarrow then reads all rows that they do have, and any other
number than the expected one is an error.

Source: parquet-format ``parquet.thrift`` (FileMetaData, PageHeader), ``Encodings.md`` (RLE).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bloomparquet.errors import FormatError, first_line
from bloomparquet.parquet.metadata.file_profile import ARROW_SCHEMA, FileProfile
from bloomparquet.parquet.metadata.file_tail import MAGIC, to_arrow_metadata
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages.headers import DATA_PAGE_V2, PLAIN, Page
from bloomparquet.parquet.pages.places import ChunkPages, find_pages, index_extent
from bloomparquet.parquet.thrift.definitions import (
    PHYSICAL_TYPES,
    ColumnChunk,
    ColumnMetaData,
    DataPageHeaderV2,
    FileMetaData,
    KeyValue,
    PageHeader,
    RowGroup,
    SchemaElement,
)
from bloomparquet.parquet.thrift.writer import varint, write_struct
from bloomparquet.query.arrow_values import slices_at
from bloomparquet.query.columns import LeafColumn, SchemaNode
from bloomparquet.storage.ranges import ReadBytes

Rows = NDArray[np.int64]

_MOST_OF_COLUMN = 0.9
"""From this share of a column's cost on, decoding it whole takes less time."""
_LARGE_PAGE = 32_768
"""The rows of a page that is worth an image of its own."""
_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""The bytes of a PLAIN zero or empty value."""


class _Form(NamedTuple):
    """The parts of a top-level column's image that its files share: the footer without row groups, and the leaves.
    ``required[i]``: leaf i cannot be null."""

    skeleton: bytes
    leaves: tuple[LeafColumn, ...]
    required: tuple[bool, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPages:
    """Where the pages of one top-level column of a row group lie: one :class:`ChunkPages` for each leaf."""

    form: _Form
    chunks: tuple[ChunkPages, ...]

    def choose(self, rows: Rows) -> _Choice:
        """The pages that hold `rows`, which are sorted and not empty."""
        own = [_distinct(chunk.pages_of(rows)) for chunk in self.chunks]
        if len(own) == 1:
            first_row = self.chunks[0].first_row
            return _Choice(first_row[own[0]], first_row[own[0] + 1], own)
        if not any(chunk.leaf.repeated for chunk in self.chunks):
            starts = np.concatenate([c.first_row[pages] for c, pages in zip(self.chunks, own, strict=True)])
            ends = np.concatenate([c.first_row[pages + 1] for c, pages in zip(self.chunks, own, strict=True)])
            return _Choice(*_union(starts, ends), own)
        borders = reduce(np.intersect1d, (chunk.first_row for chunk in self.chunks))
        first = _distinct(np.searchsorted(borders, rows, side="right") - 1)
        starts, ends = borders[first], borders[first + 1]
        return _Choice(starts, ends, [_pages_within(chunk, starts, ends) for chunk in self.chunks])

    def extents(self, rows: Rows) -> list[tuple[int, int]]:
        """The bytes that :func:`read_rows` is expected to read."""
        choice = self.choose(rows)
        chosen = zip(self.chunks, choice.pages, strict=True)
        if self.is_read_whole(choice):
            return []
        return [extent for chunk, pages in chosen for extent in chunk.extents(pages)]

    def is_read_whole(self, choice: _Choice) -> bool:
        """Whether decoding the whole column costs no more than decoding the chosen pages. A large page is decoded
        alone, with the texts of the wanted rows only."""
        chosen = sum(chunk.cost(pages) for chunk, pages in zip(self.chunks, choice.pages, strict=True))
        most = _MOST_OF_COLUMN * max(sum(chunk.cost_of_all for chunk in self.chunks), 1)
        is_large_page = max(map(len, choice.pages)) == 1 and int((choice.ends - choice.starts).sum()) >= _LARGE_PAGE
        return chosen > most and not is_large_page


class _Choice(NamedTuple):
    """The rows ``starts[i]:ends[i]`` of a row group, and the numbers of the pages that hold them for each leaf."""

    starts: Rows
    ends: Rows
    pages: list[NDArray[np.int64]]

    def positions(self, rows: Rows) -> Rows:
        """Where `rows` are in the image."""
        before = np.cumsum(self.ends - self.starts) - self.ends  # what to add to a row
        return rows + before[np.searchsorted(self.starts, rows, side="right") - 1]


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct ones of sorted numbers."""
    is_new = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]


def _union(starts: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """The union of the row ranges, as disjoint ranges in order."""
    order = np.argsort(starts)
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    begins = np.append(True, starts[1:] > reach[:-1])
    return starts[begins], reach[np.append(begins[1:], True)]


def _pages_within(chunk: ChunkPages, starts: Rows, ends: Rows) -> NDArray[np.int64]:
    """The pages of the row ranges, which begin and end where pages do. Pages without rows are left out."""
    first = chunk.first_row[:-1]
    within = np.searchsorted(starts, first, side="right") - 1
    return np.flatnonzero((within >= 0) & (first < ends[within]) & (first < chunk.first_row[1:]))


def index_extents(footer: Footer, row_group: int, column: int) -> list[tuple[int, int]]:
    """The bytes that :func:`find_column` reads by index. Empty if a leaf has no index."""
    first, end = _first_leaves(footer.profile)[column : column + 2]
    extents = [index_extent(footer, row_group, leaf) for leaf in footer.profile.schema.leaves[first:end]]
    return [] if None in extents else [extent for extent in extents if extent is not None]


def find_column(
    footer: Footer, row_group: int, column: int, read: ReadBytes, *, by_index: bool = False
) -> ColumnPages | None:
    """Find the pages of the top-level column number `column`; see :func:`find_pages`. None: read it whole."""
    form = _form(footer.profile, column, footer.key_values.get(ARROW_SCHEMA), footer.created_by)
    if form is None:
        return None
    chunks = []
    for leaf in form.leaves:
        pages = find_pages(footer, row_group, leaf, read, by_index=by_index)
        if pages is None:
            return None
        chunks.append(pages)
    return ColumnPages(form, tuple(chunks))


def read_rows(column: ColumnPages, rows: Rows, read: ReadBytes) -> pa.Array | None:
    """The values of a column at `rows`, as pyarrow reads the row group. `rows` are sorted, and at least one.

    None: nearly all pages hold such a row, so that the row group should be read whole. FormatError for damage.
    """
    choice = column.choose(rows)
    if column.is_read_whole(choice):
        return None
    parts: list[bytes | memoryview] = [MAGIC]  # pyarrow ignores a dictionary page at byte 0
    total = int((choice.ends - choice.starts).sum())
    chosen = [
        [chunk.read(page, read) for page in pages.tolist()]
        for chunk, pages in zip(column.chunks, choice.pages, strict=True)
    ]
    chunks = [
        _append_pages(parts, chunk, pages, read_pages, choice, read, is_required)
        for chunk, pages, read_pages, is_required in zip(
            column.chunks, choice.pages, chosen, column.form.required, strict=True
        )
    ]
    path = column.chunks[0].leaf.path
    is_dictionary = len(path) == 1 and all(header.uses_dictionary for header, _ in chosen[0])
    try:
        metadata = image_metadata(column.form.skeleton, chunks, total + 1)
        image = pq.ParquetFile(
            pa.BufferReader(_join(parts)), metadata=metadata, coerce_int96_timestamp_unit="us",
            read_dictionary=list(path) if is_dictionary else None,  # of text; pyarrow reads other types as always
        )  # fmt: skip
        values = image.read_row_group(0, use_threads=False).column(0)
        if len(values) != total:
            raise FormatError(f"the pages have {len(values)} rows; expected {total}")
        taken = _take(values, choice.positions(rows))
        return _decoded(taken, metadata) if is_dictionary else taken
    except (OSError, pa.ArrowException) as error:  # pyarrow reads from memory here: an OSError means damage
        raise FormatError(first_line(error)) from error


def _decoded(values: pa.Array, metadata: pq.FileMetaData) -> pa.Array:
    """`values` without the dictionary in which they were read. So only the texts of the wanted rows are made."""
    kind = metadata.schema.to_arrow_schema().field(0).type
    is_plain = pa.types.is_dictionary(kind) or not pa.types.is_dictionary(values.type)
    return values if is_plain else values.dictionary_decode().cast(kind)


def _take(values: pa.ChunkedArray, positions: Rows) -> pa.Array:
    try:
        return values.take(pa.array(positions)).combine_chunks()
    except pa.ArrowNotImplementedError:  # views of strings
        pieces = [piece for run in slices_at(values, positions) for piece in run.chunks]
        return pa.chunked_array(pieces, values.type).combine_chunks()


def _join(parts: Sequence[bytes | memoryview]) -> pa.Buffer:
    """The parts in one buffer, in Arrow's memory: fresh memory of the process costs more than the copy."""
    buffer = pa.allocate_buffer(sum(map(len, parts)))
    view, at = memoryview(buffer).cast("B"), 0
    for part in parts:
        view[at : at + len(part)] = part
        at += len(part)
    return buffer


def _append_pages(
    parts: list[bytes | memoryview],
    chunk: ChunkPages,
    pages: NDArray[np.int64],
    chosen: Sequence[tuple[Page, bytes | memoryview]],
    choice: _Choice,
    read: ReadBytes,
    is_required: bool,
) -> ColumnChunk:
    """Append `chosen`, the pages numbered `pages` of a leaf, to `parts`, with its dictionary page if one needs it."""
    begin, before, dictionary = sum(map(len, parts)), len(parts), None
    if any(header.uses_dictionary for header, _ in chosen):
        parts.append(chunk.read_dictionary(read))
        dictionary = begin
    data, at = sum(map(len, parts)), 0
    total = int((choice.ends - choice.starts).sum())
    firsts = choice.positions(chunk.first_row[pages]).tolist()
    counts = (chunk.first_row[pages + 1] - chunk.first_row[pages]).tolist()
    for (_, raw), first, count in zip(chosen, firsts, counts, strict=True):
        if first > at:
            parts.append(_filling(chunk.leaf, first - at, is_required))
        parts.append(raw)
        at = first + count
    if total > at:
        parts.append(_filling(chunk.leaf, total - at, is_required))
    values = sum(header.values for header, _ in chosen) if chunk.leaf.repeated else total
    return image_column(chunk.leaf, chunk.codec, values, sum(map(len, parts[before:])), data, dictionary)


def _filling(leaf: LeafColumn, rows: int, is_required: bool) -> bytes:
    """A page of `rows` nulls; of zeros or empty values if the leaf cannot be null."""
    if leaf.repeated:
        raise FormatError("the pages of lists do not follow each other")
    levels, body = varint(rows << 1) + b"\0", b""  # one run of the level 0
    if is_required:
        kind, levels = leaf.node.physical_type or "", b""
        width = _WIDTHS.get(kind, leaf.node.type_length or 0)
        body = bytes((rows + 7) // 8 if kind == "BOOLEAN" else rows * width)
    size = len(levels) + len(body)
    header = DataPageHeaderV2(
        num_values=rows, num_nulls=0 if is_required else rows, num_rows=rows, encoding=PLAIN,
        definition_levels_byte_length=len(levels), repetition_levels_byte_length=0, is_compressed=False,
    )  # fmt: skip
    page = PageHeader(
        type=DATA_PAGE_V2, uncompressed_page_size=size, compressed_page_size=size, data_page_header_v2=header
    )
    return write_struct(page) + levels + body


@lru_cache(maxsize=4096)
def _form(profile: FileProfile, column: int, arrow_schema: str | None, created_by: bytes | None) -> _Form | None:
    """The form of a top-level column's image. None for a group without leaves, and for a stored Arrow schema that does
    not fit."""
    nodes = profile.schema.root.children
    before, required = _first_leaves(profile)[column], tuple(_required(nodes[column]))
    (root,), *columns = profile.elements
    metadata = FileMetaData(
        version=2, schema=[SchemaElement(name=root.name, num_children=1), *columns[column]], created_by=created_by
    )
    if arrow_schema is not None:
        schema = _parse_schema(arrow_schema)
        if schema is None or len(schema) != len(nodes):
            return None
        value = base64.b64encode(pa.schema([schema.field(column)]).serialize())
        metadata.key_value_metadata = [KeyValue(key=ARROW_SCHEMA.encode(), value=value)]
    leaves = profile.schema.leaves[before : before + len(required)]
    return _Form(image_skeleton(metadata), leaves, required) if leaves else None


@lru_cache(maxsize=64)
def _first_leaves(profile: FileProfile) -> tuple[int, ...]:
    """The number of the first leaf of each top-level column."""
    counts = [len(list(_required(node))) for node in profile.schema.root.children]
    return tuple(accumulate(counts, initial=0))


@lru_cache(maxsize=64)
def _parse_schema(arrow_schema: str) -> pa.Schema | None:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow_schema)))
    except (binascii.Error, ValueError, OSError, pa.ArrowException):
        return None


def _required(node: SchemaNode, is_required: bool = True) -> Iterator[bool]:
    """Whether each leaf cannot be null, nor anything above it."""
    is_required = is_required and node.repetition == "REQUIRED"
    if node.physical_type is not None:
        yield is_required
    for child in node.children:
        yield from _required(child, is_required)


def image_skeleton(metadata: FileMetaData) -> bytes:
    """The end of an image's footer: all but the rows. `metadata` is without them."""
    for field in (FileMetaData.num_rows, FileMetaData.row_groups):
        metadata.drop(field.id)
    # The fields of a struct may have any order. The header of the first one must not count from the one before it.
    return bytes([FileMetaData.version.kind, FileMetaData.version.id << 1]) + write_struct(metadata)[1:]


def image_metadata(skeleton: bytes, columns: Sequence[ColumnChunk], rows: int) -> pq.FileMetaData:
    """The footer of an image with one row group."""
    group = RowGroup(columns=list(columns), total_byte_size=0, num_rows=rows)
    return to_arrow_metadata(write_struct(FileMetaData(num_rows=rows, row_groups=[group]))[:-1] + skeleton)


def image_column(
    leaf: LeafColumn, codec: int, values: int, size: int, data: int, dictionary: int | None = None
) -> ColumnChunk:
    """The metadata of an image's column chunk, with only the fields that pyarrow needs. `data` and `dictionary` are the
    offsets of pages."""
    metadata = ColumnMetaData(
        type=PHYSICAL_TYPES.index(leaf.node.physical_type or ""), encodings=[], path_in_schema=[], codec=codec,
        num_values=values, total_uncompressed_size=0, total_compressed_size=size, data_page_offset=data,
        dictionary_page_offset=dictionary,
    )  # fmt: skip
    return ColumnChunk(file_offset=0, meta_data=metadata)
