"""The deleted rows of an Iceberg table's files: position delete files and deletion vectors.

Source: Iceberg's spec ("Position Delete Files", "Deletion Vectors"), Puffin's spec (``deletion-vector-v1``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.storage.files import Storage

Positions = NDArray[np.int64]

_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_LENGTH = struct.Struct(">I")  # before the magic; counts the magic and the bitmaps
_CHECKSUM = struct.Struct(">I")  # after the bitmaps
_BITMAPS = struct.Struct("<Q")
_KEY = struct.Struct("<I")
_MOST_KEY = (1 << 31) - 2  # the upper half of a position, as Iceberg's Java library limits it


@dataclass(frozen=True)
class PositionDeleteFile:
    """A Parquet file that names deleted rows by the path of their data file and their position in it."""

    path: str
    _positions: dict[str, Positions] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[PositionDeleteFile], tuple[str]]:
        return PositionDeleteFile, (self.path,)

    def read(self, storage: Storage, data_file: str) -> Positions:
        """The deleted rows of `data_file`. Reads the file once, for all the data files that it names."""
        if not self._positions:
            self._positions.update(self._read(storage))
        return self._positions.get(data_file, np.empty(0, np.int64))

    def _read(self, storage: Storage) -> Mapping[str, Positions]:
        with storage.open_file(self.path) as source:
            try:
                file = pq.ParquetFile(source, read_dictionary=["file_path"])
                table = file.read(columns=["file_path", "pos"])
            except pa.ArrowException as error:
                raise FormatError(f"{self.path}: pyarrow cannot read this position delete file: {error}") from error
            if table.num_rows != file.metadata.num_rows:
                raise FormatError(
                    f"{self.path}: pyarrow read {table.num_rows} rows of this position delete file; expected "
                    f"{file.metadata.num_rows}, the number in its footer; compact the table with another engine"
                )
        if (
            sorted(table.column_names) != ["file_path", "pos"]
            or table["file_path"].null_count
            or table["pos"].null_count
        ):
            raise FormatError(
                f"{self.path}: a position delete file has the columns file_path and pos, without nulls; found "
                f"{', '.join(table.schema.names) or 'neither'}"
            )
        paths = table["file_path"].combine_chunks().dictionary_encode()
        names = paths.dictionary.to_pylist()
        order = np.argsort(paths.indices.to_numpy(), kind="stable")
        bounds = np.searchsorted(paths.indices.to_numpy()[order], np.arange(len(names) + 1))
        positions = table["pos"].to_numpy()[order]
        return {name: positions[bounds[i] : bounds[i + 1]] for i, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one data file, as a bitmap of `count` bits in a Puffin file."""

    path: str
    offset: int
    length: int
    count: int

    def read(self, storage: Storage, data_file: str) -> Positions:
        """The deleted rows of `data_file`, the only file that this vector concerns."""
        data = bytearray(self.length)
        storage.read_into(self.path, [self.offset], [memoryview(data)])
        try:
            positions = parse_vector(bytes(data))
        except (FormatError, ValueError, struct.error) as error:
            raise FormatError(f"{self._describe(data_file)} is damaged: {error}") from error
        if len(positions) != self.count:
            raise FormatError(
                f"{self._describe(data_file)} has {len(positions)} rows; expected {self.count}, as the manifest says"
            )
        return positions

    def _describe(self, data_file: str) -> str:
        return f"{self.path}: the deletion vector of {data_file} at byte {self.offset}"


@dataclass(frozen=True, slots=True)
class FileDeletes:
    """The deleted rows of one data file. `data_file` is its path as position delete files name it."""

    data_file: str
    sources: tuple[PositionDeleteFile | DeletionVector, ...]

    def read(self, storage: Storage) -> Positions:
        """The positions of the deleted rows, ascending; see :class:`bloomparquet.planning.dataset.RowDeletes`."""
        return np.unique(np.concatenate([source.read(storage, self.data_file) for source in self.sources]))


def parse_vector(blob: bytes) -> Positions:
    """The positions in a ``deletion-vector-v1`` blob, ascending.

    Raises FormatError, ValueError or struct.error for a damaged blob.
    """
    from pyroaring import BitMap

    (length,) = _LENGTH.unpack_from(blob)
    content, rest = blob[_LENGTH.size : _LENGTH.size + length], blob[_LENGTH.size + length :]
    if len(rest) != _CHECKSUM.size or content[: len(_VECTOR_MAGIC)] != _VECTOR_MAGIC:
        raise FormatError(f"expected {length + _LENGTH.size + _CHECKSUM.size} bytes and the magic number D1D33964")
    if _CHECKSUM.unpack(rest) != (zlib.crc32(content),):
        raise FormatError("its checksum is wrong")
    at = len(_VECTOR_MAGIC)
    (count,) = _BITMAPS.unpack_from(content, at)
    at += _BITMAPS.size
    parts = [np.empty(0, np.int64)]
    for _ in range(count):
        (key,) = _KEY.unpack_from(content, at)
        if key > _MOST_KEY:
            raise FormatError(f"a bitmap has the key {key}; expected at most {_MOST_KEY}")
        bitmap = BitMap.deserialize(content[at + _KEY.size :])
        at += _KEY.size + len(bitmap.serialize())
        parts.append(np.array(bitmap.to_array(), np.int64) + (key << 32))
    return np.concatenate(parts)
