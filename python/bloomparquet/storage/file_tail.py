"""Reads the tails of many files, where formats keep their metadata, mostly with one request for each.

The last bytes of a file say how large its tail is. So the first read is a guess, which adapts to earlier files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bloomparquet.errors import BloomParquetError
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges
from bloomparquet.storage.staleness import require_unchanged_locally

_FIRST_GUESS = 16 * 1024
_MAX_GUESS = 256 * 1024
_FIRST_FILES = 16
_BYTES_AT_ONCE = 128 * 1024 * 1024  # bounds the memory that tails take
_MAX_FILES_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class FileTail:
    """The tail of `file` is its last `size` bytes. `end` ends with the tail, and may have more bytes before it."""

    file: FileInfo
    end: bytes
    size: int


def read_file_tails(
    storage: Storage, files: Sequence[FileInfo], tail_size: Callable[[FileInfo, bytes], int], count: ReadCount
) -> Iterator[list[FileTail | BloomParquetError]]:
    """Batches of tails, in the order of `files`. Instead of a tail there may be the error of `tail_size`.

    ``tail_size(file, end)`` returns the size of the tail, at most that of the file. `end` is the last 2 KiB of the
    file or more, or the whole file.
    """
    position, guess = 0, max(_FIRST_GUESS, storage.merge_gap // 4)
    while position < len(files):
        # The tails of a data set have similar sizes: guess from the first files how much to read of the others.
        at_once = min(_BYTES_AT_ONCE // guess, _MAX_FILES_AT_ONCE) if position else _FIRST_FILES
        batch = files[position : position + at_once]
        tails = _read_batch(storage, batch, guess, tail_size, count)
        yield tails
        sizes = sorted(tail.size for tail in tails if isinstance(tail, FileTail))
        if sizes:  # reading a few far larger tails twice is cheaper than a large guess for all
            usual = sizes[len(sizes) * 7 // 8]
            guess = min(max(usual + usual // 4, storage.merge_gap // 4), _MAX_GUESS)
        position += len(batch)


def _read_batch(
    storage: Storage,
    files: Sequence[FileInfo],
    guess: int,
    tail_size: Callable[[FileInfo, bytes], int],
    count: ReadCount,
) -> list[FileTail | BloomParquetError]:
    def measure(file: FileInfo, end: bytes) -> FileTail | BloomParquetError:
        try:
            return FileTail(file, end, tail_size(file, end))
        except BloomParquetError as error:
            return error

    tails = list(map(measure, files, _read_ends(storage, files, [guess] * len(files), count)))
    longer = {i: tail for i, tail in enumerate(tails) if isinstance(tail, FileTail) and tail.size > len(tail.end)}
    sizes = [tail.size for tail in longer.values()]
    ends = _read_ends(storage, [tail.file for tail in longer.values()], sizes, count)
    for (i, tail), end in zip(longer.items(), ends, strict=True):
        tails[i] = replace(tail, end=end)
    return tails


def _read_ends(storage: Storage, files: Sequence[FileInfo], sizes: Sequence[int], count: ReadCount) -> list[bytes]:
    """The last ``sizes[i]`` bytes of ``files[i]``, or the whole file if it is smaller."""
    for file in files:
        if not file.size:  # no read would notice that it has grown
            require_unchanged_locally(storage, file)
    file_sizes = np.array([file.size for file in files], np.int64)
    lengths = np.minimum(file_sizes, np.array(sizes, np.int64))
    (some,) = np.nonzero(lengths)
    starts = (file_sizes - lengths)[some]
    ranges = read_ranges(storage, files, some, starts, lengths[some], count)
    ends = [b""] * len(files)
    for i, start, length in zip(some.tolist(), ranges.starts.tolist(), lengths[some].tolist(), strict=True):
        ends[i] = ranges.buffer[start : start + length].tobytes()
    return ends
