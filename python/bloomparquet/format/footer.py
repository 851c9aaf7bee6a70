"""The footers of files: read once, parsed by pyarrow, with the schema and the facts about the writer beside them.

pyarrow decodes the row groups (its C++ is far faster than Python could be); the schema is our own (see
:mod:`bloomparquet.format.schema`). pyarrow ends the whole process when it is asked for metadata of an encrypted
column without its key, so encrypted files are recognised here, from the bytes, before pyarrow's objects are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError
from bloomparquet.format.schema import FileSchema, parse_schema
from bloomparquet.storage import FileInfo, ReadCount, Storage, read_ranges

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
_TRAILER = 8  # the footer's length (4 bytes, little-endian) and the magic
_TAIL_GUESS = 16 * 1024
_FILES_AT_ONCE = 512  # bounds the memory that tails take


@dataclass(frozen=True, slots=True)
class WriterTraits:
    """What the footer says about how values were written, as far as it changes which bytes a value was hashed as."""

    spark: bool  # written by Apache Spark
    legacy_int96: bool  # INT96 in the calendar and time zone of the writer
    altered_text: (
        bool  # some string column is CHAR(n)/VARCHAR(n) or has a collation: equal strings need not be equal bytes
    )


@dataclass(frozen=True)
class Layout:
    """What files of one writer and schema share; compared by identity, shared between footers."""

    schema: FileSchema
    traits: WriterTraits


@dataclass(frozen=True)
class Footer:
    """One file's footer."""

    metadata: pq.FileMetaData
    layout: Layout


def read_footers(
    storage: Storage, files: Sequence[FileInfo], count: ReadCount, *, skip_corrupt: bool = False
) -> list[Footer | None]:
    """The footers of `files`, in their order; one request each when the footer fits in the first read.

    Raises :class:`FormatError` that names the file for one that is empty, is no Parquet file or is damaged, and
    :class:`EncryptionError` for an encrypted one; with `skip_corrupt` a damaged file gives None instead.
    """
    footers: list[Footer | None] = []
    for at in range(0, len(files), _FILES_AT_ONCE):
        some = files[at : at + _FILES_AT_ONCE]
        for file, raw in zip(some, _read_tails(storage, some, count), strict=True):
            footers.append(_parse_or_skip(file.path, raw, skip_corrupt))
    return footers


def _parse_or_skip(path: str, raw: bytes | FormatError, skip_corrupt: bool) -> Footer | None:
    try:
        return _parse(path, raw)
    except FormatError:
        if not skip_corrupt:
            raise
        return None


def _read_tails(storage: Storage, files: Sequence[FileInfo], count: ReadCount) -> list[bytes | FormatError]:
    """Each file's footer with its trailer, or what is wrong with it."""
    paths = [file.path for file in files]
    sizes = np.array([file.size for file in files], np.int64)
    tails: list[bytes | FormatError] = [_not_parquet(file) for file in files]
    readable = np.flatnonzero(sizes >= len(MAGIC) + _TRAILER)
    guess = np.minimum(sizes[readable], _TAIL_GUESS)
    ranges = read_ranges(storage, paths, readable, sizes[readable] - guess, guess, count)
    buffer = ranges.buffer.data
    longer: list[int] = []
    for i, start, size in zip(readable.tolist(), ranges.starts.tolist(), guess.tolist(), strict=True):
        tail = bytes(buffer[start : start + size])
        needed = int.from_bytes(tail[-_TRAILER:-4], "little") + _TRAILER
        if tail[-4:] not in (MAGIC, ENCRYPTED_MAGIC):
            tails[i] = FormatError(
                f"{paths[i]}: not a Parquet file, or cut short: its last 4 bytes are {tail[-4:]!r}; expected {MAGIC!r}"
            )
        elif needed + len(MAGIC) > sizes[i]:
            tails[i] = FormatError(
                f"{paths[i]}: the file claims a footer of {needed - _TRAILER} bytes, "
                f"but has {sizes[i]} in all; it is damaged or cut short"
            )
        elif needed <= size:
            tails[i] = tail[size - needed :]
        else:
            tails[i] = tail
            longer.append(i)
    lengths = np.array([int.from_bytes(tails[i][-_TRAILER:-4], "little") + _TRAILER for i in longer], np.int64)  # type: ignore[index]
    again = np.array(longer, np.int64)
    ranges = read_ranges(storage, paths, again, sizes[again] - lengths, lengths, count)
    for i, start, size in zip(longer, ranges.starts.tolist(), lengths.tolist(), strict=True):
        tails[i] = ranges.buffer[start : start + size].tobytes()
    return tails


def _not_parquet(file: FileInfo) -> FormatError:
    what = "the file is empty (0 bytes)" if file.size == 0 else f"not a Parquet file: {file.size} bytes are too few"
    return FormatError(
        f"{file.path}: {what}; expected at least {len(MAGIC) + _TRAILER} bytes with {MAGIC!r} at both ends"
    )


def _parse(path: str, raw: bytes | FormatError) -> Footer:
    if isinstance(raw, FormatError):
        raise raw
    footer = raw[:-_TRAILER]
    if raw[-4:] == ENCRYPTED_MAGIC:
        raise EncryptionError(
            f"{path}: the footer is encrypted; encrypted files cannot be planned, read them with spark.read.parquet"
        )
    try:
        metadata = pq.read_metadata(pa.BufferReader(raw))
        schema = _schema_of(footer)
    except (pa.ArrowException, OSError, BloomParquetError) as error:
        # pyarrow reports damaged Thrift as OSError, though these bytes are in memory
        raise FormatError(f"{path}: the footer ({len(footer)} bytes) is damaged: {error}") from error
    if metadata.serialized_size != len(footer):
        # A signature follows the metadata of a file with encrypted columns.
        raise EncryptionError(
            f"{path}: {len(footer) - metadata.serialized_size} bytes follow the footer's metadata: "
            "the file has encrypted columns (or a damaged "
            "footer); encrypted files cannot be planned, read them with spark.read.parquet"
        )
    return Footer(metadata, _layout_of(schema, footer))


_schemas: list[tuple[bytes, FileSchema]] = []
_layouts: dict[tuple[int, WriterTraits], Layout] = {}
_KEPT_SCHEMAS = 64


def _schema_of(footer: bytes) -> FileSchema:
    """The schema of `footer`; files of a data set begin with the same bytes up to its end, so it is parsed once for
    all of them."""
    for head, schema in _schemas:
        if footer.startswith(head):
            return schema
    schema, size = parse_schema(footer)
    if len(_schemas) >= _KEPT_SCHEMAS:
        _schemas.pop(0)
    _schemas.append((footer[:size], schema))
    return schema


def _layout_of(schema: FileSchema, footer: bytes) -> Layout:
    traits = WriterTraits(
        spark=b"org.apache.spark.version" in footer,
        legacy_int96=b"org.apache.spark.legacyINT96" in footer,
        altered_text=b"__CHAR_VARCHAR_TYPE_STRING" in footer or b"__COLLATIONS" in footer,
    )
    key = (id(schema), traits)
    layout = _layouts.get(key)
    if layout is None or layout.schema is not schema:
        if len(_layouts) >= 2 * _KEPT_SCHEMAS:
            _layouts.clear()
        layout = _layouts[key] = Layout(schema, traits)
    return layout
