"""Templates of structs: read a struct that has the fields of an earlier one, without decoding it field by field.

The structs of one kind mostly have the same fields in the same order in all files of a writer; only the values differ.
The first one is decoded field by field and gives a *template*: its field headers, and between them the places of
values. In the compact protocol no value is the beginning of another one, so a struct that matches a template is read
exactly as decoding it field by field would. A template is a regular expression here, and a list of steps for
:mod:`bloomparquet.parquet.thrift.struct_arrays`, which reads many structs at once.

Source: Apache Thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Any, NamedTuple

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.thrift.reader import MAX_DEPTH, CompactReader
from bloomparquet.parquet.thrift.struct import BINARY, BYTE, FALSE, FIXED_SIZES, INTEGERS, LISTS, STRUCT, TRUE
from bloomparquet.storage.varint import read_varint

MAX_TEMPLATE_VALUES = 512
"""The limit on the values of a struct that gives a template. Real column chunks have fewer than 100."""
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"

Path = tuple[int, ...]
"""The ids of the fields that lead to a value."""


@dataclass(frozen=True)
class Wanted:
    """The values of a struct that are read: ``slots[path]`` is the position of a value in the result.

    A value of another Thrift type than ``kinds[path]`` is not read. `presence_only`: fields that are only tested for
    presence. `one_width`: the slots of strings that have the same length in all structs, if a template is made with
    ``one_width=True``. `names`: the list of names in which structs of one template may differ; None if there is none.
    """

    slots: Mapping[Path, int]
    kinds: Mapping[Path, int]
    presence_only: Collection[Path] = ()
    one_width: Collection[int] = ()
    names: Path | None = None


class Kind(Enum):
    """The kind of value that a step reads after its literal."""

    NUMBERS = auto()  # `size` integers
    BYTES = auto()  # `size` bytes
    STRING = auto()  # a length, and so many bytes
    NAMES = auto()  # the list of names
    NOTHING = auto()


class Step(NamedTuple):
    """A part of a template: the bytes of `literal`, then a value. Its position in the result is `slot`, if wanted."""

    literal: bytes
    kind: Kind
    size: int = 0
    slot: int | None = None


@dataclass(slots=True)
class Segment:
    """A part of a template: a pattern, and after it a byte string, the list of names or the struct's end."""

    match: Callable[..., re.Match[bytes] | None]
    slots: tuple[int, ...]  # of the groups of `match`
    has_string: bool = False  # a byte string follows; the last group is its length
    string_slot: int | None = None  # if the string is wanted
    has_names: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """The form of a struct. Compared by identity."""

    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    present: tuple[int, ...]  # the slots of fields that are only tested for presence

    def match(self, names: bytes, buffer: bytes, position: int, values: list[Any] | None = None) -> int | None:
        """The end of the struct at `position`; None if it has another form. `names` is its list of names.

        Puts the wanted values into `values`, which are garbage if the struct has another form. Integers are put there
        as their bytes, see :func:`zigzag`.
        """
        for segment in self.segments:
            match = segment.match(buffer, position)
            if match is None:
                return None
            position = match.end()
            if values is not None:
                for slot, raw in zip(segment.slots, match.groups(), strict=False):
                    values[slot] = raw
            if segment.has_string:
                start = position
                position += varint(match[match.re.groups])  # beyond the buffer, nothing matches the struct's end
                if values is not None and segment.string_slot is not None:
                    values[segment.string_slot] = buffer[start:position]
            elif segment.has_names:
                if not buffer.startswith(names, position):
                    return None
                position += len(names)
        return position


def compile_template(
    buffer: bytes, position: int, wanted: Wanted, *, one_width: bool = False, last_id: int = 0
) -> tuple[Template, bytes] | None:
    """The template of the struct at `position`, and its list of names.

    `last_id` is the id of the field before `position`. None if the template would be too long, or if the struct has
    several lists of names. Raises FormatError if the struct is damaged.
    """
    builder = _Builder(wanted, one_width)
    reader = CompactReader(buffer, position, most=MAX_TEMPLATE_VALUES)
    try:
        _compile_struct(reader, buffer, (), builder, last_id)
    except LimitError:
        return None
    return builder.finish()


@dataclass(slots=True)
class _Builder:
    """Builds a template."""

    wanted: Wanted
    one_width: bool
    segments: list[Segment] = field(default_factory=list)
    pattern: bytearray = field(default_factory=bytearray)
    slots: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pending: bytearray = field(default_factory=bytearray)  # the literal of the next step
    present: list[int] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)

    def literal(self, data: bytes) -> None:
        self._add(re.escape(data), None)
        self.pending += data

    def number(self, path: Path, kind: int) -> None:
        slot = self._slot(path, kind)
        self._add(_VARINT, slot)
        self._step(Kind.NUMBERS, 1, slot)

    def numbers(self, size: int) -> None:
        self._add(b"(?:%b){%d}" % (_VARINT, size), None)
        if size:
            self._step(Kind.NUMBERS, size)

    def any_bytes(self, size: int) -> None:
        self._add(b".{%d}" % size, None)
        self._step(Kind.BYTES, size)

    def string(self, path: Path, length: bytes, size: int) -> None:
        """A byte string of `size` bytes; `length` is its encoded length."""
        slot = self._slot(path, BINARY)
        if self.one_width and slot in self.wanted.one_width:
            self.literal(length)
            self._add(b".{%d}" % size, slot)
            self._step(Kind.BYTES, size, slot)
        else:
            self.pattern += b"(" + _VARINT + b")"
            self._step(Kind.STRING, slot=slot)
            self._close(has_string=True, string_slot=slot)

    def _slot(self, path: Path, kind: int) -> int | None:
        return self.wanted.slots.get(path) if self.wanted.kinds.get(path) == kind else None

    def presence(self, path: Path) -> None:
        """A field that is only tested for presence."""
        self.slots.append(self.wanted.slots[path])
        self.present.append(self.wanted.slots[path])
        self.pattern += b"()"

    def list_of_names(self, names: bytes) -> None:
        """The list of names, which no pattern contains, so that columns share their patterns."""
        self.names.append(names)
        self._step(Kind.NAMES)
        self._close(has_names=True)

    def finish(self) -> tuple[Template, bytes] | None:
        self._step(Kind.NOTHING)
        self._close()
        if len(self.names) > 1:
            return None
        return Template(tuple(self.segments), tuple(self.steps), tuple(self.present)), (self.names or [b""])[0]

    def _add(self, pattern: bytes, slot: int | None) -> None:
        if slot is not None:
            self.slots.append(slot)
            pattern = b"(" + pattern + b")"
        self.pattern += pattern

    def _step(self, kind: Kind, size: int = 0, slot: int | None = None) -> None:
        self.steps.append(Step(bytes(self.pending), kind, size, slot))
        self.pending.clear()

    def _close(self, *, has_string: bool = False, string_slot: int | None = None, has_names: bool = False) -> None:
        match = _compile(bytes(self.pattern))
        self.segments.append(Segment(match, tuple(self.slots), has_string, string_slot, has_names))
        self.pattern.clear()
        self.slots.clear()


@lru_cache(maxsize=4096)
def _compile(pattern: bytes) -> Callable[..., re.Match[bytes] | None]:
    return re.compile(pattern, re.DOTALL).match


def _compile_struct(reader: CompactReader, buffer: bytes, path: Path, builder: _Builder, last_id: int = 0) -> None:
    start = reader.position
    for field_id, kind in reader.fields(last_id):
        builder.literal(buffer[start : reader.position])
        if (*path, field_id) in builder.wanted.presence_only:
            builder.presence((*path, field_id))
        if kind not in (TRUE, FALSE):
            _compile_value(reader, buffer, kind, (*path, field_id), builder)
        start = reader.position
    builder.literal(buffer[start : reader.position])


def _compile_value(reader: CompactReader, buffer: bytes, kind: int, path: Path, builder: _Builder) -> None:
    start = reader.position
    if len(path) > MAX_DEPTH:
        raise FormatError(f"a struct nests deeper than {MAX_DEPTH} levels at byte {start} of the footer")
    if kind == STRUCT:
        _compile_struct(reader, buffer, path, builder)
    elif path == builder.wanted.names:
        reader.read_value(kind)
        builder.list_of_names(buffer[start : reader.position])
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
            builder.number(path, kind)
        elif kind == BINARY:
            builder.string(path, buffer[start : reader.position - len(value)], len(value))
        elif kind in FIXED_SIZES:
            builder.any_bytes(FIXED_SIZES[kind])
        else:  # a boolean in a list, or a map: other bytes need another template
            builder.literal(buffer[start : reader.position])


def varint(raw: bytes) -> int:
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


def zigzag(raw: bytes) -> int:
    """The signed integer whose bytes are `raw`."""
    number = varint(raw)
    return (number >> 1) ^ -(number & 1)
