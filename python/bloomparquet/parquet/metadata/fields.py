"""The column chunks of a footer's tree, with the types that the format gives to the fields of them that are used here.

A tree has fields of any type, as the file has them. Whoever computes with offsets and sizes takes the chunks from here,
and may trust that numbers are numbers.

Source: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData), ``Encryption.md``.
"""

from __future__ import annotations

from bloomparquet.errors import EncryptionError, FormatError, quoted
from bloomparquet.parquet.thrift import reader as thrift
from bloomparquet.parquet.thrift.struct import Items, Tree

_NUMBERS = {"row group": (5,), "column chunk": (2, 4, 5, 6, 7), "column's metadata": (1, 4, 5, 6, 7, 9, 10, 11, 14, 15)}
_ENCRYPTED = (8, 9)  # crypto_metadata, encrypted_column_metadata


def row_groups(tree: Tree) -> list[Tree]:
    """The row groups of a FileMetaData. FormatError where it has none, not even an empty list."""
    return [_numbered(group, "row group") for group in _structs(tree, 4, "row groups")]


def column_chunks(group: Tree) -> list[Tree]:
    """The ColumnChunks of a row group, each for :func:`require_chunk`."""
    return _structs(group, 1, "column chunks")


def require_chunk(chunk: Tree) -> Tree:
    """`chunk`, a ColumnChunk in plain text. FormatError where it lacks its metadata, lies in another file, or has
    something else than numbers for its offsets and sizes; EncryptionError where it is encrypted."""
    if is_encrypted(chunk):
        raise EncryptionError("the column chunk is encrypted")
    require_own(chunk)
    require_metadata(chunk.get(3))
    return chunk


def is_encrypted(chunk: Tree) -> bool:
    """Whether a ColumnChunk says anything of encryption."""
    return any(field_id in chunk for field_id in _ENCRYPTED)


def require_own(chunk: Tree) -> Tree:
    """`chunk`, a ColumnChunk, whatever it says of its metadata. FormatError where it lies in another file, or has
    something else than numbers for its offsets and sizes."""
    if chunk.get(1):
        raise FormatError(f"the column chunk lies in another file, {quoted(chunk[1])}; such files are not changed")
    return _numbered(chunk, "column chunk")


def require_metadata(metadata: object) -> Tree:
    """`metadata`, a ColumnMetaData. FormatError where it is none, or has something else than numbers for its offsets
    and sizes."""
    if not isinstance(metadata, Tree):
        raise FormatError("the column chunk has no metadata in the footer; expected ColumnMetaData")
    return _numbered(metadata, "column's metadata")


def _structs(tree: Tree, field_id: int, what: str) -> list[Tree]:
    found = tree.get(field_id)
    if not isinstance(found, Items) or (found and found.kind != thrift.STRUCT):
        raise FormatError(f"field {field_id} is no list of {what}")
    return found


def _numbered(tree: Tree, what: str) -> Tree:
    for field_id in _NUMBERS[what]:
        kind = tree.kinds.get(field_id, thrift.I64)
        if kind not in thrift.INTEGERS:
            raise FormatError(f"field {field_id} of a {what} is {quoted(tree[field_id])}; expected a number")
    return tree
