"""The footers of files: read once, and walked just far enough to find what a plan needs.

A footer is kept as its bytes, with the place of every column chunk in them; chunks are read when a query names their
column (see :mod:`bloomparquet.parquet.metadata.column_chunks`, which also says why pyarrow does not do this). What
all files of a data
set share is in :mod:`bloomparquet.parquet.metadata.file_profile`.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup), ``README.md`` (file layout), ``Encryption.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, KeyRetrievalError, LimitError, quoted
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher, FileCrypto, decrypt_footer, verify_footer
from bloomparquet.parquet.encryption.keys import FileKeys, Keys
from bloomparquet.parquet.encryption.modules import Cipher, Module
from bloomparquet.parquet.metadata.column_chunks import ChunkFields, ChunkTemplates, StepAllowance
from bloomparquet.parquet.metadata.file_profile import FileProfile, profile_of, schema_of, without_row_groups
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC, TRAILER, read_tails
from bloomparquet.parquet.thrift.definitions import PHYSICAL_TYPES, ColumnChunk, ColumnMetaData, FileMetaData, RowGroup
from bloomparquet.parquet.thrift.reader import CompactReader, read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import LeafColumn
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import in_threads

_METADATA = b"\x3c"  # field 3, where none stands before it: a struct
_COLUMNS, _NUM_ROWS, _COMPRESSED_SIZE, _FILE_OFFSET, _ORDINAL = (
    field.id
    for field in (
        RowGroup.columns,
        RowGroup.num_rows,
        RowGroup.total_compressed_size,
        RowGroup.file_offset,
        RowGroup.ordinal,
    )
)
_KEYS_AT_ONCE = 8
_SLOW_SECONDS, _SLOW_KEYS = 0.005, 3  # threads cost more than what is not so slow, so often
_Job = TypeVar("_Job")
_Done = TypeVar("_Done")
_MOST_VALUES = 1 << 20  # of row groups, besides their column chunks: five in each


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

    raw: bytes = field(repr=False)  # with the statistics of columns that others shall not see
    profile: FileProfile
    rows: tuple[int, ...]
    sizes: tuple[int | None, ...]
    chunks: tuple[tuple[int, ...], ...]
    key_values: dict[str, str] = field(repr=False)
    size: int
    crypto: FileCrypto | None = None
    starts: tuple[int, ...] = ()
    ordinals: tuple[int, ...] = ()

    def read_chunk(self, row_group: int, leaf: int) -> ChunkFields:
        """What planning needs of one column chunk. EncryptionError where its metadata does not open."""
        fields = self._stored(row_group, leaf)
        if self.crypto is None and not fields.is_encrypted:
            return fields
        return self.read_chunk_with_cipher(row_group, leaf)[0]

    def read_chunk_with_cipher(self, row_group: int, leaf: int) -> tuple[ChunkFields, ChunkCipher | None]:
        """The same, and what opens the rest of the chunk: None where it is in plain text."""
        fields = self._stored(row_group, leaf)
        if self.crypto is None and not fields.is_encrypted:
            return fields, None
        cipher = self._cipher(fields, row_group, leaf)
        if cipher is None or fields.encrypted_metadata is None:
            return fields, cipher
        opened = _METADATA + self._open(cipher, fields, leaf) + b"\0"
        return self.profile.templates[leaf].read(opened, 0), cipher

    def chunk_cipher(self, row_group: int, leaf: int) -> ChunkCipher | None:
        """What opens a column chunk; None where it is in plain text. EncryptionError where its key is not at hand."""
        return self._cipher(self._stored(row_group, leaf), row_group, leaf)

    def chunk_metadata(self, row_group: int, leaf: int) -> ColumnMetaData:
        """The ColumnMetaData of a chunk, however the file holds it. FormatError where there is none, EncryptionError
        where it does not open."""
        fields = self._stored(row_group, leaf)
        cipher = self._cipher(fields, row_group, leaf)
        if cipher is not None and fields.encrypted_metadata is not None:
            return require_metadata(read_struct(self._open(cipher, fields, leaf), ColumnMetaData)[0])
        chunk, _ = read_struct(self.raw, ColumnChunk, self.chunks[row_group][leaf])
        return require_metadata(chunk.meta_data)

    def _open(self, cipher: ChunkCipher, fields: ChunkFields, leaf: int) -> bytes:
        assert self.crypto is not None
        column = self.profile.schema.leaves[leaf]
        try:
            metadata = cipher.decrypt(fields.encrypted_metadata or b"", Module.COLUMN_METADATA)
        except EncryptionError:
            self.crypto.forget_key(column.path)
            raise
        _require_same_column(metadata, column)
        return metadata

    def _stored(self, row_group: int, leaf: int) -> ChunkFields:
        return self.profile.templates[leaf].read(self.raw, self.chunks[row_group][leaf])

    def _cipher(self, fields: ChunkFields, row_group: int, leaf: int) -> ChunkCipher | None:
        if self.crypto is None:
            if fields.is_encrypted:
                raise EncryptionError("the column chunk is encrypted, but the footer does not say how")
            return None
        cipher = _cipher(self.crypto, fields, self.profile.schema.leaves[leaf].path)
        return None if cipher is None else ChunkCipher(cipher, self.ordinals[row_group], leaf)

    def extent(self, row_group: int) -> tuple[int, int]:
        """The byte offset at which the row group begins in its file, and how many bytes its column chunks take, as
        parquet-java understands it, of an encrypted file without any keys: by their middles it tells which row groups
        are in a range (ParquetMetadataConverter.filterFileMetaDataByMidpoint)."""
        chunks, size = self.chunks[row_group], self.sizes[row_group]
        if not chunks:
            return 0, 0
        first = self._stored(row_group, 0)
        if self.crypto is not None and self._stored(0, 0).data_page_offset is None:
            return self.starts[row_group], size or 0
        # A dictionary that is said to be at 0 is none, but parquet-java takes the row group to begin there.
        pages, dictionary = first.data_page_offset or 0, first.dictionary_page_offset
        start = pages if dictionary is None or dictionary > pages else dictionary
        if size is None:
            size = sum(self._stored(row_group, leaf).compressed_size or 0 for leaf in range(len(chunks)))
        return start, size

    def without_row_groups(self) -> bytes:
        """The FileMetaData without anything about row groups and encryption."""
        return write_struct(without_row_groups(self.raw))

    def to_arrow(self) -> pq.FileMetaData:
        """The footer as pyarrow's readers take it; of an encrypted file without its row groups, of which pyarrow must
        see nothing. Asking this object for a column chunk may end the process."""
        raw = self.raw if self.crypto is None else self.without_row_groups()
        return pq.read_metadata(pa.BufferReader(raw + len(raw).to_bytes(4, "little") + MAGIC))


def _cipher(crypto: FileCrypto, fields: ChunkFields, path: tuple[str, ...]) -> Cipher | None:
    """The cipher of a column chunk; None if the chunk is in plain text.

    Raises EncryptionError if the key is missing, and if the chunk is not encrypted as its file demands: it may have
    been replaced.
    """
    if fields.column_key is None:
        crypto.require_no_own_key(path)
    if not fields.is_encrypted:
        return None
    if fields.encrypted_metadata is None and (fields.column_key is not None or not crypto.encrypted_footer):
        raise EncryptionError("the column is encrypted, but not its metadata; the footer was altered")
    if fields.column_key is not None:
        return crypto.column(path, fields.key_metadata)
    if fields.footer_key is not None:
        return crypto.footer()
    raise EncryptionError("the column is encrypted, but the footer does not say by which key")


def _require_same_column(metadata: bytes, leaf: LeafColumn) -> None:
    """EncryptionError unless an opened ColumnMetaData is that of `leaf`: the schema is not under the column's key, and
    whoever may write it must not change what the column's statistics mean."""
    column = CompactReader(metadata).read_struct(ColumnMetaData, stop_after=ColumnMetaData.path_in_schema.id)
    names = [name.encode("utf-8", "surrogateescape") for name in leaf.path]
    if column.type != PHYSICAL_TYPES.index(leaf.node.physical_type or "") or column.path_in_schema != names:
        raise EncryptionError("the column's metadata is that of another column or type; the schema was altered")


def read_footers(
    storage: Storage,
    files: Sequence[FileInfo],
    count: ReadCount,
    *,
    keys: Keys | None,
    skip_corrupt: bool = False,
    undecryptable: dict[FileInfo, BloomParquetError] | None = None,
) -> list[Footer | None]:
    """Read the footers of `files`, in order: one request for each footer that fits in the first read.

    Raises, with the file's name, FormatError for a file that is no Parquet file or is damaged, EncryptionError for one
    that `keys` do not decrypt, and LimitError for one whose footer has too many values. With `skip_corrupt` a damaged
    file gives None. With `undecryptable` the files of the other two errors give None, and their errors go there.
    """
    footers: list[Footer | None] = []
    for tails in read_tails(storage, files, count):
        footers += _each(keys, partial(_parse_or_skip, storage, keys, skip_corrupt, undecryptable), tails)
    return footers


def _each(keys: Keys | None, work: Callable[[_Job], _Done], jobs: Sequence[_Job]) -> list[_Done]:
    """The results of `work`, which may have to ask for keys. A key management service may take long for each, and each
    file may have one of its own: where it is slow, several are asked for at once."""
    if keys is None or keys.retriever is None:
        return list(map(work, jobs))
    done: list[_Done] = []
    slow = 0
    for job in jobs:
        began = monotonic()
        done.append(work(job))
        slow += monotonic() - began > _SLOW_SECONDS
        if slow == _SLOW_KEYS:
            break
    return [*done, *in_threads(_KEYS_AT_ONCE, work, jobs[len(done) :])]


def prefetch_keys(keys: Keys | None, footers: Sequence[Footer], leaf: int) -> list[KeyRetrievalError | None]:
    """Prefetch one column's keys for many files. Retrieval errors are returned, so that a failed key is not requested
    again."""

    def fetch(footer: Footer) -> KeyRetrievalError | None:
        if footer.crypto is not None and footer.rows:
            try:
                footer.chunk_cipher(0, leaf)
            except KeyRetrievalError as error:
                return error
            except (EncryptionError, FormatError):  # told when the chunks are read
                pass
        return None

    return _each(keys, fetch, footers)


def _parse_or_skip(
    storage: Storage,
    keys: Keys | None,
    skip_corrupt: bool,
    undecryptable: dict[FileInfo, BloomParquetError] | None,
    tail: tuple[FileInfo, bytes | BloomParquetError],
) -> Footer | None:
    file, raw = tail
    try:
        return _parse(storage, keys, file.path, raw)
    except FormatError:
        if not skip_corrupt:
            raise
    except (EncryptionError, LimitError) as error:
        if undecryptable is None:
            raise
        undecryptable[file] = error
    return None


def _parse(storage: Storage, keys: Keys | None, path: str, raw: bytes | BloomParquetError) -> Footer:
    if isinstance(raw, BloomParquetError):
        raise raw
    footer = raw[:-TRAILER]
    file_keys = None if keys is None else keys.for_file(storage, path)
    try:
        if raw[-4:] == ENCRYPTED_MAGIC:
            opened, crypto = decrypt_footer(footer, file_keys)
            return replace(parse_footer(opened, crypto), size=len(raw))
        found = parse_footer(footer, keys=file_keys)
        if found.crypto is None and keys is not None and not keys.allow_plaintext_files:
            raise EncryptionError("the file is in plain text, which the keys do not allow; is it the right file?")
        return found
    except FormatError as error:
        raise FormatError(f"{path}: the footer ({len(footer)} bytes) is damaged: {error}") from error
    except LimitError as error:
        raise LimitError(f"{path}: the footer ({len(footer)} bytes): {error}") from error
    except BloomParquetError as error:
        raise type(error)(f"{path}: {error}") from error


def parse_footer(raw: bytes, crypto: FileCrypto | None = None, *, keys: FileKeys | None = None) -> Footer:
    """A serialised FileMetaData as a footer.

    `crypto` is that of the file it was encrypted in. One in plain text whose columns are encrypted has its signature
    behind it; it is verified with the `keys` to the file, if they have the footer key. Raises :class:`FormatError` or
    :class:`LimitError` for damaged bytes, :class:`EncryptionError` where the signature does not fit.
    """
    schema, templates, schema_end = schema_of(raw)
    reader = CompactReader(raw, schema_end, most=_MOST_VALUES)
    field_id = FileMetaData.schema.id
    while True:
        found = reader.read_field(field_id)
        if found is None:
            raise FormatError(f"{FileMetaData.row_groups} is missing")
        field_id, kind = found
        if field_id == FileMetaData.row_groups.id:
            break
        reader.read_value(kind)
    size, _ = reader.read_list_header()
    allowance = StepAllowance(len(templates))
    found_groups = [_read_row_group(reader, raw, templates, allowance) for _ in range(size)]
    rows, sizes, chunks, marks = zip(*found_groups, strict=True) if found_groups else ((), (), (), ())
    profile, key_values, signing = profile_of(
        schema, templates, raw[:schema_end], raw[reader.position :], encrypted=crypto is not None
    )
    footer = Footer(raw, profile, rows, sizes, chunks, key_values, len(raw) + TRAILER)
    if signing is not None and crypto is None:
        end = len(raw) - signing.signature_bytes
        crypto = verify_footer(raw[:end], raw[end:], signing.algorithm, signing.key_metadata, keys)
        footer = replace(footer, raw=raw[:end])
    if crypto is None:
        return footer
    ordinals = tuple(mark[1] if isinstance(mark[1], int) else i for i, mark in enumerate(marks))
    return replace(footer, crypto=crypto, starts=_starts([mark[0] for mark in marks], sizes), ordinals=ordinals)


def _starts(offsets: Sequence[Any], sizes: Sequence[int | None]) -> tuple[int, ...]:
    """The start of each row group as parquet-java computes it without column metadata: its file_offset, unless that
    lies before the end of the previous row group."""
    starts: list[int] = []
    end = 0
    for offset, size in zip(offsets, sizes, strict=True):
        start = offset if isinstance(offset, int) else 0
        if not starts or start < end:
            start = end or len(MAGIC)
        end = start + (size or 0)
        starts.append(start)
    return tuple(starts)


def _read_row_group(
    reader: CompactReader, raw: bytes, templates: tuple[ChunkTemplates, ...], allowance: StepAllowance
) -> tuple[int, int | None, tuple[int, ...], tuple[Any, Any]]:
    """The rows, the compressed size, the chunks' places, and the file_offset and ordinal of the row group at the
    reader's position."""
    field_id = 0
    numbers: dict[int, Any] = {}
    chunks: list[int] | None = None
    while (found := reader.read_field(field_id)) is not None:
        field_id, kind = found
        if field_id != _COLUMNS:
            numbers[field_id] = reader.read_value(kind)
            continue
        size, _ = reader.read_list_header()
        if size != len(templates):
            raise FormatError(f"a row group has {size} column chunks, but the schema has {len(templates)} leaf columns")
        chunks = []
        position = reader.position
        for template in templates:
            chunks.append(position)
            position = template.skip(raw, position, allowance)
        reader.position = position
    rows = numbers.get(_NUM_ROWS)
    if chunks is None or not isinstance(rows, int) or not 0 <= rows < 2**63:
        raise FormatError(f"the row group that ends at byte {reader.position} lacks its columns or its row count")
    compressed = numbers.get(_COMPRESSED_SIZE)
    mark = numbers.get(_FILE_OFFSET), numbers.get(_ORDINAL)
    return rows, compressed if isinstance(compressed, int) else None, tuple(chunks), mark


def require_plain_chunk(chunk: ColumnChunk) -> ColumnMetaData:
    """The metadata of `chunk`, in plain text. FormatError if it is missing, if the chunk lies in another file or has
    fields of other types; EncryptionError if the chunk is encrypted."""
    if is_encrypted(chunk):
        raise EncryptionError("the column chunk is encrypted")
    return require_metadata(require_same_file(chunk).meta_data)


def is_encrypted(chunk: ColumnChunk) -> bool:
    """Whether a ColumnChunk has any field about encryption."""
    return chunk.has(ColumnChunk.crypto_metadata, ColumnChunk.encrypted_column_metadata)


def require_same_file(chunk: ColumnChunk) -> ColumnChunk:
    """`chunk`. FormatError if it lies in another file or has fields of other types."""
    if chunk.file_path:
        raise FormatError(
            f"the column chunk lies in another file, {quoted(chunk.file_path)}; such files are not changed"
        )
    return chunk.check()


def require_metadata(metadata: ColumnMetaData | None) -> ColumnMetaData:
    """`metadata`. FormatError if it is None or has fields of other types."""
    if metadata is None:
        raise FormatError("the column chunk has no metadata in the footer; expected ColumnMetaData")
    return metadata.check()
