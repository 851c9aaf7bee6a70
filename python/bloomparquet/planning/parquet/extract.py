"""Extracts the evidence about one column from the footers of many files, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from bloomparquet.errors import EncryptionError, FormatError, KeyRetrievalError
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.chunk_fields import NO_FIELDS, ChunkColumns
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.metadata.footer import Footer, prefetch_keys
from bloomparquet.parquet.metadata.read_column import read_column
from bloomparquet.parquet.values.encoding import bounds_of
from bloomparquet.planning.evidence.interface import Counts
from bloomparquet.planning.parquet.column_arrays import ColumnArrays
from bloomparquet.planning.parquet.filter_facts import FilterFacts
from bloomparquet.query.columns import LeafColumn

_UNKNOWN = -1


def extract_column(
    profile: FileProfile, paths: Sequence[str], footers: Sequence[Footer], leaf: LeafColumn, keys: Keys | None
) -> ColumnArrays:
    """The arrays of a leaf column in all row groups of `footers`, which share `profile`.

    ``paths[i]`` names ``footers[i]`` in errors. Raises FormatError for a damaged footer.
    """
    columns, is_read = read_column(footers, leaf.index)
    first = np.concatenate(([0], np.cumsum([len(footer.rows) for footer in footers], dtype=np.int64)))
    unread = np.unique(np.searchsorted(first, np.flatnonzero(~is_read), side="right") - 1).tolist()
    ciphers, errors = dict[int, ChunkCipher](), dict[int, EncryptionError]()
    refusals = prefetch_keys(keys, [footers[i] for i in unread], leaf.index)
    for i, refused in zip(unread, refusals, strict=True):
        of_file = _read_chunks(paths[i], footers[i], leaf, int(first[i]), refused, columns)
        ciphers |= of_file[0]
        errors |= of_file[1]
    values, nulls, offset = columns.values, columns.nulls, columns.bloom_offset
    nulls[(nulls > values) | (nulls < 0)] = _UNKNOWN
    filled = (values > nulls) & ((nulls >= 0) | (leaf.node.repetition == "REQUIRED" and len(leaf.path) == 1))
    return ColumnArrays(
        bounds=bounds_of(leaf, profile.traits, columns),
        counts=Counts(*(getattr(columns, each.name) for each in fields(Counts))),
        offset=offset,
        length=columns.bloom_length,
        filled=filled,
        filter_facts=FilterFacts.unread(offset, errors),
        ciphers=[ciphers.get(i) for i in range(len(values))] if ciphers else None,
    )


def footer_error(path: str, error: FormatError) -> FormatError:
    """`error`, found in the footer of the file at `path`, with the name of that file."""
    return FormatError(f"{path}: the footer is damaged: {error}")


def _read_chunks(
    path: str, footer: Footer, leaf: LeafColumn, first: int, refused: KeyRetrievalError | None, columns: ChunkColumns
) -> tuple[dict[int, ChunkCipher], dict[int, EncryptionError]]:
    """Read the chunks of one file, one after the other, into `columns` from `first` on. A key that was `refused` is not
    requested again. Returns, by chunk, the ciphers of encrypted chunks, and the errors of those that stay encrypted."""
    ciphers, errors = dict[int, ChunkCipher](), dict[int, EncryptionError]()
    for i in range(len(footer.rows)):
        fields, cipher = NO_FIELDS, None
        try:
            if refused is not None:
                raise refused
            fields, cipher = footer.read_chunk_with_cipher(i, leaf.index)
        except EncryptionError as error:
            refused = error if isinstance(error, KeyRetrievalError) else None
            errors[first + i] = type(error)(f"{path}: {footer.chunk_name(i, leaf.index)}: {error}")
        except FormatError as error:
            raise footer_error(path, error) from error
        columns.put(first + i, fields)
        if cipher is not None:
            ciphers[first + i] = cipher
    return ciphers, errors
