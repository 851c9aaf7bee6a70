"""Reads the tails of ORC files: types, stripes, statistics, and the writer.

A tail is, from the end of the file: one byte with the length of the postscript; the postscript, never compressed; the
footer; the statistics of every stripe ("metadata"). The footer is parsed at once, statistics on demand, a column at a
time.

Source: ORC specification, "File Tail".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from bloomparquet.errors import (
    BloomParquetError,
    EncryptionError,
    FormatError,
    LimitError,
    NotOrcError,
    UnsupportedError,
    located,
)
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.compression import DEFAULT_BLOCK_SIZE, MAX_BLOCK_SIZE, Codec, Compression
from bloomparquet.orc.schema import OrcType, parse_types, text
from bloomparquet.orc.statistics import Statistics, parse_statistics
from bloomparquet.storage.file_tail import FileTail, read_file_tails
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.ranges import read_ranges

MAGIC = b"ORC"
JULIAN_GREGORIAN = 1
"""The calendar of a file that is Julian before 1582-10-15. Arrow has no such days."""
MAX_SECTION = 32 * 1024 * 1024
"""The most decompressed bytes of a footer, and of the statistics of a file's stripes."""


class Writer(IntEnum):
    """The writers whose files are understood, by the number in the footer."""

    JAVA = 0
    CPP = 1


class WriterVersion(IntEnum):
    """Versions of the Java writer, named after issues of its tracker. The versions of other writers begin with 6, and
    do not stand for these issues."""

    HIVE_8732 = 1
    ORC_135 = 6
    ORC_14 = 9


@dataclass(frozen=True, slots=True)
class Stripe:
    """The byte offset of a stripe and the lengths of its indexes, data and footer, which follow each other."""

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
    """The tail of one file.

    `types` are the columns by number; 0 is the root. `row_index_stride` is the number of rows in a row group, 0 if the
    file has no row groups. `writer` and `writer_version` are :class:`Writer` and :class:`WriterVersion`, or a number
    that is not listed there. `software_version` is the writer's release, if the file names it. `raw` is the tail as
    stored, with the statistics of the stripes at `metadata`. `last_stripe_footer` is the stored footer of the last
    stripe, if it was read with the tail.
    """

    file: FileInfo
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
    raw: bytes = field(repr=False)
    metadata: slice = field(repr=False)
    last_stripe_footer: bytes | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def is_merged(self) -> bool:
        """Whether ORC Java copied the stripes from files by an older or another writer (``OrcFile.mergeFiles``).

        It then names itself as the writer, but keeps the writer version of these files. Every Java release that names
        itself has at least version 9.
        """
        return (
            self.writer == Writer.JAVA
            and self.software_version is not None
            and self.writer_version < WriterVersion.ORC_14
        )

    @property
    def size(self) -> int:
        """The number of bytes of the tail."""
        return len(self.raw)

    def row_groups(self, stripe: int) -> int:
        """The number of row groups in a stripe; 0 if the file has no row indexes."""
        return -(-self.stripes[stripe].rows // self.row_index_stride) if self.row_index_stride else 0

    def stripe_statistics(self, stripe: int, column: int) -> Statistics | None:
        """The statistics of a column in a stripe; None if the file has none.

        Raises FormatError or LimitError for damaged statistics, and UnsupportedError for an unknown compression.
        """
        if not self._stripe_statistics:
            return None
        what = f"the statistics of stripe {stripe}"
        with located(f"{self.path}: {what}"):
            columns = messages.elements(self._stripe_statistics[stripe], what)
            if not columns:
                return None
            if len(columns) != len(self.types):
                raise FormatError(f"they cover {len(columns)} columns; expected {len(self.types)}")
            return parse_statistics(columns[column], f"column {column}")

    @lazy_property
    def _stripe_statistics(self) -> Sequence[bytes | memoryview]:
        what = "the statistics of the stripes"
        with located(f"{self.path}: {what}"):
            stripes = messages.elements(self.compression.decompress(self.raw[self.metadata], MAX_SECTION), what)
            if stripes and len(stripes) != len(self.stripes):
                raise FormatError(f"they cover {len(stripes)} stripes; expected {len(self.stripes)}")
        return stripes


def read_tails(storage: Storage, files: Sequence[FileInfo], count: ReadCount) -> list[Tail | BloomParquetError]:
    """The tails of `files` in their order, or the error of each file. Most tails take one request.

    NotOrcError for a file that is empty or no ORC file, FormatError for a damaged one, LimitError for a tail that is
    too large, EncryptionError for encrypted columns, UnsupportedError for an unknown compression. Errors name the file.
    """
    tails: list[Tail | BloomParquetError] = []
    for batch in read_file_tails(storage, files, _tail_size, count):
        # Files of Hive 0.11 have the magic only at their beginning.
        unsure = [
            each.file
            for each in batch
            if isinstance(each, FileTail) and _parse_postscript(each.file, each.end).magic != MAGIC
        ]
        starts = are_orc(storage, unsure, count)
        not_orc = {file for file, is_orc in zip(unsure, starts, strict=True) if not is_orc}
        tails += [each if isinstance(each, BloomParquetError) else _parse(each, not_orc) for each in batch]
    return tails


def are_orc(storage: Storage, files: Sequence[FileInfo], count: ReadCount) -> list[bool]:
    """Whether each of `files` begins as an ORC file; one request each."""
    return begin_with(storage, files, MAGIC, count)


def begin_with(storage: Storage, files: Sequence[FileInfo], magic: bytes, count: ReadCount) -> list[bool]:
    """Whether each of `files` begins with `magic`; one request each."""
    some = np.flatnonzero([file.size > len(magic) for file in files])
    offsets, lengths = np.zeros(len(some), np.int64), np.full(len(some), len(magic))
    ranges = read_ranges(storage, files, some, offsets, lengths, count)
    answers = [False] * len(files)
    for i, head in zip(some.tolist(), ranges.rows(len(magic)), strict=True):
        answers[i] = head.tobytes() == magic
    return answers


def _parse(stored: FileTail, not_orc: set[FileInfo]) -> Tail | BloomParquetError:
    file, end = stored.file, stored.end
    if file in not_orc:
        return _not_orc(file, f"{MAGIC!r} is at neither of its ends")
    try:
        tail = parse_tail(file, end[-stored.size :])
    except BloomParquetError as error:
        return error
    if tail.stripes:
        last = tail.stripes[-1]
        start = last.footer_offset - (file.size - len(end))
        if start >= 0:
            return replace(tail, last_stripe_footer=end[start : start + last.footer_length])
    return tail


def _parse_postscript(file: FileInfo, end: bytes) -> Any:
    """The postscript in `end`, the last bytes of the file."""
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
    return NotOrcError(f"{file.path}: not an ORC file, or truncated: {why}")


def _tail_size(file: FileInfo, end: bytes) -> int:
    postscript = _parse_postscript(file, end)
    lengths = (postscript.footer_length, postscript.metadata_length, postscript.stripe_statistics_length)
    size: int = sum(lengths) + end[-1] + 1
    if size + len(MAGIC) > file.size:
        raise FormatError(
            f"{file.path}: the postscript claims a footer of {lengths[0]} bytes and statistics of "
            f"{lengths[1] + lengths[2]}, but the file has {file.size} in all; it is damaged or truncated"
        )
    if sum(lengths) > 3 * MAX_SECTION:
        raise LimitError(f"{file.path}: a tail of {size} bytes; at most {3 * MAX_SECTION} are read")
    return size


def parse_tail(file: FileInfo, raw: bytes) -> Tail:
    """The tail in `raw`, the last bytes of a file. Errors are those of :func:`read_tails`."""
    postscript = _parse_postscript(file, raw)
    end = len(raw) - 1 - raw[-1]
    start = end - postscript.footer_length
    with located(f"{file.path}: the footer"):
        compression = _parse_compression(postscript)
        footer = messages.parse(messages.Footer, compression.decompress(raw[start:end], MAX_SECTION), "the message")
        if footer.HasField("encryption"):
            raise EncryptionError("the file has encrypted columns, which are not supported in ORC")
        types = parse_types(footer.types)
        stripes = tuple(_parse_stripe(i, each, file.size - len(raw)) for i, each in enumerate(footer.stripes))
        _require_disjoint(stripes)
        return Tail(
            file=file,
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
            raw=raw,
            metadata=slice(start - postscript.metadata_length, start),
        )


def _parse_compression(postscript: Any) -> Compression:
    try:
        codec = Codec(postscript.compression)
    except ValueError:
        raise UnsupportedError(
            f"its compression has the unknown number {postscript.compression}; "
            f"known are {', '.join(codec.name for codec in Codec)}"
        ) from None
    size = postscript.compression_block_size if postscript.HasField("compression_block_size") else DEFAULT_BLOCK_SIZE
    if codec and not 0 < size <= MAX_BLOCK_SIZE:
        raise FormatError(f"a compression block size of {size} bytes; expected 1 to {MAX_BLOCK_SIZE}")
    return Compression(codec, size)


def _parse_stripe(number: int, message: Any, body_end: int) -> Stripe:
    stripe = Stripe(
        message.offset, message.index_length, message.data_length, message.footer_length, message.number_of_rows
    )
    if stripe.offset + stripe.length > body_end:
        raise FormatError(
            f"stripe {number} claims the bytes {stripe.offset} to {stripe.offset + stripe.length}, "
            f"but the stripes of the file end before byte {body_end}"
        )
    return stripe


def _require_disjoint(stripes: Sequence[Stripe]) -> None:
    """FormatError if two stripes share bytes: a small file could claim any number of stripes."""
    end = 0
    for stripe in sorted(stripes, key=lambda each: (each.offset, each.length)):
        if stripe.offset < end:
            raise FormatError(f"the stripe at byte {stripe.offset} begins within another, which ends at byte {end}")
        if stripe.rows and not stripe.footer_length:
            raise FormatError(f"the stripe at byte {stripe.offset} claims {stripe.rows} rows, but has no footer")
        end = stripe.offset + stripe.length
