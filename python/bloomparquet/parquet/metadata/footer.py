"""Reads the footers of files once, and parses them only as far as planning needs.

A footer is kept as its bytes, with the offset of each column chunk in them. A chunk is parsed when a query names its
column. :mod:`bloomparquet.parquet.metadata.file_profile` holds the parts that the files of a data set share.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup), ``README.md`` (file layout), ``Encryption.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bloomparquet.errors import (
    BloomParquetError,
    EncryptionError,
    FormatError,
    KeyRetrievalError,
    LimitError,
    quoted,
    shorten,
)
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher, FileCrypto, decrypt_footer, verify_footer
from bloomparquet.parquet.encryption.keys import FileKeys, Keys
from bloomparquet.parquet.encryption.modules import Cipher, Module
from bloomparquet.parquet.metadata.chunk_fields import ChunkFields
from bloomparquet.parquet.metadata.column_chunks import MANY
from bloomparquet.parquet.metadata.file_profile import (
    FileProfile,
    FooterSignature,
    SchemaStart,
    profile_of,
    schema_of,
    without_row_groups,
)
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC, TRAILER, read_tails, to_arrow_metadata
from bloomparquet.parquet.metadata.row_group_scan import RowGroupScan, scan_many, scan_row_groups
from bloomparquet.parquet.thrift.definitions import PHYSICAL_TYPES, ColumnChunk, ColumnMetaData
from bloomparquet.parquet.thrift.reader import CompactReader, read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import dotted_name
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.threads import in_threads

_META_DATA = b"\x3c"  # the header of ColumnChunk.meta_data as the first field
_KEY_THREADS = 8
_MAX_SCHEMAS = 8  # of files that are parsed together

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """One file's footer: the serialised FileMetaData `raw`, and the offsets of its column chunks.

    For each row group: `rows`; `sizes`, the bytes of its column chunks (None if the footer does not say); and
    ``chunks[row_group, leaf]``, the offset in `raw` of a leaf's ColumnChunk. There are many footers, and the garbage
    collector visits neither tuples of numbers nor arrays.

    `size` is the number of bytes of the footer in its file, with everything around `raw`. In an encrypted file `raw` is
    the decrypted footer, in which the metadata of some columns is encrypted once more. `crypto` decrypts it.
    ``starts[i]`` is the start offset of row group `i` as parquet-java computes it when the column metadata is
    encrypted; `ordinals` are the row groups' numbers in encryption. Both are empty for other files.
    ``pages[row_group, column]``: where the pages of a top-level column lie, if a reader of a local file has found it.
    """

    raw: bytes = field(repr=False)  # may hold the statistics of encrypted columns
    profile: FileProfile
    rows: tuple[int, ...]
    sizes: tuple[int | None, ...]
    chunks: NDArray[np.uint32]
    key_values: dict[str, str] = field(repr=False)
    created_by: bytes | None
    size: int
    crypto: FileCrypto | None = None
    starts: tuple[int, ...] = ()
    ordinals: tuple[int, ...] = ()
    pages: dict[tuple[int, int], Any] = field(default_factory=dict, repr=False)

    def chunk_name(self, row_group: int, leaf: int) -> str:
        """``row group 3, column address.city``, for messages."""
        return f"row group {row_group}, column {shorten(dotted_name(self.profile.schema.leaves[leaf].path))}"

    def read_chunk(self, row_group: int, leaf: int) -> ChunkFields:
        """The fields of a column chunk that planning needs. EncryptionError if its metadata cannot be decrypted."""
        return self.read_chunk_with_cipher(row_group, leaf)[0]

    def read_chunk_with_cipher(self, row_group: int, leaf: int) -> tuple[ChunkFields, ChunkCipher | None]:
        """The fields of a column chunk, and the cipher of its pages and filter: None if it is not encrypted.

        EncryptionError if its metadata cannot be decrypted.
        """
        fields = self._stored(row_group, leaf)
        if self.crypto is None and not fields.is_encrypted:
            return fields, None
        cipher = self._cipher(fields, row_group, leaf)
        if cipher is None or fields.encrypted_metadata is None:
            return fields, cipher
        chunk = _META_DATA + self._decrypt_metadata(cipher, fields, leaf) + b"\0"
        return self.profile.templates[leaf].read(chunk, 0), cipher

    def chunk_cipher(self, row_group: int, leaf: int) -> ChunkCipher | None:
        """The cipher of a column chunk; None if it is not encrypted. EncryptionError if its key is missing."""
        return self._cipher(self._stored(row_group, leaf), row_group, leaf)

    def is_decryptable(self, row_group: int, leaf: int) -> bool:
        """Whether a chunk is in plain text or its key is available."""
        try:
            self.chunk_cipher(row_group, leaf)
        except EncryptionError:
            return False
        return True

    def chunk_metadata(self, row_group: int, leaf: int) -> ColumnMetaData:
        """The ColumnMetaData of a chunk, decrypted if necessary.

        FormatError if there is none, or if the chunk lies in another file; EncryptionError if it cannot be decrypted.
        """
        chunk = require_same_file(read_struct(self.raw, ColumnChunk, int(self.chunks[row_group, leaf]))[0])
        fields = self._stored(row_group, leaf)
        cipher = self._cipher(fields, row_group, leaf)
        if cipher is not None and fields.encrypted_metadata is not None:
            return require_metadata(read_struct(self._decrypt_metadata(cipher, fields, leaf), ColumnMetaData)[0])
        return require_metadata(chunk.meta_data)

    def _decrypt_metadata(self, cipher: ChunkCipher, fields: ChunkFields, leaf: int) -> bytes:
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
        return self.profile.templates[leaf].read(self.raw, int(self.chunks[row_group, leaf]))

    def _cipher(self, fields: ChunkFields, row_group: int, leaf: int) -> ChunkCipher | None:
        if self.crypto is None:
            if fields.is_encrypted:
                raise EncryptionError("the column chunk is encrypted, but the footer does not say how")
            return None
        cipher = _cipher(self.crypto, fields, self.profile.schema.leaves[leaf].path)
        return None if cipher is None else ChunkCipher(cipher, self.ordinals[row_group], leaf)

    def extent(self, row_group: int) -> tuple[int, int]:
        """The start offset and the size of a row group, as parquet-java computes them without keys.

        parquet-java reads the row groups whose midpoint lies in a split
        (ParquetMetadataConverter.filterFileMetaDataByMidpoint).
        """
        size, leaves = self.sizes[row_group], len(self.profile.schema.leaves)
        if not leaves:
            return 0, 0
        first = self._stored(row_group, 0)
        if self.crypto is not None and self._stored(0, 0).data_page_offset is None:
            return self.starts[row_group], size or 0
        # A dictionary offset of 0 means no dictionary, but parquet-java takes it as the start of the row group.
        pages, dictionary = first.data_page_offset or 0, first.dictionary_page_offset
        start = pages if dictionary is None or dictionary > pages else dictionary
        if size is None:
            size = sum(self._stored(row_group, leaf).compressed_size or 0 for leaf in range(leaves))
            if size >= 1 << 63:
                raise FormatError(f"row group {row_group}: its chunks have {size} bytes; expected less than 2^63")
        return start, size

    def to_arrow(self) -> pq.FileMetaData:
        """The footer as pyarrow's readers take it. The footer of an encrypted file gets no row groups, because pyarrow
        may end the process over their column chunks."""
        return to_arrow_metadata(self.raw if self.crypto is None else write_struct(without_row_groups(self.raw)))


def _cipher(crypto: FileCrypto, fields: ChunkFields, path: tuple[str, ...]) -> Cipher | None:
    """The cipher of a column chunk; None if the chunk is in plain text.

    Raises EncryptionError if the key is missing, and if the chunk is not encrypted as its file demands: somebody may
    have replaced it.
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
    """EncryptionError unless `metadata`, a decrypted ColumnMetaData, has the path and type of `leaf`.

    The schema is not encrypted with the column's key. Whoever can change it must not change what the column's
    statistics mean.
    """
    column = CompactReader(metadata).read_struct(ColumnMetaData, stop_after=ColumnMetaData.path_in_schema.id)
    names = [name.encode("utf-8", "surrogateescape") for name in leaf.path]
    if column.type != PHYSICAL_TYPES.index(leaf.node.physical_type or "") or column.path_in_schema != names:
        raise EncryptionError(
            "the metadata of the column has another path or type than the schema; the schema was altered"
        )


def read_footers(
    storage: Storage,
    files: Sequence[FileInfo],
    count: ReadCount,
    *,
    keys: Keys | None,
    left_out: dict[FileInfo, BloomParquetError] | None = None,
    undecryptable: dict[FileInfo, BloomParquetError] | None = None,
) -> list[Footer | None]:
    """Read the footers of `files`, in order: one request for each footer that fits in the first read.

    Raises, with the file's name, FormatError for a file that is no Parquet file or is damaged, EncryptionError for a
    file that `keys` do not decrypt, and LimitError for a file whose footer has too many values. `left_out` collects the
    errors of the first kind instead, and `undecryptable` the others; the result for their files is None.
    """

    def parse_or_skip(job: tuple[FileInfo, bytes | BloomParquetError, Footer | None]) -> Footer | None:
        file, raw, parsed = job
        try:
            return _parse(storage, keys, file.path, raw, parsed)
        except FormatError as error:
            if left_out is None:
                raise
            left_out[file] = error
        except (EncryptionError, LimitError) as error:
            if undecryptable is None:
                raise
            undecryptable[file] = error
        return None

    footers: list[Footer | None] = []
    for tails in read_tails(storage, files, count):
        plain = [raw[:-TRAILER] if isinstance(raw, bytes) and raw.endswith(MAGIC) else b"" for _, raw in tails]
        parsed = parse_alike(plain)
        jobs = [(file, raw, footer) for (file, raw), footer in zip(tails, parsed, strict=True)]
        footers += _each(keys, parse_or_skip, jobs)
    return footers


def _each(keys: Keys | None, work: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """The results of `work` for `jobs`. If it may request keys, threads share the jobs: each file may have its own."""
    requests_keys = keys is not None and keys.retriever is not None
    return in_threads(_KEY_THREADS if requests_keys else 1, work, jobs)


def prefetch_keys(keys: Keys | None, footers: Sequence[Footer], leaf: int) -> list[KeyRetrievalError | None]:
    """Prefetch one column's keys for many files. Retrieval errors are returned, so that a failed key is not requested
    again."""

    def fetch(footer: Footer) -> KeyRetrievalError | None:
        if footer.crypto is not None and footer.rows:
            try:
                footer.chunk_cipher(0, leaf)
            except KeyRetrievalError as error:
                return error
            except (EncryptionError, FormatError):  # reported when the chunks are read
                pass
        return None

    return list(_each(keys, fetch, footers))


def _parse(
    storage: Storage, keys: Keys | None, path: str, raw: bytes | BloomParquetError, parsed: Footer | None
) -> Footer:
    if keys is None and parsed is not None:
        return parsed
    if isinstance(raw, BloomParquetError):
        raise raw
    footer = raw[:-TRAILER]
    file_keys = None if keys is None else keys.for_file(storage, path)
    try:
        if raw[-4:] == ENCRYPTED_MAGIC:
            decrypted, crypto = decrypt_footer(footer, file_keys)
            return replace(parse_footer(decrypted, crypto), size=len(raw))
        parsed = parsed or parse_footer(footer, keys=file_keys)
        if parsed.crypto is None and keys is not None and not keys.allow_plaintext_files:
            raise EncryptionError("the file is not encrypted, but the keys have allow_plaintext_files=False")
        return parsed
    except FormatError as error:
        raise FormatError(f"{path}: the footer ({len(footer)} bytes) is damaged: {error}") from error
    except LimitError as error:
        raise LimitError(f"{path}: the footer ({len(footer)} bytes): {error}") from error
    except BloomParquetError as error:
        raise type(error)(f"{path}: {error}") from error


def parse_footer(raw: bytes, crypto: FileCrypto | None = None, *, keys: FileKeys | None = None) -> Footer:
    """Parse a serialised FileMetaData.

    `crypto` belongs to the file whose encrypted footer `raw` was. A plaintext footer of a file with encrypted columns
    ends with a signature, which is verified if `keys` have the footer key. Raises FormatError or LimitError for damaged
    bytes, EncryptionError for a wrong signature.
    """
    start = schema_of(raw)
    scan = scan_row_groups(raw, start.size, start.templates)
    footer, signature = _assemble(raw, start, scan, encrypted=crypto is not None)
    if signature is not None and crypto is None:
        end = len(raw) - signature.signature_bytes
        crypto = verify_footer(raw[:end], raw[end:], signature.algorithm, signature.key_metadata, keys)
        footer = replace(footer, raw=raw[:end])
    if crypto is None:
        return footer
    ordinals = tuple(mark[1] if isinstance(mark[1], int) else i for i, mark in enumerate(scan.marks))
    starts = _starts([mark[0] for mark in scan.marks], scan.sizes)
    return replace(footer, crypto=crypto, starts=starts, ordinals=ordinals)


def parse_alike(footers: Sequence[bytes]) -> list[Footer | None]:
    """Parse the footers of unencrypted files that are alike, many at once. None for a footer that :func:`parse_footer`
    must parse: it may be damaged, have a signature, or be unlike the others."""
    parsed: list[Footer | None] = [None] * len(footers)
    left = [i for i, footer in enumerate(footers) if footer]
    for _ in range(_MAX_SCHEMAS):
        if len(left) < MANY:
            break
        try:
            start = schema_of(footers[left[0]])
        except BloomParquetError:
            del left[0]
            continue
        head = footers[left[0]][: start.size]
        alike = [i for i in left if footers[i].startswith(head)]
        left = [i for i in left if not footers[i].startswith(head)]
        scans = scan_many([footers[i] for i in alike], start.size, start.templates)
        for i, scan in zip(alike, scans, strict=True):
            if scan is not None:
                with suppress(BloomParquetError):
                    footer, signature = _assemble(footers[i], start, scan, encrypted=False)
                    parsed[i] = footer if signature is None else None
    return parsed


def _assemble(
    raw: bytes, start: SchemaStart, scan: RowGroupScan, *, encrypted: bool
) -> tuple[Footer, FooterSignature | None]:
    """The footer of which `scan` is the scan, without a `crypto`; and its signature, if it has one."""
    schema, templates, size = start
    tail = profile_of(schema, templates, raw[:size], raw[scan.end :], encrypted=encrypted)
    footer = Footer(
        raw, tail.profile, scan.rows, scan.sizes, scan.chunks, tail.key_values, tail.created_by, len(raw) + TRAILER
    )
    return footer, tail.signature


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
