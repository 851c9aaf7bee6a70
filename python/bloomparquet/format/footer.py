"""The footers of files: read once, and walked just far enough to find what a plan needs.

A footer is kept as its bytes, with the place of every column chunk in them; chunks are read when a query names their
column (see :mod:`bloomparquet.format.chunks`, which also says why pyarrow does not do this). What all files of a data
set share, their schema and the facts about their writer, is parsed once and recognised by its bytes.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup), ``README.md`` (file layout), ``Encryption.md``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, LimitError
from bloomparquet.format.chunks import ChunkFields, ChunkTemplates
from bloomparquet.format.schema import FileSchema, parse_schema
from bloomparquet.format.thrift import CompactReader, Struct
from bloomparquet.storage import FileInfo, ReadCount, Storage, read_ranges

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
_TRAILER = 8  # the footer's length (4 bytes, little-endian) and the magic
_NO_ROW_GROUPS = b"\x29\x0c"  # field 4, where field 2 stands before it: a list of no structs
_TAIL_GUESS = 16 * 1024
_MOST_TAIL = 256 * 1024
_FIRST_FILES = 16
_FILES_AT_ONCE = 512  # bounds the memory that tails take


@dataclass(frozen=True, slots=True)
class WriterTraits:
    """What the footer says about how values were written, as far as it changes which bytes a value was hashed as, or
    which bounds can be trusted."""

    spark: bool  # written by Apache Spark; other writers hand its key-value metadata on, but not its created_by
    legacy_int96: bool  # INT96 in the calendar and time zone of the writer
    altered_text: (
        bool  # some string column is CHAR(n)/VARCHAR(n) or has a collation: equal strings may be unequal bytes
    )
    column_orders: tuple[bool, ...]  # per leaf: its min_value and max_value are in the type's defined order


@dataclass(frozen=True, eq=False)
class Layout:
    """What files of one writer and schema share; compared by identity, shared between footers.

    `skeleton` is a serialised FileMetaData without row groups, from which :func:`parse_footer` makes the same layout.
    """

    schema: FileSchema
    traits: WriterTraits
    templates: tuple[ChunkTemplates, ...]  # per leaf
    skeleton: bytes


@dataclass(frozen=True)
class Footer:
    """One file's footer: the serialised FileMetaData, and where things are in it.

    Per row group, `rows` are its rows, `sizes` the bytes of its column chunks (None where the footer does not say), and
    ``chunks[i][j]`` is where in `raw` the metadata of leaf j's chunk begins. Plain tuples of numbers: there are as many
    as row groups, and the garbage collector need not visit these.
    """

    raw: bytes
    layout: Layout
    rows: tuple[int, ...]
    sizes: tuple[int | None, ...]
    chunks: tuple[tuple[int, ...], ...]
    key_values: dict[str, str]

    def read_chunk(self, row_group: int, leaf: int) -> ChunkFields:
        """What planning needs of one column chunk."""
        return self.layout.templates[leaf].read(self.raw, self.chunks[row_group][leaf])

    def extent(self, row_group: int) -> tuple[int, int]:
        """The byte offset at which the row group begins in its file, and how many bytes its column chunks take."""
        chunks, size = self.chunks[row_group], self.sizes[row_group]
        if not chunks:
            return 0, 0
        first = self.read_chunk(row_group, 0)
        pages, dictionary = first.data_page_offset or 0, first.dictionary_page_offset or 0
        start = dictionary if 0 < dictionary < pages else pages
        return start, size or sum(self.read_chunk(row_group, leaf).compressed_size or 0 for leaf in range(len(chunks)))

    def to_arrow(self) -> pq.FileMetaData:
        """The footer as pyarrow's readers take it. Asking this object for a column chunk may end the process."""
        size = len(self.raw).to_bytes(4, "little")
        return pq.read_metadata(pa.BufferReader(self.raw + size + MAGIC))


def read_footers(
    storage: Storage, files: Sequence[FileInfo], count: ReadCount, *, skip_corrupt: bool = False
) -> list[Footer | None]:
    """The footers of `files`, in their order; one request each when the footer fits in the first read.

    Raises :class:`FormatError` that names the file for one that is empty, is no Parquet file or is damaged, and
    :class:`EncryptionError` for an encrypted one; with `skip_corrupt` a damaged file gives None instead.
    """
    footers: list[Footer | None] = []
    at, expected = 0, _TAIL_GUESS
    while at < len(files):
        # The footers of a data set are of similar sizes: the first few say how much of the others to read.
        some = files[at : at + (_FILES_AT_ONCE if at else _FIRST_FILES)]
        tails = _read_tails(storage, some, expected, count)
        footers += [_parse_or_skip(file.path, raw, skip_corrupt) for file, raw in zip(some, tails, strict=True)]
        seen = sorted(len(raw) for raw in tails if isinstance(raw, bytes))
        if seen:  # a few that are far larger than the others had better be read twice
            usual = seen[len(seen) * 7 // 8]
            expected = min(max(usual + usual // 4, storage.near // 4), _MOST_TAIL)
        at += len(some)
    return footers


def _parse_or_skip(path: str, raw: bytes | FormatError, skip_corrupt: bool) -> Footer | None:
    try:
        return _parse(path, raw)
    except FormatError:
        if not skip_corrupt:
            raise
        return None


def _read_tails(
    storage: Storage, files: Sequence[FileInfo], expected: int, count: ReadCount
) -> list[bytes | FormatError]:
    """Each file's footer with its trailer, or what is wrong with it; read again where it is larger than `expected`."""
    paths = [file.path for file in files]
    sizes = np.array([file.size for file in files], np.int64)
    tails: list[bytes | FormatError] = [b""] * len(files)
    readable = np.flatnonzero(sizes >= len(MAGIC) + _TRAILER)
    for i in np.flatnonzero(sizes < len(MAGIC) + _TRAILER).tolist():
        tails[i] = _not_parquet(files[i])
    guess = np.minimum(sizes[readable], expected)
    ranges = read_ranges(storage, paths, readable, sizes[readable] - guess, guess, count)
    buffer = ranges.buffer.data
    longer: list[int] = []
    for i, start, size in zip(readable.tolist(), ranges.starts.tolist(), guess.tolist(), strict=True):
        end = start + size
        tail = bytes(buffer[end - _TRAILER : end])
        needed = int.from_bytes(tail[:4], "little") + _TRAILER
        if tail[-4:] not in (MAGIC, ENCRYPTED_MAGIC):
            tails[i] = FormatError(
                f"{paths[i]}: not a Parquet file, or cut short: its last 4 bytes are {tail[-4:]!r}; expected {MAGIC!r}"
            )
        elif needed + len(MAGIC) > sizes[i]:
            tails[i] = FormatError(
                f"{paths[i]}: the file claims a footer of {needed - _TRAILER} bytes, "
                f"but has {sizes[i]} in all; it is damaged or cut short"
            )
        elif needed <= size:
            tails[i] = bytes(buffer[end - needed : end])
        else:
            tails[i] = tail
            longer.append(i)
    lengths = np.array([int.from_bytes(tails[i][-_TRAILER:-4], "little") + _TRAILER for i in longer], np.int64)  # type: ignore[index]
    again = np.array(longer, np.int64)
    ranges = read_ranges(storage, paths, again, sizes[again] - lengths, lengths, count)
    for i, start, size in zip(longer, ranges.starts.tolist(), lengths.tolist(), strict=True):
        tails[i] = ranges.buffer[start : start + size].tobytes()
    return tails


def _not_parquet(file: FileInfo) -> FormatError:
    what = "the file is empty (0 bytes)" if file.size == 0 else f"not a Parquet file: {file.size} bytes are too few"
    return FormatError(
        f"{file.path}: {what}; expected at least {len(MAGIC) + _TRAILER} bytes with {MAGIC!r} at both ends"
    )


def _parse(path: str, raw: bytes | FormatError) -> Footer:
    if isinstance(raw, FormatError):
        raise raw
    if raw[-4:] == ENCRYPTED_MAGIC:
        raise EncryptionError(
            f"{path}: the footer is encrypted; encrypted files cannot be planned, read them with spark.read.parquet"
        )
    footer = raw[:-_TRAILER]
    try:
        return parse_footer(footer)
    except (FormatError, LimitError) as error:
        raise FormatError(f"{path}: the footer ({len(footer)} bytes) is damaged: {error}") from error
    except BloomParquetError as error:
        raise type(error)(f"{path}: {error}") from error


def parse_footer(raw: bytes) -> Footer:
    """A serialised FileMetaData as a footer.

    Raises :class:`FormatError` or :class:`LimitError` for damaged bytes, :class:`EncryptionError` when columns are
    encrypted.
    """
    schema, templates, schema_end = _schema_of(raw)
    reader = CompactReader(raw, schema_end)
    field_id = 2
    while True:
        found = reader.read_field(field_id)
        if found is None:
            raise FormatError("it has no row groups (field 4 of FileMetaData)")
        field_id, kind = found
        if field_id == 4:
            break
        reader.read_value(kind)
    size, _ = reader.read_list_header()
    found_groups = [_read_row_group(reader, raw, templates) for _ in range(size)]
    rows, sizes, chunks = zip(*found_groups, strict=True) if found_groups else ((), (), ())
    layout, key_values = _layout_of(schema, templates, raw[:schema_end], raw[reader.position :])
    return Footer(raw, layout, rows, sizes, chunks, key_values)


def _read_row_group(
    reader: CompactReader, raw: bytes, templates: tuple[ChunkTemplates, ...]
) -> tuple[int, int | None, tuple[int, ...]]:
    """The rows, the compressed size and the chunks' places of the row group at the reader's position."""
    field_id = 0
    numbers: dict[int, Any] = {}
    chunks: list[int] | None = None
    while (found := reader.read_field(field_id)) is not None:
        field_id, kind = found
        if field_id != 1:
            numbers[field_id] = reader.read_value(kind)
            continue
        size, _ = reader.read_list_header()
        if size != len(templates):
            raise FormatError(f"a row group has {size} column chunks, but the schema has {len(templates)} leaf columns")
        chunks = []
        position = reader.position
        for template in templates:
            chunks.append(position)
            position = template.skip(raw, position)
        reader.position = position
    rows = numbers.get(3)
    if chunks is None or not isinstance(rows, int) or not 0 <= rows < 2**63:
        raise FormatError(f"the row group that ends at byte {reader.position} lacks its columns or its row count")
    compressed = numbers.get(6)
    return rows, compressed if isinstance(compressed, int) and compressed > 0 else None, tuple(chunks)


_schemas_lock = threading.Lock()
_schemas: list[tuple[bytes, FileSchema, tuple[ChunkTemplates, ...]]] = []
_layouts: dict[tuple[int, WriterTraits], Layout] = {}
_tails: dict[tuple[int, bytes], tuple[Layout, dict[str, str]]] = {}
_KEPT_SCHEMAS = 512


def _schema_of(footer: bytes) -> tuple[FileSchema, tuple[ChunkTemplates, ...], int]:
    """The schema, and where it ends. The files of a data set begin with the same bytes up to there."""
    with _schemas_lock:
        for i, (head, schema, templates) in enumerate(_schemas):
            if footer.startswith(head):
                if i:  # the next file most likely has the same
                    _schemas.insert(0, _schemas.pop(i))
                return schema, templates, len(head)
    schema, size = parse_schema(footer)
    templates = tuple(ChunkTemplates(fixed_width=leaf.node.physical_type != "BYTE_ARRAY") for leaf in schema.leaves)
    with _schemas_lock:
        _schemas.insert(0, (footer[:size], schema, templates))
        del _schemas[_KEPT_SCHEMAS:]
    return schema, templates, size


def _layout_of(
    schema: FileSchema, templates: tuple[ChunkTemplates, ...], head: bytes, tail: bytes
) -> tuple[Layout, dict[str, str]]:
    """The layout and the key-value metadata of a file whose footer has `head`, with the schema, before its row groups
    and `tail` behind them; most files of a data set have the same."""
    known = _tails.get((id(schema), tail))
    if known is None or known[0].schema is not schema:
        traits, key_values = _parse_tail(schema, tail)
        key = (id(schema), traits)
        layout = _layouts.get(key)
        if layout is None or layout.schema is not schema:
            layout = Layout(schema, traits, templates, head + _NO_ROW_GROUPS + tail)
        for cache in (_tails, _layouts):
            if len(cache) >= 4 * _KEPT_SCHEMAS:
                cache.clear()
        _layouts[key] = layout
        known = _tails[id(schema), tail] = layout, key_values
    return known


def _parse_tail(schema: FileSchema, tail: bytes) -> tuple[WriterTraits, dict[str, str]]:
    reader = CompactReader(tail)
    fields: Struct = {}
    field_id = 4
    while (found := reader.read_field(field_id)) is not None:
        field_id, kind = found
        fields[field_id] = reader.read_value(kind)
    if 8 in fields:  # the algorithm with which columns of this file are encrypted
        raise EncryptionError(
            "the file has encrypted columns; such files cannot be planned, read them with spark.read.parquet"
        )
    if reader.position != len(tail):
        raise FormatError(f"{len(tail) - reader.position} bytes follow the end of FileMetaData")
    pairs = {_text(pair.get(1)): _text(pair.get(2)) for pair in fields.get(5) or () if isinstance(pair, dict)}
    orders = tuple(isinstance(order, dict) and 1 in order for order in fields.get(7) or ())
    traits = WriterTraits(
        spark="org.apache.spark.version" in pairs and _text(fields.get(6)).startswith("parquet-mr"),
        legacy_int96="org.apache.spark.legacyINT96" in pairs,
        altered_text=any("__CHAR_VARCHAR_TYPE_STRING" in text or "__COLLATIONS" in text for text in pairs.values()),
        column_orders=orders if len(orders) == len(schema.leaves) else (False,) * len(schema.leaves),
    )
    return traits, pairs


def _text(raw: object) -> str:
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else ""
