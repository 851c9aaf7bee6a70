"""The ends of files, where footers are: read for many files at once, most of them in one request.

Source: parquet-format ``README.md`` (file layout), ``Encryption.md`` (section 5.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bloomparquet.errors import FormatError, NotParquetError
from bloomparquet.storage.files import FileInfo, ReadCount, Storage, read_ranges

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
TRAILER = 8
"""Bytes behind a footer: its length (4 bytes, little-endian) and the magic."""


def read_tails(
    storage: Storage, files: Sequence[FileInfo], expected: int, count: ReadCount
) -> list[bytes | FormatError]:
    """Each file's footer with its trailer, or what is wrong with it; read again where it is larger than `expected`."""
    paths = [file.path for file in files]
    sizes = np.array([file.size for file in files], np.int64)
    tails: list[bytes | FormatError] = [b""] * len(files)
    readable = np.flatnonzero(sizes >= len(MAGIC) + TRAILER)
    for i in np.flatnonzero(sizes < len(MAGIC) + TRAILER).tolist():
        tails[i] = _not_parquet(files[i])
    guess = np.minimum(sizes[readable], expected)
    ranges = read_ranges(storage, paths, readable, sizes[readable] - guess, guess, count)
    buffer = ranges.buffer.data
    longer: list[int] = []
    for i, start, size in zip(readable.tolist(), ranges.starts.tolist(), guess.tolist(), strict=True):
        end = start + size
        tail = bytes(buffer[end - TRAILER : end])
        needed = int.from_bytes(tail[:4], "little") + TRAILER
        if tail[-4:] not in (MAGIC, ENCRYPTED_MAGIC):
            tails[i] = NotParquetError(
                f"{paths[i]}: not a Parquet file, or cut short: its last 4 bytes are {tail[-4:]!r}; expected {MAGIC!r}"
            )
        elif needed + len(MAGIC) > sizes[i]:
            tails[i] = FormatError(
                f"{paths[i]}: the file claims a footer of {needed - TRAILER} bytes, "
                f"but has {sizes[i]} in all; it is damaged or cut short"
            )
        elif needed <= size:
            tails[i] = bytes(buffer[end - needed : end])
        else:
            tails[i] = tail
            longer.append(i)
    lengths = np.array([int.from_bytes(tails[i][-TRAILER:-4], "little") + TRAILER for i in longer], np.int64)  # type: ignore[index]
    again = np.array(longer, np.int64)
    ranges = read_ranges(storage, paths, again, sizes[again] - lengths, lengths, count)
    for i, start, size in zip(longer, ranges.starts.tolist(), lengths.tolist(), strict=True):
        tails[i] = ranges.buffer[start : start + size].tobytes()
    return tails


def _not_parquet(file: FileInfo) -> FormatError:
    what = "the file is empty (0 bytes)" if file.size == 0 else f"not a Parquet file: {file.size} bytes are too few"
    return FormatError(
        f"{file.path}: {what}; expected at least {len(MAGIC) + TRAILER} bytes with {MAGIC!r} at both ends"
    )
