"""The column chunks of a footer: found and read without decoding what nobody asked for.

pyarrow parses footers fast, but it ends the whole process over some that it does not like (an encrypted column without
its key, a size statistic that it holds impossible), and no plan is worth a driver. So the footer is walked here. What
makes that fast in Python is that the chunks of one column look alike in every row group of every file: the same fields
in the same order, only with other numbers. The first chunk is decoded step by step and leaves a *template*: a regular
expression over its bytes, with the field headers literal and every number free. The compact protocol is prefix-free, so
bytes that match the template are what step by step decoding would have found in them; bytes that do not match are
decoded step by step and leave another template. The number of templates and their length are limited: a hostile file
could have a new form, or an endless one, in every chunk, and to compile a template takes long. What is beyond the
limits is decoded step by step each time.

Source: parquet-format ``parquet.thrift`` (RowGroup, ColumnChunk, ColumnMetaData, Statistics).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnCryptoMetaData,
    ColumnMetaData,
    EncryptionWithColumnKey,
    Statistics,
)
from bloomparquet.parquet.thrift.reader import MAX_DEPTH, CompactReader
from bloomparquet.parquet.thrift.struct import BINARY, BYTE, FALSE, FIXED_SIZES, INTEGERS, LISTS, STRUCT, TRUE, Field
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.storage.varint import read_varint

_META = ColumnChunk.meta_data
_STATISTICS = _META, ColumnMetaData.statistics
_CRYPTO = ColumnChunk.crypto_metadata
_COLUMN_KEY = _CRYPTO, ColumnCryptoMetaData.ENCRYPTION_WITH_COLUMN_KEY
_PATHS: tuple[tuple[Field[Any], ...], ...] = (
    (_META, ColumnMetaData.num_values),
    (*_STATISTICS, Statistics.null_count),
    (_META, ColumnMetaData.bloom_filter_offset),
    (_META, ColumnMetaData.bloom_filter_length),
    (_META, ColumnMetaData.total_compressed_size),
    (_META, ColumnMetaData.data_page_offset),
    (_META, ColumnMetaData.dictionary_page_offset),
    (*_STATISTICS, Statistics.max),
    (*_STATISTICS, Statistics.min),
    (*_STATISTICS, Statistics.max_value),
    (*_STATISTICS, Statistics.min_value),
    (_CRYPTO,),
    (_CRYPTO, ColumnCryptoMetaData.ENCRYPTION_WITH_FOOTER_KEY),
    _COLUMN_KEY,
    (*_COLUMN_KEY, EncryptionWithColumnKey.key_metadata),
    (ColumnChunk.encrypted_column_metadata,),
)
"""Where each field of :class:`ChunkFields` is stored, in their order."""
_FIELDS = {tuple(each.id for each in path): i for i, path in enumerate(_PATHS)}
_NUMBERS = 7  # of _FIELDS, the first are numbers and the others bytes
_BOUNDS = range(7, 11)
_PRESENCE = {path for path, i in _FIELDS.items() if i in range(11, 14)}  # fields whose presence alone matters
_PATH_IN_SCHEMA = (_META.id, ColumnMetaData.path_in_schema.id)
_WITHIN = {path[:depth] for path in _FIELDS for depth in range(1, len(path))}  # the structs that these fields are in
_KEPT_TEMPLATES = 16
_MOST_LEARNED = 256  # templates of one column; files of many writers have a dozen
_STEPS_PER_TEMPLATE = 64  # chunks decoded step by step for each further template: that takes about as long
_MOST_STEPWISE, _STEPWISE_PER_COLUMN = 1 << 15, 256  # chunks of one footer that are decoded step by step
_MOST_TEMPLATE_VALUES = 512  # in a template; real chunks have some dozens
_MOST_VALUES = 1 << 13  # in a chunk

_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"


class ChunkFields(NamedTuple):
    """What planning needs of a column chunk; None where the footer does not say. The bounds are raw bytes.

    Of a chunk that is encrypted `crypto` is not None but empty, and so is `footer_key` or `column_key`, by the key that
    it is under; `encrypted_metadata` is the module with its metadata, where that is encrypted by itself.
    """

    values: int | None  # nulls included
    nulls: int | None
    bloom_offset: int | None
    bloom_length: int | None
    compressed_size: int | None
    data_page_offset: int | None
    dictionary_page_offset: int | None
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
        """Whether anything says so."""
        return self.crypto is not None or self.encrypted_metadata is not None

    def __repr__(self) -> str:
        """Without the bounds, which may be those of an encrypted column."""
        return f"ChunkFields({', '.join(f'{name}={self[i]!r}' for i, name in enumerate(self._fields[:_NUMBERS]))})"


UNKNOWN_FIELDS = ChunkFields(*[None] * len(_FIELDS))
"""Of a chunk that cannot be looked into."""


@dataclass(slots=True)
class _Segment:
    """A stretch of a chunk: what a pattern matches, and then a byte string, or the column's path, or the end."""

    match: Callable[..., re.Match[bytes] | None]
    skim: Callable[..., re.Match[bytes] | None]  # the same bytes, with no group but a string's length
    slots: tuple[int, ...]  # of the groups
    has_string: bool = False  # the last group is the length of a byte string that follows
    string_slot: int | None = None  # where that string goes, if anybody asked for it
    has_path: bool = False  # the column's path follows


_Template = list[_Segment]


class StepAllowance:
    """How many more chunks of one footer may be decoded step by step: what fits no template takes a hundred times as
    long."""

    def __init__(self, columns: int) -> None:
        self._most = self._left = _MOST_STEPWISE + _STEPWISE_PER_COLUMN * columns

    def take(self) -> None:
        """LimitError where none is left."""
        self._left -= 1
        if self._left < 0:
            raise LimitError(
                f"more than {self._most:,} column chunks have metadata that is unlike that of all others; so many are "
                "not read: no file has them unless it is damaged, or made to do harm"
            )


class TemplatePool:
    """The templates of all columns of one schema that have one physical type: such columns differ in their path alone.

    `fixed_width` says that the columns' values, and so their bounds, all take the same number of bytes.
    """

    def __init__(self, *, fixed_width: bool) -> None:
        self._fixed_width = fixed_width
        self._learned = self._stepwise = 0
        self.templates: tuple[_Template, ...] = ()  # replaced, never changed: threads may share it

    def learn(self, buffer: bytes, position: int) -> tuple[_Template, bytes] | None:
        """The template of the chunk at `position`, and the column's path in it; None if it is to be decoded step by
        step."""
        # What one hostile file has used up is not lost for the files that come after it: some are learned later, too.
        learns = self._learned < _MOST_LEARNED or self._stepwise % _STEPS_PER_TEMPLATE == 0
        learned = _learn(buffer, position, self._fixed_width) if learns else None
        self._stepwise += 1
        if learned is not None:
            self._learned += 1
            self.prefer(learned[0])
        return learned

    def prefer(self, template: _Template) -> None:
        """Try `template` first the next time."""
        others = [other for other in self.templates if other is not template]
        self.templates = (template, *others[: _KEPT_TEMPLATES - 1])


class ChunkTemplates:
    """What the chunks of one column have looked like so far; `pool` is what those of similar columns have."""

    __slots__ = ("_known", "_path", "_pool")

    def __init__(self, pool: TemplatePool, path: tuple[str, ...]) -> None:
        names = [name.encode("utf-8", "surrogateescape") for name in path]
        self._path = write_struct(EncryptionWithColumnKey(path_in_schema=names))[1:-1]  # the list alone
        self._pool = pool
        self._known: tuple[tuple[_Template, bytes], ...] = ()  # replaced, never changed: threads may share it

    def skip(self, buffer: bytes, position: int, allowance: StepAllowance) -> int:
        """Where the chunk at `position` ends. FormatError when it is damaged."""
        end = _skim(*self._known[0], buffer, position) if self._known else None
        return self._find(buffer, position, None, allowance) if end is None else end

    def read(self, buffer: bytes, position: int) -> ChunkFields:
        """The chunk at `position`. FormatError when it is damaged."""
        found: list[Any] = [None] * len(_FIELDS)
        self._find(buffer, position, found)
        for i in range(_NUMBERS):
            if found[i] is not None:
                found[i] = _zigzag(found[i])
        return ChunkFields(*found)

    def _find(
        self, buffer: bytes, position: int, found: list[Any] | None, allowance: StepAllowance | None = None
    ) -> int:
        known = self._known
        tried = {id(template) for template, _ in known}
        shared = [(template, self._path) for template in self._pool.templates if id(template) not in tried]
        for i, (template, path) in enumerate((*known, *shared)):
            end = _apply(template, path, buffer, position, found)
            if end is not None:
                if i or not known:  # the one that fits is most likely to fit the next time
                    self._prefer(template, path)
                return end
            if found is not None:
                found[:] = [None] * len(found)  # what a template that fitted only in part has left there
        learned = self._pool.learn(buffer, position)
        if learned is None:
            if allowance is not None:
                allowance.take()
            return _decode(buffer, position, [None] * len(_FIELDS) if found is None else found)
        self._prefer(*learned)
        end = _apply(*learned, buffer, position, found)
        if end is None:
            raise FormatError(f"the column chunk at byte {position} of the footer is cut short")
        return end

    def _prefer(self, template: _Template, path: bytes) -> None:
        others = [other for other in self._known if other[0] is not template]
        self._known = ((template, path), *others[: _KEPT_TEMPLATES - 1])


def _skim(template: _Template, path: bytes, buffer: bytes, position: int) -> int | None:
    """As :func:`_apply`, for the end alone."""
    for segment in template:
        match = segment.skim(buffer, position)
        if match is None:
            return None
        position = match.end()
        if segment.has_string:
            position += _varint(match[1])
            if position > len(buffer):
                return None
        elif segment.has_path:
            if not buffer.startswith(path, position):
                return None
            position += len(path)
    return position


def _apply(template: _Template, path: bytes, buffer: bytes, position: int, found: list[Any] | None) -> int | None:
    """The end of the chunk at `position` if it has the template's form; what was asked for goes into `found`."""
    for segment in template:
        match = segment.match(buffer, position)
        if match is None:
            return None
        position = match.end()
        if found is not None:
            for slot, raw in zip(segment.slots, match.groups(), strict=False):
                found[slot] = raw
        if segment.has_string:
            start = position
            position += _varint(match[match.re.groups])
            if position > len(buffer):
                return None
            if found is not None and segment.string_slot is not None:
                found[segment.string_slot] = buffer[start:position]
        elif segment.has_path:
            if not buffer.startswith(path, position):
                return None
            position += len(path)
    return position


@dataclass(slots=True)
class _Builder:
    """A template in the making."""

    fixed_width: bool
    segments: list[_Segment] = field(default_factory=list)
    pattern: bytearray = field(default_factory=bytearray)
    skimming: bytearray = field(default_factory=bytearray)
    slots: list[int] = field(default_factory=list)
    paths: list[bytes] = field(default_factory=list)

    def literal(self, data: bytes) -> None:
        self._add(re.escape(data), None)

    def number(self, path: tuple[int, ...]) -> None:
        slot = _FIELDS.get(path, _NUMBERS)
        self._add(_VARINT, slot if slot < _NUMBERS else None)

    def numbers(self, size: int) -> None:
        self._add(b"(?:%b){%d}" % (_VARINT, size), None)

    def any_bytes(self, size: int) -> None:
        self._add(b".{%d}" % size, None)

    def string(self, path: tuple[int, ...], length: bytes, size: int) -> None:
        """A byte string of `size` bytes behind its `length`."""
        slot = _FIELDS.get(path)
        if slot is not None and slot < _NUMBERS:
            slot = None
        if self.fixed_width and slot in _BOUNDS:
            self.literal(length)
            self._add(b".{%d}" % size, slot)
        else:
            self.pattern += b"(" + _VARINT + b")"
            self.skimming += b"(" + _VARINT + b")"
            self._close(has_string=True, string_slot=slot)

    def mark(self, path: tuple[int, ...]) -> None:
        """Here something begins of which it matters that it is there."""
        self.slots.append(_FIELDS[path])
        self.pattern += b"()"

    def column_path(self, path: bytes) -> None:
        """The column's path, outside any pattern."""
        self.paths.append(path)
        self._close(has_path=True)

    def finish(self) -> tuple[_Template, bytes] | None:
        """The template and the column's path; None if the chunk has several."""
        self._close()
        return (self.segments, (self.paths or [b""])[0]) if len(self.paths) < 2 else None

    def _add(self, pattern: bytes, slot: int | None) -> None:
        self.skimming += pattern
        if slot is not None:
            self.slots.append(slot)
            pattern = b"(" + pattern + b")"
        self.pattern += pattern

    def _close(self, **behind: Any) -> None:
        match, skim = _compile(bytes(self.pattern)), _compile(bytes(self.skimming))
        self.segments.append(_Segment(match, skim, tuple(self.slots), **behind))
        self.pattern.clear()
        self.skimming.clear()
        self.slots.clear()


@lru_cache(maxsize=4096)
def _compile(pattern: bytes) -> Callable[..., re.Match[bytes] | None]:
    return re.compile(pattern, re.DOTALL).match


def _decode(buffer: bytes, position: int, found: list[Any]) -> int:
    """Decode the chunk at `position` value by value, into `found`; its end. For chunks that fit no template."""
    reader = CompactReader(buffer, position, most=_MOST_VALUES)
    _decode_struct(reader, buffer, (), found)
    return reader.position


def _decode_struct(reader: CompactReader, buffer: bytes, path: tuple[int, ...], found: list[Any]) -> None:
    field_id = 0
    while (header := reader.read_field(field_id)) is not None:
        field_id, kind = header
        here = (*path, field_id)
        if here in _PRESENCE:
            found[_FIELDS[here]] = b""
        if kind == STRUCT and here in _WITHIN:
            _decode_struct(reader, buffer, here, found)
            continue
        start = reader.position
        value = reader.read_value(kind, depth=len(here))
        slot = _FIELDS.get(here)
        if slot is None or here in _PRESENCE:
            continue
        if slot < _NUMBERS and kind in INTEGERS:
            found[slot] = buffer[start : reader.position]
        elif slot >= _NUMBERS and kind == BINARY:
            found[slot] = value


def _learn(buffer: bytes, position: int, fixed_width: bool) -> tuple[_Template, bytes] | None:
    """The template of the chunk at `position`, and the column's path; None where it would be too long."""
    builder = _Builder(fixed_width)
    reader = CompactReader(buffer, position, most=_MOST_TEMPLATE_VALUES)
    try:
        _learn_struct(reader, buffer, (), builder)
    except LimitError:
        return None
    return builder.finish()


def _learn_struct(reader: CompactReader, buffer: bytes, path: tuple[int, ...], builder: _Builder) -> None:
    field_id = 0
    while True:
        start = reader.position
        found = reader.read_field(field_id)
        builder.literal(buffer[start : reader.position])
        if found is None:
            return
        field_id, kind = found
        if (*path, field_id) in _PRESENCE:
            builder.mark((*path, field_id))
        if kind not in (TRUE, FALSE):
            _learn_value(reader, buffer, kind, (*path, field_id), builder)


def _learn_value(reader: CompactReader, buffer: bytes, kind: int, path: tuple[int, ...], builder: _Builder) -> None:
    start = reader.position
    if len(path) > MAX_DEPTH:
        raise FormatError(f"the column chunk nests deeper than {MAX_DEPTH} levels at byte {start} of the footer")
    if kind == STRUCT:
        _learn_struct(reader, buffer, path, builder)
    elif path == _PATH_IN_SCHEMA:
        reader.read_value(kind)
        builder.column_path(buffer[start : reader.position])
    elif kind in LISTS:
        size, element = reader.read_list_header()
        builder.literal(buffer[start : reader.position])
        reader.count(size)
        if element in INTEGERS:
            for _ in range(size):
                reader.read_value(element)
            builder.numbers(size)
            return
        for _ in range(size):
            _learn_value(reader, buffer, element, (*path, 0), builder)
    else:
        value = reader.read_value(BYTE if kind in (TRUE, FALSE) else kind)
        if kind in INTEGERS:
            builder.number(path)
        elif kind == BINARY:
            builder.string(path, buffer[start : reader.position - len(value)], len(value))
        elif kind in FIXED_SIZES:
            builder.any_bytes(FIXED_SIZES[kind])
        else:  # a boolean in a list, a map: the same bytes or another template
            builder.literal(buffer[start : reader.position])


def _varint(raw: bytes) -> int:
    if len(raw) == 1:
        return raw[0]
    try:
        return read_varint(raw, 0)[0]
    except OverflowError:
        raise FormatError("an integer in a column chunk's metadata is longer than 64 bits") from None


def _zigzag(raw: bytes) -> int:
    number = _varint(raw)
    return (number >> 1) ^ -(number & 1)
