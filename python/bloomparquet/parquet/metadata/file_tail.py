"""Reads the footers at the ends of many Parquet files, most of them in one request each.

Source: parquet-format ``README.md`` (file layout), ``Encryption.md`` (section 5.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, FormatError, NotParquetError
from bloomparquet.storage.file_tail import FileTail, read_file_tails
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
TRAILER = 8
"""The bytes behind a footer: its length (4 bytes, little-endian) and the magic."""


def read_tails(
    storage: Storage, files: Sequence[FileInfo], count: ReadCount
) -> Iterator[list[tuple[FileInfo, bytes | BloomParquetError]]]:
    """Each file's footer with its trailer, or the error of the file. In batches."""
    file = iter(files)
    for tails in read_file_tails(storage, files, _tail_size, count):
        yield [(next(file), tail.end[-tail.size :] if isinstance(tail, FileTail) else tail) for tail in tails]


def _tail_size(file: FileInfo, end: bytes) -> int:
    if file.size < len(MAGIC) + TRAILER:
        what = "the file is empty (0 bytes)" if file.size == 0 else f"not a Parquet file: {file.size} bytes are too few"
        raise NotParquetError(
            f"{file.path}: {what}; expected at least {len(MAGIC) + TRAILER} bytes with {MAGIC!r} at both ends"
        )
    magic = end[-4:]
    if magic not in (MAGIC, ENCRYPTED_MAGIC):
        raise NotParquetError(
            f"{file.path}: not a Parquet file, or truncated: its last 4 bytes are {magic!r}; expected {MAGIC!r}"
        )
    size = int.from_bytes(end[-TRAILER:-4], "little") + TRAILER
    if size + len(MAGIC) > file.size:
        raise FormatError(
            f"{file.path}: the file claims a footer of {size - TRAILER} bytes, but has only {file.size} bytes; "
            "it is damaged or truncated"
        )
    return size


def to_arrow_metadata(raw: bytes) -> pq.FileMetaData:
    """A serialised FileMetaData, parsed by pyarrow."""
    return pq.read_metadata(pa.BufferReader(raw + len(raw).to_bytes(4, "little") + MAGIC))
