"""A footer as a tree that may be changed, of encrypted files as of others, and what it becomes at the end of a file.

The metadata of columns that are encrypted is opened where their keys are at hand, and sealed anew where it has changed;
what has not, and what does not open, keeps its bytes. The footer itself is then sealed, or signed, or simply there.

In a footer in plain text the metadata of an encrypted column stands twice: whole and sealed, and less whatever tells
of its values for readers that know nothing of encryption. What stays is named here, so that fields to come do not.

Source: parquet-format ``Encryption.md`` (sections 5.3 to 5.5), ``parquet.thrift`` (ColumnChunk, ColumnMetaData).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, shorten
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher, FileCrypto
from bloomparquet.parquet.encryption.keys.material import parse_metadata
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC
from bloomparquet.parquet.metadata.footer import Footer, is_encrypted, parse_footer, require_metadata, require_same_file
from bloomparquet.parquet.thrift.definitions import ColumnChunk, ColumnMetaData, FileCryptoMetaData, FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.names import dotted_name
from bloomparquet.writing.filters.locate import Place

_TOLD_TO_ALL = (
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
"""What stays in plain text of an encrypted column's metadata."""


@dataclass(repr=False)
class OpenFooter:
    """The footer of the file at `path`, to be changed: `tree`, and the `metadata` of each chunk that was opened, which
    is the tree's own where that is in plain text. `ciphers` are those of the chunks that are encrypted; `closed` are
    the chunks that were not opened."""

    path: str
    footer: Footer
    tree: FileMetaData
    metadata: Mapping[Place, ColumnMetaData]
    ciphers: Mapping[Place, ChunkCipher]
    closed: frozenset[Place]

    @classmethod
    def read(cls, path: str, footer: Footer, only: Collection[Place] | None = None) -> OpenFooter:
        """With what is encrypted opened as far as keys are at hand; with `only`, for no other chunks than these.

        Raises FormatError that names the chunk where there is none that could be changed, EncryptionError where a
        chunk does not open by its key, or is encrypted and its file is not.
        """
        where = path
        metadata: dict[Place, ColumnMetaData] = {}
        ciphers: dict[Place, ChunkCipher] = {}
        closed: set[Place] = set()
        locked: set[int] = set()  # leaves: their keys are not asked for again in every row group
        try:
            tree, _ = read_struct(footer.raw, FileMetaData)
            for row_group, group in enumerate(tree.row_groups):
                for leaf, chunk in zip(footer.profile.schema.leaves, group.check().columns, strict=True):
                    where = f"{path}: row group {row_group}, column {shorten(dotted_name(leaf.path))}"
                    place = row_group, leaf.index
                    require_same_file(chunk)
                    if not is_encrypted(chunk):
                        metadata[place] = require_metadata(chunk.meta_data)
                    elif footer.crypto is None:
                        raise EncryptionError("the column chunk is encrypted, but the file says nothing of how")
                    elif only is not None and place not in only:
                        closed.add(place)
                    elif leaf.index in locked or (cipher := _cipher(footer, place)) is None:
                        locked.add(leaf.index)
                        closed.add(place)
                    else:
                        metadata[place], ciphers[place] = _metadata(footer, place, chunk), cipher
        except BloomParquetError as error:
            raise type(error)(f"{where}: {error}") from error
        return cls(path, footer, tree, metadata, ciphers, frozenset(closed))

    def places(self) -> Iterator[Place]:
        """All chunks, in their order."""
        for i, group in enumerate(self.tree.row_groups):
            for j in range(len(group.columns)):
                yield i, j

    def chunk(self, place: Place) -> ColumnChunk:
        """The ColumnChunk of a place."""
        row_group, leaf = place
        return self.tree.row_groups[row_group].columns[leaf]

    def tail(self) -> tuple[bytes, ...]:
        """The end of the file: the footer as it is now, and what follows it.

        It is read back, and must be what was meant. Raises FormatError where it is not, EncryptionError where the
        footer key is not at hand.
        """
        sealed = self.ciphers.keys()
        before = OpenFooter.read(self.path, self.footer, sealed) if sealed else self
        for place, cipher in self.ciphers.items():
            if self.metadata[place] != before.metadata[place]:
                store_metadata(self.chunk(place), self.metadata[place], cipher)
        raw = write_struct(self.tree)
        again, stop = read_struct(raw, FileMetaData)
        new = parse_footer(raw, self.footer.crypto)
        same = again == self.tree and stop == len(raw) and new.rows == self.footer.rows
        if not same or (sealed and OpenFooter.read(self.path, new, sealed).metadata != self.metadata):
            raise FormatError(
                f"{self.path}: its footer does not survive being written again; the file is left as it is"
            )
        return footer_tail(raw, self.footer.crypto)


def require_footer_key(path: str, footer: Footer) -> None:
    """EncryptionError unless the footer of the file at `path` can be written again."""
    if footer.crypto is None:
        return
    try:
        footer.crypto.footer()
    except EncryptionError as error:
        how = "encrypted" if footer.crypto.encrypted_footer else "signed"
        raise type(error)(
            f"{path}: the file is encrypted and is left as it is: its footer has to be {how} anew, and {error}"
        ) from error


def require_keys_inside(path: str, footer: Footer) -> None:
    """EncryptionError where the wrapped keys of the file at `path` lie in another file, which says by its name whose
    they are: a copy would be without keys."""
    metadata = None if footer.crypto is None else footer.crypto.footer_metadata
    try:
        outside = metadata is not None and isinstance(parse_metadata(metadata), str)
    except EncryptionError:  # metadata of another kind
        outside = False
    if outside:
        raise EncryptionError(
            f"{path}: its key material lies beside it, in another file, so that nobody could open a copy elsewhere; "
            "change the file where it is, without dst"
        )


def store_metadata(chunk: ColumnChunk, metadata: ColumnMetaData, cipher: ChunkCipher) -> None:
    """Put the metadata of an encrypted column into its ColumnChunk, sealed by itself if it is so now, and told to all
    as far as it is so now."""
    if not chunk.has(ColumnChunk.encrypted_column_metadata):  # under the key of the footer around it
        chunk.meta_data = metadata
        return
    chunk.encrypted_column_metadata = cipher.encrypt(write_struct(metadata), Module.COLUMN_METADATA)
    if chunk.has(ColumnChunk.meta_data):
        chunk.meta_data = redacted(metadata)


def redacted(metadata: ColumnMetaData) -> ColumnMetaData:
    """A ColumnMetaData without what tells of the column's values."""
    told = ColumnMetaData()
    told.copy_from(metadata, *_TOLD_TO_ALL)
    return told


def footer_tail(raw: bytes, crypto: FileCrypto | None) -> tuple[bytes, ...]:
    """The end of a file whose FileMetaData is `raw`: in plain text, in plain text with its signature, or sealed.

    EncryptionError where that takes the footer key, and it is not at hand.
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


def _cipher(footer: Footer, place: Place) -> ChunkCipher | None:
    """That of an encrypted chunk; None where its key is not at hand."""
    try:
        return footer.chunk_cipher(*place)
    except EncryptionError:
        return None


def _metadata(footer: Footer, place: Place, chunk: ColumnChunk) -> ColumnMetaData:
    """The metadata of an encrypted chunk: that in `chunk` itself, to be changed there, or what is decrypted from it."""
    encrypted = chunk.has(ColumnChunk.encrypted_column_metadata)
    return footer.chunk_metadata(*place) if encrypted else require_metadata(chunk.meta_data)
