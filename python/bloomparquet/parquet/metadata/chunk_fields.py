"""The fields of a column chunk that planning needs, and where they lie in ``ColumnChunk``.

Source: parquet-format ``parquet.thrift`` (ColumnChunk, ColumnMetaData, Statistics).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnCryptoMetaData,
    ColumnMetaData,
    EncryptionWithColumnKey,
    Statistics,
)
from bloomparquet.parquet.thrift.struct import Field


class ChunkFields(NamedTuple):
    """The fields of a column chunk that planning needs; None if the footer lacks one. The bounds are raw bytes.

    For an encrypted chunk `crypto` is empty bytes, and so is `footer_key` or `column_key`, whichever it is encrypted
    with. `encrypted_metadata` is the encrypted module with the column's metadata, if the chunk has one.
    """

    values: int | None  # nulls included
    nulls: int | None
    nans: int | None
    bloom_offset: int | None
    bloom_length: int | None
    data_page_offset: int | None
    dictionary_page_offset: int | None
    compressed_size: int | None
    deprecated_max: bytes | None
    deprecated_min: bytes | None
    max_value: bytes | None
    min_value: bytes | None
    crypto: bytes | None
    footer_key: bytes | None
    column_key: bytes | None
    key_metadata: bytes | None
    encrypted_metadata: bytes | None

    @property
    def is_encrypted(self) -> bool:
        """Whether any field says that the chunk is encrypted."""
        return self.crypto is not None or self.encrypted_metadata is not None

    def __repr__(self) -> str:
        """Leaves out the bounds: they may belong to an encrypted column."""
        return f"ChunkFields({', '.join(f'{name}={self[i]!r}' for i, name in enumerate(self._fields[:NUMBERS]))})"


_META = ColumnChunk.meta_data
_STATISTICS = _META, ColumnMetaData.statistics
_CRYPTO = ColumnChunk.crypto_metadata
_COLUMN_KEY = _CRYPTO, ColumnCryptoMetaData.ENCRYPTION_WITH_COLUMN_KEY
_PATHS: dict[str, tuple[Field[Any], ...]] = {
    "values": (_META, ColumnMetaData.num_values),
    "nulls": (*_STATISTICS, Statistics.null_count),
    "nans": (*_STATISTICS, Statistics.nan_count),
    "bloom_offset": (_META, ColumnMetaData.bloom_filter_offset),
    "bloom_length": (_META, ColumnMetaData.bloom_filter_length),
    "data_page_offset": (_META, ColumnMetaData.data_page_offset),
    "dictionary_page_offset": (_META, ColumnMetaData.dictionary_page_offset),
    "compressed_size": (_META, ColumnMetaData.total_compressed_size),
    "deprecated_max": (*_STATISTICS, Statistics.max),
    "deprecated_min": (*_STATISTICS, Statistics.min),
    "max_value": (*_STATISTICS, Statistics.max_value),
    "min_value": (*_STATISTICS, Statistics.min_value),
    "crypto": (_CRYPTO,),
    "footer_key": (_CRYPTO, ColumnCryptoMetaData.ENCRYPTION_WITH_FOOTER_KEY),
    "column_key": _COLUMN_KEY,
    "key_metadata": (*_COLUMN_KEY, EncryptionWithColumnKey.key_metadata),
    "encrypted_metadata": (ColumnChunk.encrypted_column_metadata,),
}
"""Where each field of :class:`ChunkFields` is stored, in its order."""


def _slots(*names: str) -> tuple[int, ...]:
    return tuple(map(ChunkFields._fields.index, names))


SLOTS = {tuple(each.id for each in path): slot for slot, path in enumerate(_PATHS.values())}
"""Position in :class:`ChunkFields` by path."""
KINDS = {tuple(each.id for each in path): path[-1].kind for path in _PATHS.values()}
"""The Thrift type of each field by path. Like other readers, we leave out a field of another type."""
(NUMBERS,) = _slots("deprecated_max")  # the fields before it are numbers, the others bytes
DEPRECATED_BOUNDS = _slots("deprecated_min", "deprecated_max")
ORDERED_BOUNDS = _slots("min_value", "max_value")
BOUNDS = DEPRECATED_BOUNDS + ORDERED_BOUNDS
PRESENCE_ONLY = {path for path, slot in SLOTS.items() if slot in _slots("crypto", "footer_key", "column_key")}
PATH_IN_SCHEMA = (_META.id, ColumnMetaData.path_in_schema.id)
NO_FIELDS = ChunkFields(*[None] * len(SLOTS))
"""The fields of a chunk that cannot be read."""


@dataclass(slots=True)
class ChunkColumns:
    """The fields of n column chunks that are evidence, and the offsets of their pages, as columns. If a footer lacks a
    field, its count or offset is -1, and its bound is None.

    The bounds are min_value and max_value; or min and max where `deprecated`, which have no defined order.
    """

    values: NDArray[np.int64]  # nulls included
    nulls: NDArray[np.int64]
    nans: NDArray[np.int64]
    bloom_offset: NDArray[np.int64]
    bloom_length: NDArray[np.int64]
    data_page_offset: NDArray[np.int64]
    dictionary_page_offset: NDArray[np.int64]
    lower: list[bytes | None]
    upper: list[bytes | None]
    deprecated: NDArray[np.bool_]

    @classmethod
    def unknown(cls, size: int) -> ChunkColumns:
        """The columns of chunks without any field."""
        values, nulls, nans, offset, length, pages, dictionary = np.full((7, size), -1, np.int64)
        deprecated = np.zeros(size, np.bool_)
        return cls(values, nulls, nans, offset, length, pages, dictionary, [None] * size, [None] * size, deprecated)

    @classmethod
    def of(cls, chunks: Sequence[ChunkFields]) -> ChunkColumns:
        columns = cls.unknown(len(chunks))
        for i, fields in enumerate(chunks):
            columns.put(i, fields)
        return columns

    def put(self, chunk: int, fields: ChunkFields) -> None:
        """Set the fields of a chunk of which nothing was known."""
        for array, number in zip(self.numbers, fields, strict=False):
            if number is not None:
                array[chunk] = number
        self.deprecated[chunk] = fields.min_value is None and fields.max_value is None
        if self.deprecated[chunk]:
            self.lower[chunk], self.upper[chunk] = fields.deprecated_min, fields.deprecated_max
        else:
            self.lower[chunk], self.upper[chunk] = fields.min_value, fields.max_value

    @property
    def numbers(self) -> tuple[NDArray[np.int64], ...]:
        """The columns of numbers, by their positions in :class:`ChunkFields`."""
        return (
            self.values, self.nulls, self.nans, self.bloom_offset, self.bloom_length, self.data_page_offset,
            self.dictionary_page_offset,
        )  # fmt: skip
