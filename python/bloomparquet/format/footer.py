"""The footers of files: read once, and walked just far enough to find what a plan needs.

A footer is kept as its bytes, with the place of every column chunk in them; chunks are read when a query names their
column (see :mod:`bloomparquet.format.chunks`, which also says why pyarrow does not do this). What all files of a data
set share, their schema and the facts about their writer, is parsed once and recognised by its bytes.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup), ``README.md`` (file layout), ``Encryption.md``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, LimitError
from bloomparquet.format import thrift
from bloomparquet.format.chunks import ChunkFields, ChunkTemplates
from bloomparquet.format.crypto import Algorithm, Module
from bloomparquet.format.schema import FileSchema, parse_schema
from bloomparquet.format.sealed import ChunkCipher, FileCrypto, open_footer, verified
from bloomparquet.format.tails import ENCRYPTED_MAGIC, MAGIC, TRAILER, read_tails
from bloomparquet.format.thrift import CompactReader, Struct
from bloomparquet.format.tree import Items, Tree, read_tree, write_tree
from bloomparquet.storage import FileInfo, ReadCount, Storage

_NO_ROW_GROUPS = b"\x29\x0c"  # field 4, where field 2 stands before it: a list of no structs
_METADATA = b"\x3c"  # field 3, where none stands before it: a struct
_SPARK, _LEGACY_INT96 = _TELLING = ("org.apache.spark.version", "org.apache.spark.legacyINT96")
_ENCRYPTION = (8, 9)  # encryption_algorithm and footer_signing_key_metadata
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

    `size` is what the footer takes at the end of its file, in bytes, with whatever is around `raw` there. Of an
    encrypted file `raw` is in plain text, but for the metadata of columns that is encrypted by itself; `crypto` has the
    keys, and `places` says of each row group where it begins for who cannot look into its columns, and its ordinal.
    """

    raw: bytes
    layout: Layout
    rows: tuple[int, ...]
    sizes: tuple[int | None, ...]
    chunks: tuple[tuple[int, ...], ...]
    key_values: dict[str, str]
    size: int
    crypto: FileCrypto | None = None
    places: tuple[tuple[int, int], ...] = ()

    def read_chunk(self, row_group: int, leaf: int) -> ChunkFields:
        """What planning needs of one column chunk. EncryptionError where its metadata does not open."""
        return self.unlock(row_group, leaf)[0]

    def unlock(self, row_group: int, leaf: int) -> tuple[ChunkFields, ChunkCipher | None]:
        """The same, and what opens the rest of the chunk: None where it is in plain text."""
        fields = self._stored(row_group, leaf)
        cipher = self._cipher(fields, row_group, leaf)
        if cipher is None or fields.sealed_metadata is None:
            return fields, cipher
        opened = _METADATA + cipher.open(fields.sealed_metadata, Module.COLUMN_METADATA) + b"\0"
        return self.layout.templates[leaf].read(opened, 0), cipher

    def chunk_cipher(self, row_group: int, leaf: int) -> ChunkCipher | None:
        """What opens a column chunk; None where it is in plain text. EncryptionError where its key is not at hand."""
        return self._cipher(self._stored(row_group, leaf), row_group, leaf)

    def chunk_metadata(self, row_group: int, leaf: int) -> Tree:
        """The ColumnMetaData of a chunk, however the file holds it. FormatError where there is none, EncryptionError
        where it does not open."""
        fields = self._stored(row_group, leaf)
        cipher = self._cipher(fields, row_group, leaf)
        if cipher is not None and fields.sealed_metadata is not None:
            return read_tree(cipher.open(fields.sealed_metadata, Module.COLUMN_METADATA))[0]
        metadata = read_tree(self.raw, self.chunks[row_group][leaf])[0].get(3)
        if not isinstance(metadata, Tree):
            raise FormatError("the column chunk has no metadata in the footer; expected ColumnMetaData")
        return metadata

    def _stored(self, row_group: int, leaf: int) -> ChunkFields:
        return self.layout.templates[leaf].read(self.raw, self.chunks[row_group][leaf])

    def _cipher(self, fields: ChunkFields, row_group: int, leaf: int) -> ChunkCipher | None:
        if self.crypto is None:
            if fields.is_encrypted:
                raise EncryptionError("the column chunk is encrypted, but the footer does not say how")
            return None
        path = self.layout.schema.leaves[leaf].path
        return self.crypto.chunk(fields, path, self.places[row_group][1], leaf)

    def extent(self, row_group: int) -> tuple[int, int]:
        """The byte offset at which the row group begins in its file, and how many bytes its column chunks take; of an
        encrypted file as a reader without any keys understands it."""
        chunks, size = self.chunks[row_group], self.sizes[row_group]
        if not chunks:
            return 0, 0
        first = self._stored(row_group, 0)
        if self.crypto is not None and self._stored(0, 0).data_page_offset is None:
            return self.places[row_group][0], size or 0
        pages, dictionary = first.data_page_offset or 0, first.dictionary_page_offset or 0
        start = dictionary if 0 < dictionary < pages else pages
        return start, size or sum(self._stored(row_group, leaf).compressed_size or 0 for leaf in range(len(chunks)))

    def without_row_groups(self) -> bytes:
        """The FileMetaData without anything about row groups and encryption."""
        return write_tree(_without_row_groups(self.raw))

    def to_arrow(self) -> pq.FileMetaData:
        """The footer as pyarrow's readers take it; of an encrypted file without its row groups, of which pyarrow must
        see nothing. Asking this object for a column chunk may end the process."""
        raw = self.raw if self.crypto is None else self.without_row_groups()
        return pq.read_metadata(pa.BufferReader(raw + len(raw).to_bytes(4, "little") + MAGIC))


def read_footers(
    storage: Storage,
    files: Sequence[FileInfo],
    count: ReadCount,
    *,
    skip_corrupt: bool = False,
    locked: dict[FileInfo, EncryptionError] | None = None,
) -> list[Footer | None]:
    """The footers of `files`, in their order; one request each when the footer fits in the first read. Encrypted ones
    are opened with the storage's keys.

    Raises :class:`FormatError` that names the file for one that is empty, is no Parquet file or is damaged, and
    :class:`EncryptionError` for one that does not open; with `skip_corrupt` a damaged file gives None instead, and
    with `locked` so does one that does not open, whose error goes there.
    """
    footers: list[Footer | None] = []
    at, expected = 0, _TAIL_GUESS
    while at < len(files):
        # The footers of a data set are of similar sizes: the first few say how much of the others to read.
        some = files[at : at + (_FILES_AT_ONCE if at else _FIRST_FILES)]
        tails = read_tails(storage, some, expected, count)
        footers += [_parse_or_skip(storage, *pair, skip_corrupt, locked) for pair in zip(some, tails, strict=True)]
        seen = sorted(len(raw) for raw in tails if isinstance(raw, bytes))
        if seen:  # a few that are far larger than the others had better be read twice
            usual = seen[len(seen) * 7 // 8]
            expected = min(max(usual + usual // 4, storage.near // 4), _MOST_TAIL)
        at += len(some)
    return footers


def _parse_or_skip(
    storage: Storage,
    file: FileInfo,
    raw: bytes | FormatError,
    skip_corrupt: bool,
    locked: dict[FileInfo, EncryptionError] | None,
) -> Footer | None:
    try:
        return _parse(storage, file.path, raw)
    except FormatError:
        if not skip_corrupt:
            raise
    except EncryptionError as error:
        if locked is None:
            raise
        locked[file] = error
    return None


def _parse(storage: Storage, path: str, raw: bytes | FormatError) -> Footer:
    if isinstance(raw, FormatError):
        raise raw
    footer = raw[:-TRAILER]
    try:
        if raw[-4:] == ENCRYPTED_MAGIC:
            opened, crypto = open_footer(footer, storage, path)
            return replace(parse_footer(opened, crypto), size=len(raw))
        return parse_footer(footer, source=(storage, path))
    except (FormatError, LimitError) as error:
        raise FormatError(f"{path}: the footer ({len(footer)} bytes) is damaged: {error}") from error
    except BloomParquetError as error:
        raise type(error)(f"{path}: {error}") from error


def parse_footer(raw: bytes, crypto: FileCrypto | None = None, *, source: tuple[Storage, str] | None = None) -> Footer:
    """A serialised FileMetaData as a footer.

    `crypto` is that of the file it was encrypted in. One in plain text whose columns are encrypted has its signature
    behind it; it is verified with the keys to `source`, the storage and the path that it is from. Raises
    :class:`FormatError` or :class:`LimitError` for damaged bytes, :class:`EncryptionError` where the signature does not
    fit, or needs a `source`.
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
    rows, sizes, chunks, marks = zip(*found_groups, strict=True) if found_groups else ((), (), (), ())
    layout, key_values, signing = _layout_of(
        schema, templates, raw[:schema_end], raw[reader.position :], secret=crypto is not None
    )
    footer = Footer(raw, layout, rows, sizes, chunks, key_values, len(raw) + TRAILER)
    if signing is not None and crypto is None:
        if source is None:
            raise EncryptionError("the file has encrypted columns")
        end = len(raw) - signing.signature_bytes
        crypto = verified(raw[:end], raw[end:], signing.algorithm, signing.key_metadata, *source)
        footer = replace(footer, raw=raw[:end])
    return footer if crypto is None else replace(footer, crypto=crypto, places=_places(marks, sizes))


def _places(marks: Sequence[tuple[int | None, int | None]], sizes: Sequence[int | None]) -> tuple[tuple[int, int], ...]:
    """Of each row group, where parquet-java takes it to begin when it cannot look into the columns: at its file_offset,
    unless that lies before the end of the row group before (ParquetMetadataConverter.filterFileMetaDataByMidpoint);
    and its ordinal. `marks` are these two as they are stored."""
    places: list[tuple[int, int]] = []
    end = 0
    for i, ((offset, ordinal), size) in enumerate(zip(marks, sizes, strict=True)):
        start = offset or 0
        if i == 0 or start < end:
            start = end or len(MAGIC)
        end = start + (size or 0)
        places.append((start, i if ordinal is None else ordinal))
    return tuple(places)


def _read_row_group(
    reader: CompactReader, raw: bytes, templates: tuple[ChunkTemplates, ...]
) -> tuple[int, int | None, tuple[int, ...], tuple[int | None, int | None]]:
    """The rows, the compressed size, the chunks' places, and the file_offset and ordinal of the row group at the
    reader's position."""
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
    compressed, offset, ordinal = (
        number if isinstance(number := numbers.get(field_id), int) else None for field_id in (6, 5, 7)
    )
    return rows, compressed if compressed and compressed > 0 else None, tuple(chunks), (offset, ordinal)


class _Signing(NamedTuple):
    """What a footer in plain text says of its signature, which is what is left of the footer."""

    algorithm: Algorithm
    key_metadata: bytes | None
    signature_bytes: int


_schemas_lock = threading.Lock()
_schemas: list[tuple[bytes, FileSchema, tuple[ChunkTemplates, ...]]] = []
_layouts: dict[tuple[int, bool, WriterTraits], Layout] = {}
_tails: dict[tuple[int, bool, bytes], tuple[Layout, dict[str, str], _Signing | None]] = {}
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
    schema: FileSchema, templates: tuple[ChunkTemplates, ...], head: bytes, tail: bytes, *, secret: bool
) -> tuple[Layout, dict[str, str], _Signing | None]:
    """The layout and the key-value metadata of a file whose footer has `head`, with the schema, before its row groups
    and `tail` behind them, and how it is signed; most files of a data set have the same. Files with `secret` footers
    share none with others, of which it may be stored."""
    known = _tails.get((id(schema), secret, tail))
    if known is None or known[0].schema is not schema:
        traits, key_values, signing = _parse_tail(schema, tail)
        key = (id(schema), secret, traits)
        layout = _layouts.get(key)
        if layout is None or layout.schema is not schema:
            layout = Layout(schema, traits, templates, _skeleton_of(head + _NO_ROW_GROUPS + tail))
        for cache in (_tails, _layouts):
            if len(cache) >= 4 * _KEPT_SCHEMAS:
                cache.clear()
        _layouts[key] = layout
        known = layout, key_values, signing
        if signing is None:  # signatures are all different
            _tails[id(schema), secret, tail] = known
    return known


def _skeleton_of(raw: bytes) -> bytes:
    """A FileMetaData with what makes its layout, and nothing else that is about one file only."""
    tree = _without_row_groups(raw)
    pairs = tree.get(5)
    if isinstance(pairs, Items):
        pairs[:] = [pair for pair in pairs if _text(pair.get(1)) in _TELLING or _is_altered(_text(pair.get(2)))]
    return write_tree(tree)


def _without_row_groups(raw: bytes) -> Tree:
    tree, _ = read_tree(raw)
    tree.put(4, thrift.LIST, Items(thrift.LIST, thrift.STRUCT, []))
    for field_id in _ENCRYPTION:
        tree.drop(field_id)
    return tree


def _parse_tail(schema: FileSchema, tail: bytes) -> tuple[WriterTraits, dict[str, str], _Signing | None]:
    reader = CompactReader(tail)
    fields: Struct = {}
    field_id = 4
    while (found := reader.read_field(field_id)) is not None:
        field_id, kind = found
        fields[field_id] = reader.read_value(kind)
    left, signing = len(tail) - reader.position, None
    if _ENCRYPTION[0] in fields:
        metadata = fields.get(_ENCRYPTION[1])
        signing = _Signing(
            Algorithm.parse(fields[_ENCRYPTION[0]]), metadata if isinstance(metadata, bytes) else None, left
        )
    elif left and any(tail[-left:]):  # parquet-java encrypts footers with zeros behind them
        raise FormatError(f"{left} bytes follow the end of FileMetaData")
    pairs = {_text(pair.get(1)): _text(pair.get(2)) for pair in fields.get(5) or () if isinstance(pair, dict)}
    orders = tuple(isinstance(order, dict) and 1 in order for order in fields.get(7) or ())
    traits = WriterTraits(
        spark=_SPARK in pairs and _text(fields.get(6)).startswith("parquet-mr"),
        legacy_int96=_LEGACY_INT96 in pairs,
        altered_text=any(map(_is_altered, pairs.values())),
        column_orders=orders if len(orders) == len(schema.leaves) else (False,) * len(schema.leaves),
    )
    return traits, pairs, signing


def _is_altered(text: str) -> bool:
    return "__CHAR_VARCHAR_TYPE_STRING" in text or "__COLLATIONS" in text


def _text(raw: object) -> str:
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else ""
