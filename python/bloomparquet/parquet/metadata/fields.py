"""Checks of footer structs that are about to be computed with, moved or written again.

The fields of a file may have any type. After these checks, offsets and sizes are integers.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData), ``Encryption.md``.
"""

from __future__ import annotations

from bloomparquet.errors import EncryptionError, FormatError, quoted
from bloomparquet.parquet.thrift.definitions import ColumnChunk, ColumnMetaData


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
