"""The ends of ORC files: what is in them and how it was written, read for many files at once.

From the end: one byte with the length of the postscript; the postscript, never compressed; the footer; the statistics
of every stripe ("metadata"). All of it comes by one request where the guess at its size is right. The footer is parsed
at once, the statistics when they are asked for, a column at a time.

Source: ORC specification, "File Tail".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from bloomparquet.errors import (
    BloomParquetError,
    EncryptionError,
    FormatError,
    LimitError,
    NotOrcError,
    UnsupportedError,
)
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.compression import DEFAULT_BLOCK_SIZE, MAX_BLOCK_SIZE, Codec, Compression
from bloomparquet.orc.schema import OrcType, parse_types, text
from bloomparquet.orc.statistics import Statistics, parse_statistics
from bloomparquet.storage.file_tail import FileTail, read_file_tails
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

MAGIC = b"ORC"
MAX_SECTION = 32 * 1024 * 1024
"""Of a footer, and of the statistics of a file's stripes, in plain text."""


class Writer(IntEnum):
    """The programs that have a number of their own; others are numbers without a name."""

    JAVA = 0
    CPP = 1
    PRESTO = 2
    SCRITCHLEY_GO = 3
    TRINO = 4
    CUDF = 5


class WriterVersion(IntEnum):
    """What the Java writer's versions are called after. Those of others begin at 6 and say nothing of this."""

    ORIGINAL = 0
    HIVE_8732 = 1
    HIVE_4243 = 2
    HIVE_12055 = 3
    HIVE_13083 = 4
    ORC_101 = 5
    ORC_135 = 6
    ORC_517 = 7
    ORC_203 = 8
    ORC_14 = 9


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where a stripe is: its indexes, its data and its footer, one behind the other, lengths in bytes."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def footer_offset(self) -> int:
        return self.offset + self.index_length + self.data_length

    @property
    def length(self) -> int:
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True)
class Tail:
    """What one file's tail says.

    `types` are the columns by their numbers, 0 the root. `row_index_stride` is the rows of a row group, 0 where there
    are no row groups. `writer` and `writer_version` are :class:`Writer` and :class:`WriterVersion` where those know
    them; `software_version` is the release that wrote the file, where it says so. `size` are the tail's bytes at the
    end of the file. `last_stripe_footer` is what stands before them, as it is stored, where it came with the tail.
    """

    path: str
    types: tuple[OrcType, ...]
    stripes: tuple[Stripe, ...]
    rows: int
    row_index_stride: int
    writer: int
    writer_version: int
    software_version: str | None
    file_version: tuple[int, ...]
    calendar: int
    compression: Compression
    user_metadata: Mapping[str, bytes]
    size: int
    stored_metadata: bytes = field(repr=False)
    last_stripe_footer: bytes | None = field(default=None, repr=False)

    def row_groups(self, stripe: int) -> int:
        """How many row groups a stripe has; 0 where the file has no row indexes."""
        return -(-self.stripes[stripe].rows // self.row_index_stride) if self.row_index_stride else 0

    def stripe_statistics(self, stripe: int, columns: Sequence[int]) -> list[Statistics | None]:
        """Those of a stripe for each column; None where there are none. Raises FormatError or LimitError where they
        are damaged, UnsupportedError where their compression is not known."""
        if not self._stripe_statistics:
            return [None] * len(columns)
        what = f"the statistics of stripe {stripe}"
        with _named(self.path, what):
            found = messages.elements(self._stripe_statistics[stripe], 1, what)
            if found and len(found) != len(self.types):
                raise FormatError(f"there are those of {len(found)} columns; expected {len(self.types)}")
            return [parse_statistics(found[column], f"column {column}") if found else None for column in columns]

    @cached_property
    def _stripe_statistics(self) -> Sequence[bytes | memoryview]:
        what = "the statistics of the stripes"
        with _named(self.path, what):
            found = messages.elements(self.compression.decompress(self.stored_metadata, MAX_SECTION), 1, what)
            if found and len(found) != len(self.stripes):
                raise FormatError(f"there are {len(found)} of them; expected {len(self.stripes)}")
        return found


@contextmanager
def _named(path: str, what: str) -> Iterator[None]:
    """Errors out of the block say which file and which part of it they are of."""
    try:
        yield
    except BloomParquetError as error:
        raise type(error)(f"{path}: {what}: {error}") from error


def read_tails(storage: Storage, files: Sequence[FileInfo], count: ReadCount) -> list[Tail | BloomParquetError]:
    """The tails of `files`, in their order, or what is wrong with each; one request each where the tail fits in the
    first read.

    NotOrcError for a file that is empty or no ORC file, FormatError for one that is damaged, LimitError for a tail that
    is too large, EncryptionError for a file with encrypted columns, UnsupportedError for one whose compression is not
    known. All of them name their file.
    """
    tails: list[Tail | BloomParquetError] = []
    for batch in read_file_tails(storage, files, _tail_size, count):
        tails += _parse_batch(storage, batch, count)
    return tails


def are_orc(storage: Storage, files: Sequence[FileInfo], count: ReadCount) -> list[bool]:
    """Which of `files` begin as ORC files do; one request each."""
    return begin_with(storage, files, MAGIC, count)


def begin_with(storage: Storage, files: Sequence[FileInfo], magic: bytes, count: ReadCount) -> list[bool]:
    """Which of `files` begin with `magic`; one request each."""
    some = [i for i, file in enumerate(files) if file.size > len(magic)]
    found = [False] * len(files)
    for i, head in zip(some, _read_heads(storage, [files[i] for i in some], len(magic), count), strict=True):
        found[i] = head == magic
    return found


def _parse_batch(
    storage: Storage, batch: Sequence[FileTail | BloomParquetError], count: ReadCount
) -> list[Tail | BloomParquetError]:
    # Files of Hive 0.11 have the magic at their beginning only.
    headless = [
        tail.file for tail in batch if isinstance(tail, FileTail) and _postscript(tail.file, tail.end).magic != MAGIC
    ]
    heads = zip(headless, _read_heads(storage, headless, len(MAGIC), count), strict=True)
    strangers = {file for file, head in heads if head != MAGIC}
    tails: list[Tail | BloomParquetError] = []
    for tail in batch:
        if isinstance(tail, BloomParquetError):
            tails.append(tail)
        elif tail.file in strangers:
            tails.append(_not_orc(tail.file, f"{MAGIC!r} is at neither of its ends"))
        else:
            tails.append(_parsed(tail))
    return tails


def _parsed(stored: FileTail) -> Tail | BloomParquetError:
    file, end = stored.file, stored.end
    try:
        tail = parse_tail(file, end[-stored.size :])
    except BloomParquetError as error:
        return error
    if tail.stripes:
        last = tail.stripes[-1]
        at = last.footer_offset - (file.size - len(end))
        if at >= 0:
            return replace(tail, last_stripe_footer=end[at : at + last.footer_length])
    return tail


def _read_heads(storage: Storage, files: Sequence[FileInfo], size: int, count: ReadCount) -> list[bytes]:
    every = np.arange(len(files))
    width = np.full(len(files), size)
    ranges = read_ranges(storage, [file.path for file in files], every, np.zeros(len(files), np.int64), width, count)
    return [row.tobytes() for row in ranges.rows(size)]


def _postscript(file: FileInfo, end: bytes) -> Any:
    """The postscript at the end of `end`, which is that of the file."""
    if not end:
        raise _not_orc(file, "the file is empty (0 bytes)")
    size = end[-1]
    if size + 1 > len(end) or not size:
        raise _not_orc(file, f"its last byte claims a postscript of {size} bytes, of {len(end) - 1} before it")
    try:
        postscript = messages.parse(messages.PostScript, end[-1 - size : -1], "the postscript")
    except BloomParquetError as error:
        raise _not_orc(file, str(error)) from error
    if not postscript.HasField("footer_length"):
        raise _not_orc(file, "its postscript has no footer length")
    return postscript


def _not_orc(file: FileInfo, why: str) -> NotOrcError:
    return NotOrcError(f"{file.path}: not an ORC file, or cut short: {why}")


def _tail_size(file: FileInfo, end: bytes) -> int:
    postscript = _postscript(file, end)
    lengths = (postscript.footer_length, postscript.metadata_length, postscript.stripe_statistics_length)
    size: int = sum(lengths) + end[-1] + 1
    if size + len(MAGIC) > file.size:
        raise FormatError(
            f"{file.path}: the postscript claims a footer of {lengths[0]} bytes and statistics of "
            f"{lengths[1] + lengths[2]}, but the file has {file.size} in all; it is damaged or cut short"
        )
    if sum(lengths) > 3 * MAX_SECTION:
        raise LimitError(f"{file.path}: a tail of {size} bytes; at most {3 * MAX_SECTION} are read")
    return size


def parse_tail(file: FileInfo, raw: bytes) -> Tail:
    """The tail in `raw`, the last bytes of a file; see :func:`read_tails` for errors."""
    postscript = _postscript(file, raw)
    end = len(raw) - 1 - raw[-1]
    middle = end - postscript.footer_length
    with _named(file.path, "the footer"):
        compression = _compression(postscript)
        footer = messages.parse(messages.Footer, compression.decompress(raw[middle:end], MAX_SECTION), "it")
        if footer.HasField("encryption"):
            raise EncryptionError("the file has encrypted columns; those of ORC are not read")
        types = parse_types(footer.types)
        body_end = file.size - len(raw)
        stripes = tuple(_stripe(i, found, body_end) for i, found in enumerate(footer.stripes))
        _require_apart(stripes)
        return Tail(
            path=file.path,
            types=types,
            stripes=stripes,
            rows=footer.number_of_rows,
            row_index_stride=footer.row_index_stride,
            writer=footer.writer,
            writer_version=postscript.writer_version,
            software_version=text(footer.software_version) if footer.HasField("software_version") else None,
            file_version=tuple(postscript.version),
            calendar=footer.calendar,
            compression=compression,
            user_metadata={text(item.name): item.value for item in footer.metadata},
            size=len(raw),
            stored_metadata=raw[middle - postscript.metadata_length : middle],
        )


def _compression(postscript: Any) -> Compression:
    try:
        codec = Codec(postscript.compression)
    except ValueError:
        raise UnsupportedError(
            f"its compression is number {postscript.compression}; known are {', '.join(each.name for each in Codec)}"
        ) from None
    size = postscript.compression_block_size if postscript.HasField("compression_block_size") else DEFAULT_BLOCK_SIZE
    if codec and not 0 < size <= MAX_BLOCK_SIZE:
        raise FormatError(f"a compression block size of {size} bytes; expected 1 to {MAX_BLOCK_SIZE}")
    return Compression(codec, size)


def _stripe(number: int, found: Any, body_end: int) -> Stripe:
    stripe = Stripe(found.offset, found.index_length, found.data_length, found.footer_length, found.number_of_rows)
    if stripe.offset + stripe.length > body_end:
        raise FormatError(
            f"stripe {number} claims the bytes {stripe.offset} to {stripe.offset + stripe.length}, "
            f"but the stripes of the file end before byte {body_end}"
        )
    return stripe


def _require_apart(stripes: Sequence[Stripe]) -> None:
    """FormatError where two stripes share bytes: a small file could claim any amount of them."""
    end = 0
    for stripe in sorted(stripes, key=lambda each: (each.offset, each.length)):
        if stripe.offset < end:
            raise FormatError(f"the stripe at byte {stripe.offset} begins within another, which ends at byte {end}")
        if stripe.rows and not stripe.footer_length:
            raise FormatError(f"the stripe at byte {stripe.offset} claims {stripe.rows} rows, and has no footer")
        end = stripe.offset + stripe.length
