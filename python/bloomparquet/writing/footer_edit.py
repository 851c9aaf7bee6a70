"""Changes a footer and writes it again, of encrypted files and of files in plain text.

The metadata of encrypted columns is decrypted if their key is available, and encrypted again if it has changed. Other
metadata keeps its bytes. The footer itself is then encrypted, or signed, or written as it is.

A plaintext footer has the metadata of an encrypted column twice: complete and encrypted, and without the fields that
reveal values, for readers that do not support encryption. The fields to keep are listed here, so that fields of later
versions of the format are not revealed.

Source: parquet-format ``Encryption.md`` (sections 5.3 to 5.5), ``parquet.thrift`` (ColumnChunk, ColumnMetaData).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher, FileCrypto
from bloomparquet.parquet.encryption.keys.material import parse_metadata
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC
from bloomparquet.parquet.metadata.footer import Footer, is_encrypted, parse_footer, require_metadata, require_same_file
from bloomparquet.parquet.thrift.definitions import ColumnChunk, ColumnMetaData, FileCryptoMetaData, FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.writing.filters.locate import ChunkId

_REVEALED = (
    ColumnMetaData.type,
    ColumnMetaData.encodings,
    ColumnMetaData.path_in_schema,
    ColumnMetaData.codec,
    ColumnMetaData.num_values,
    ColumnMetaData.total_uncompressed_size,
    ColumnMetaData.total_compressed_size,
    ColumnMetaData.data_page_offset,
    ColumnMetaData.index_page_offset,
    ColumnMetaData.dictionary_page_offset,
)
"""The fields of an encrypted column's metadata that a plaintext footer reveals."""


@dataclass(repr=False)
class EditableFooter:
    """The footer of the file at `path`, to be changed.

    * `tree`: the whole footer;
    * `metadata`: the metadata of each chunk that was decrypted, or is in plain text and so a part of `tree`;
    * `ciphers`: the ciphers of the encrypted chunks;
    * `undecrypted`: the chunks that `metadata` lacks.
    """

    path: str
    footer: Footer
    tree: FileMetaData
    metadata: Mapping[ChunkId, ColumnMetaData]
    ciphers: Mapping[ChunkId, ChunkCipher]
    undecrypted: frozenset[ChunkId]

    @classmethod
    def read(cls, path: str, footer: Footer, only: Collection[ChunkId] | None = None) -> EditableFooter:
        """Parse `footer`, and decrypt the metadata whose keys are available: of the chunks in `only`, or of all.

        Raises FormatError, with the name of the chunk, for damaged metadata. Raises EncryptionError if the key does not
        decrypt a chunk, or if a chunk is encrypted and the footer does not say how.
        """
        where = path
        metadata: dict[ChunkId, ColumnMetaData] = {}
        ciphers: dict[ChunkId, ChunkCipher] = {}
        undecrypted: set[ChunkId] = set()
        without_key: set[int] = set()  # leaves, so that a key is not requested again for each row group
        try:
            tree, _ = read_struct(footer.raw, FileMetaData)
            for row_group, group in enumerate(tree.row_groups):
                for leaf, chunk in zip(footer.profile.schema.leaves, group.check().columns, strict=True):
                    where = f"{path}: {footer.chunk_name(row_group, leaf.index)}"
                    chunk_id = row_group, leaf.index
                    require_same_file(chunk)
                    if not is_encrypted(chunk):
                        metadata[chunk_id] = require_metadata(chunk.meta_data)
                    elif footer.crypto is None:
                        raise EncryptionError("the column chunk is encrypted, but the footer does not say how")
                    elif only is not None and chunk_id not in only:
                        undecrypted.add(chunk_id)
                    elif leaf.index in without_key or not footer.is_decryptable(*chunk_id):
                        without_key.add(leaf.index)
                        undecrypted.add(chunk_id)
                    else:
                        cipher = footer.chunk_cipher(*chunk_id)
                        assert cipher is not None  # the chunk is encrypted
                        metadata[chunk_id], ciphers[chunk_id] = _metadata(footer, chunk_id, chunk), cipher
        except BloomParquetError as error:
            raise type(error)(f"{where}: {error}") from error
        return cls(path, footer, tree, metadata, ciphers, frozenset(undecrypted))

    def chunk_ids(self) -> Iterator[ChunkId]:
        """All chunks, in order."""
        for i, group in enumerate(self.tree.row_groups):
            for j in range(len(group.columns)):
                yield i, j

    def chunk(self, chunk_id: ChunkId) -> ColumnChunk:
        """The ColumnChunk of `chunk_id` in `tree`."""
        row_group, leaf = chunk_id
        return self.tree.row_groups[row_group].columns[leaf]

    def tail(self) -> tuple[bytes, ...]:
        """The end of the file: the changed footer, its length, and the magic bytes.

        It is parsed again as a check. Raises FormatError if the result differs, EncryptionError if the footer key is
        missing.
        """
        encrypted = self.ciphers.keys()
        before = EditableFooter.read(self.path, self.footer, encrypted) if encrypted else self
        for chunk_id, cipher in self.ciphers.items():
            if self.metadata[chunk_id] != before.metadata[chunk_id]:
                store_metadata(self.chunk(chunk_id), self.metadata[chunk_id], cipher)
        raw = write_struct(self.tree)
        again, stop = read_struct(raw, FileMetaData)
        new = parse_footer(raw, self.footer.crypto)
        is_same = again == self.tree and stop == len(raw) and new.rows == self.footer.rows
        if not is_same or (encrypted and EditableFooter.read(self.path, new, encrypted).metadata != self.metadata):
            raise FormatError(f"{self.path}: the footer cannot be written again without changes; the file is unchanged")
        return footer_tail(raw, self.footer.crypto)


def require_footer_key(path: str, footer: Footer) -> None:
    """Raise EncryptionError if the footer of the file at `path` cannot be encrypted or signed again."""
    if footer.crypto is None:
        return
    try:
        footer.crypto.footer()
    except EncryptionError as error:
        how = "encrypted" if footer.crypto.encrypted_footer else "signed"
        raise type(error)(f"{path}: the file is unchanged, as its footer must be {how} again: {error}") from error


def require_keys_inside(path: str, footer: Footer) -> None:
    """Raise EncryptionError if the key material of the file at `path` is in a separate file.

    Such material belongs to the file by its name, so a copy of the file would be without keys.
    """
    metadata = None if footer.crypto is None else footer.crypto.footer_metadata
    try:
        outside = metadata is not None and isinstance(parse_metadata(metadata), str)
    except EncryptionError:  # metadata of another kind
        outside = False
    if outside:
        raise EncryptionError(
            f"{path}: the key material of the file is in a separate file, so a copy could not be decrypted; "
            "replace the file instead: leave out dst"
        )


def store_metadata(chunk: ColumnChunk, metadata: ColumnMetaData, cipher: ChunkCipher) -> None:
    """Store the metadata of an encrypted column in its ColumnChunk, in the same fields as before."""
    if not chunk.has(ColumnChunk.encrypted_column_metadata):  # encrypted with the footer
        chunk.meta_data = metadata
        return
    chunk.encrypted_column_metadata = cipher.encrypt(write_struct(metadata), Module.COLUMN_METADATA)
    if chunk.has(ColumnChunk.meta_data):
        chunk.meta_data = redacted(metadata)


def redacted(metadata: ColumnMetaData) -> ColumnMetaData:
    """A copy of `metadata` without the fields that reveal values."""
    copy = ColumnMetaData()
    copy.copy_from(metadata, *_REVEALED)
    return copy


def footer_tail(raw: bytes, crypto: FileCrypto | None) -> tuple[bytes, ...]:
    """The end of a file whose FileMetaData is `raw`: plain, signed or encrypted, as `crypto` says.

    Raises EncryptionError if the footer key is needed and missing.
    """
    if crypto is None:
        parts, magic = [raw], MAGIC
    elif crypto.encrypted_footer:
        described = FileCryptoMetaData(
            encryption_algorithm=crypto.algorithm.to_struct(), key_metadata=crypto.footer_metadata
        )
        parts, magic = [write_struct(described), crypto.footer().encrypt(raw, Module.FOOTER)], ENCRYPTED_MAGIC
    else:
        parts, magic = [raw, crypto.footer().sign(raw)], MAGIC
    return (*parts, sum(map(len, parts)).to_bytes(4, "little") + magic)


def _metadata(footer: Footer, chunk_id: ChunkId, chunk: ColumnChunk) -> ColumnMetaData:
    """The metadata of an encrypted chunk: a part of `chunk`, or decrypted from it."""
    encrypted = chunk.has(ColumnChunk.encrypted_column_metadata)
    return footer.chunk_metadata(*chunk_id) if encrypted else require_metadata(chunk.meta_data)
