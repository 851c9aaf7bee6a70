"""Reads the column chunks of a footer, decoding only the fields that planning needs.

pyarrow is not used: it ends the whole process over some footers (an encrypted column without its key, a size statistic
that it holds impossible). A plan must not end a driver.

The chunks of one column have the same fields in the same order in every row group of every file; only the numbers
differ. The first chunk is decoded field by field and gives a *template*: a regular expression over its bytes with
literal field headers and free numbers. In the compact protocol no value is the beginning of another one, so a match
reads exactly the bytes that decoding field by field would read. Columns of one physical type share their templates. A
chunk that matches none is decoded field by field and gives another template. Compiling a template takes long, so the
number of templates and their length are limited: a hostile file could have another form in every chunk. Beyond the
limits, chunks are decoded field by field each time.

Source: parquet-format ``parquet.thrift`` (RowGroup, ColumnChunk, ColumnMetaData, Statistics).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.metadata.chunk_fields import (
    BOUNDS,
    ENCLOSING_STRUCTS,
    NUMBERS,
    PATH_IN_SCHEMA,
    PRESENCE_ONLY,
    SLOTS,
    ChunkFields,
)
from bloomparquet.parquet.thrift.definitions import (
    EncryptionWithColumnKey,
)
from bloomparquet.parquet.thrift.reader import MAX_DEPTH, CompactReader
from bloomparquet.parquet.thrift.struct import BINARY, BYTE, FALSE, FIXED_SIZES, INTEGERS, LISTS, STRUCT, TRUE
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.storage.varint import read_varint

_KEPT_TEMPLATES, _KEPT_POOLED = 16, 64  # of a column, of a pool
_MAX_LEARNED = 256  # templates of one pool; the files of many writers have a dozen forms
_CHUNKS_PER_TEMPLATE = 64  # beyond that: decoding so many chunks takes as long as compiling a template
_MAX_STEPWISE, _STEPWISE_PER_COLUMN = 1 << 15, 256  # chunks of one footer that are decoded field by field
_MAX_TEMPLATE_VALUES = 512  # real chunks have fewer than 100
_MAX_VALUES = 1 << 13  # of one chunk

_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"


@dataclass(slots=True)
class _Segment:
    """A part of a template: a pattern, and after it a byte string, the column's path or the chunk's end."""

    match: Callable[..., re.Match[bytes] | None]
    skim: Callable[..., re.Match[bytes] | None]  # matches the same bytes; its only group is a string's length
    slots: tuple[int, ...]  # the positions in ChunkFields of the groups of `match`
    has_string: bool = False  # a byte string follows; the last group is its length
    string_slot: int | None = None  # the string's position in ChunkFields, if it has one
    has_path: bool = False  # the column's path follows


_Template = list[_Segment]


class DecodeBudget:
    """Limits how many chunks of one footer are decoded field by field, which takes a hundred times as long as matching
    a template."""

    def __init__(self, columns: int) -> None:
        self._limit = self._left = _MAX_STEPWISE + _STEPWISE_PER_COLUMN * columns

    def take(self) -> None:
        """Count one chunk. LimitError if the limit is exceeded."""
        self._left -= 1
        if self._left < 0:
            raise LimitError(
                f"more than {self._limit:,} column chunks have metadata that is unlike that of all others; the file is "
                "damaged or malicious"
            )


class TemplatePool:
    """The templates of a schema's columns of one physical type, whose chunks differ in their path alone.

    `fixed_width`: all values of the columns, and so all bounds, have the same number of bytes.
    """

    def __init__(self, *, fixed_width: bool) -> None:
        self._fixed_width = fixed_width
        self._learned = self._stepwise = 0
        self.templates: tuple[_Template, ...] = ()  # the latest first; replaced, never changed: threads may share it

    def learn(self, buffer: bytes, position: int) -> tuple[_Template, bytes] | None:
        """Make a template of the chunk at `position`. Gives the column's path too; None if the chunk must be decoded
        field by field."""
        # Templates are made beyond the limit too, but rarely: a hostile file must not slow down all files after it.
        learns = self._learned < _MAX_LEARNED or self._stepwise % _CHUNKS_PER_TEMPLATE == 0
        learned = _compile_template(buffer, position, self._fixed_width) if learns else None
        self._stepwise += 1
        if learned is not None:
            self._learned += 1
            self.prefer(learned[0])
        return learned

    def prefer(self, template: _Template) -> None:
        """Try `template` first next time."""
        others = [other for other in self.templates if other is not template]
        self.templates = (template, *others[: _KEPT_POOLED - 1])


class ChunkTemplates:
    """Reads the chunks of one column, with the templates of its `pool`."""

    __slots__ = ("_known", "_path", "_pool")

    def __init__(self, pool: TemplatePool, path: tuple[str, ...]) -> None:
        names = [name.encode("utf-8", "surrogateescape") for name in path]
        self._path = write_struct(EncryptionWithColumnKey(path_in_schema=names))[1:-1]  # the list alone
        self._pool = pool
        # Templates that matched, the latest first, with the path. Replaced, never changed: threads may share it.
        self._known: tuple[tuple[_Template, bytes], ...] = ()

    def skip(self, buffer: bytes, position: int, budget: DecodeBudget) -> int:
        """The end of the chunk at `position`. FormatError if it is damaged."""
        end = _skim(*self._known[0], buffer, position) if self._known else None
        return self._match(buffer, position, None, budget) if end is None else end

    def read(self, buffer: bytes, position: int) -> ChunkFields:
        """The fields of the chunk at `position`. FormatError if it is damaged."""
        values: list[Any] = [None] * len(SLOTS)
        self._match(buffer, position, values)
        for i in range(NUMBERS):
            if values[i] is not None:
                values[i] = _zigzag(values[i])
        return ChunkFields(*values)

    def _match(self, buffer: bytes, position: int, values: list[Any] | None, budget: DecodeBudget | None = None) -> int:
        """The end of the chunk at `position`; its fields go into `values`."""
        for i, (template, path) in enumerate(self._candidates()):
            end = _apply(template, path, buffer, position, values)
            if end is not None:
                if i or not self._known:
                    self._prefer(template, path)
                return end
            if values is not None:
                values[:] = [None] * len(values)  # a partial match has set some
        learned = self._pool.learn(buffer, position)
        if learned is None:
            if budget is not None:
                budget.take()
            return _decode(buffer, position, [None] * len(SLOTS) if values is None else values)
        self._prefer(*learned)
        end = _apply(*learned, buffer, position, values)
        if end is None:
            raise FormatError(f"the column chunk at byte {position} of the footer is truncated")
        return end

    def _candidates(self) -> Iterator[tuple[_Template, bytes]]:
        known = self._known
        yield from known
        tried = {id(template) for template, _ in known}
        yield from ((template, self._path) for template in self._pool.templates if id(template) not in tried)

    def _prefer(self, template: _Template, path: bytes) -> None:
        others = [other for other in self._known if other[0] is not template]
        self._known = ((template, path), *others[: _KEPT_TEMPLATES - 1])


def _skim(template: _Template, path: bytes, buffer: bytes, position: int) -> int | None:
    """The end of the chunk at `position` if it has the template's form: :func:`_apply` without values, but faster."""
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


def _apply(template: _Template, path: bytes, buffer: bytes, position: int, values: list[Any] | None) -> int | None:
    """The end of the chunk at `position` if it has the template's form. Its fields go into `values`."""
    for segment in template:
        match = segment.match(buffer, position)
        if match is None:
            return None
        position = match.end()
        if values is not None:
            for slot, raw in zip(segment.slots, match.groups(), strict=False):
                values[slot] = raw
        if segment.has_string:
            start = position
            position += _varint(match[match.re.groups])
            if position > len(buffer):
                return None
            if values is not None and segment.string_slot is not None:
                values[segment.string_slot] = buffer[start:position]
        elif segment.has_path:
            if not buffer.startswith(path, position):
                return None
            position += len(path)
    return position


@dataclass(slots=True)
class _Builder:
    """Builds a template."""

    fixed_width: bool
    segments: list[_Segment] = field(default_factory=list)
    pattern: bytearray = field(default_factory=bytearray)
    skimming: bytearray = field(default_factory=bytearray)
    slots: list[int] = field(default_factory=list)
    paths: list[bytes] = field(default_factory=list)

    def literal(self, data: bytes) -> None:
        self._add(re.escape(data), None)

    def number(self, path: tuple[int, ...]) -> None:
        slot = SLOTS.get(path, NUMBERS)
        self._add(_VARINT, slot if slot < NUMBERS else None)

    def numbers(self, size: int) -> None:
        self._add(b"(?:%b){%d}" % (_VARINT, size), None)

    def any_bytes(self, size: int) -> None:
        self._add(b".{%d}" % size, None)

    def string(self, path: tuple[int, ...], length: bytes, size: int) -> None:
        """A byte string of `size` bytes; `length` is its encoded length."""
        slot = SLOTS.get(path)
        if slot is not None and slot < NUMBERS:
            slot = None
        if self.fixed_width and slot in BOUNDS:
            self.literal(length)
            self._add(b".{%d}" % size, slot)
        else:
            self.pattern += b"(" + _VARINT + b")"
            self.skimming += b"(" + _VARINT + b")"
            self._close(has_string=True, string_slot=slot)

    def presence(self, path: tuple[int, ...]) -> None:
        """A field of which only the presence is kept."""
        self.slots.append(SLOTS[path])
        self.pattern += b"()"

    def column_path(self, path: bytes) -> None:
        """The column's path, which no pattern contains, so that columns share their patterns."""
        self.paths.append(path)
        self._close(has_path=True)

    def finish(self) -> tuple[_Template, bytes] | None:
        """The template and the column's path; None if the chunk has several paths."""
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


def _decode(buffer: bytes, position: int, values: list[Any]) -> int:
    """Decode the chunk at `position` field by field into `values`. Gives its end."""
    reader = CompactReader(buffer, position, most=_MAX_VALUES)
    _decode_struct(reader, buffer, (), values)
    return reader.position


def _decode_struct(reader: CompactReader, buffer: bytes, path: tuple[int, ...], values: list[Any]) -> None:
    field_id = 0
    while (header := reader.read_field(field_id)) is not None:
        field_id, kind = header
        here = (*path, field_id)
        if here in PRESENCE_ONLY:
            values[SLOTS[here]] = b""
        if kind == STRUCT and here in ENCLOSING_STRUCTS:
            _decode_struct(reader, buffer, here, values)
            continue
        start = reader.position
        value = reader.read_value(kind, depth=len(here))
        slot = SLOTS.get(here)
        if slot is None or here in PRESENCE_ONLY:
            continue
        if slot < NUMBERS and kind in INTEGERS:
            values[slot] = buffer[start : reader.position]
        elif slot >= NUMBERS and kind == BINARY:
            values[slot] = value


def _compile_template(buffer: bytes, position: int, fixed_width: bool) -> tuple[_Template, bytes] | None:
    """The template of the chunk at `position` and the column's path; None if the template would be too long."""
    builder = _Builder(fixed_width)
    reader = CompactReader(buffer, position, most=_MAX_TEMPLATE_VALUES)
    try:
        _compile_struct(reader, buffer, (), builder)
    except LimitError:
        return None
    return builder.finish()


def _compile_struct(reader: CompactReader, buffer: bytes, path: tuple[int, ...], builder: _Builder) -> None:
    field_id = 0
    while True:
        start = reader.position
        header = reader.read_field(field_id)
        builder.literal(buffer[start : reader.position])
        if header is None:
            return
        field_id, kind = header
        if (*path, field_id) in PRESENCE_ONLY:
            builder.presence((*path, field_id))
        if kind not in (TRUE, FALSE):
            _compile_value(reader, buffer, kind, (*path, field_id), builder)


def _compile_value(reader: CompactReader, buffer: bytes, kind: int, path: tuple[int, ...], builder: _Builder) -> None:
    start = reader.position
    if len(path) > MAX_DEPTH:
        raise FormatError(f"the column chunk nests deeper than {MAX_DEPTH} levels at byte {start} of the footer")
    if kind == STRUCT:
        _compile_struct(reader, buffer, path, builder)
    elif path == PATH_IN_SCHEMA:
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
            _compile_value(reader, buffer, element, (*path, 0), builder)
    else:
        value = reader.read_value(BYTE if kind in (TRUE, FALSE) else kind)
        if kind in INTEGERS:
            builder.number(path)
        elif kind == BINARY:
            builder.string(path, buffer[start : reader.position - len(value)], len(value))
        elif kind in FIXED_SIZES:
            builder.any_bytes(FIXED_SIZES[kind])
        else:  # a boolean in a list, or a map: other bytes need another template
            builder.literal(buffer[start : reader.position])


def _varint(raw: bytes) -> int:
    """The integer of `raw`, which a template matched as one varint. Most have up to three bytes."""
    size = len(raw)
    if size == 1:
        return raw[0]
    if size == 2:
        return raw[0] & 0x7F | raw[1] << 7
    if size == 3:
        return raw[0] & 0x7F | (raw[1] & 0x7F) << 7 | raw[2] << 14
    try:
        return read_varint(raw, 0)[0]
    except OverflowError:
        raise FormatError("an integer in a column chunk's metadata is longer than 64 bits") from None


def _zigzag(raw: bytes) -> int:
    number = _varint(raw)
    return (number >> 1) ^ -(number & 1)
