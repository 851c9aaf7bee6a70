"""Reads Thrift's compact protocol into :class:`ThriftStruct`, with or without a definition.

Thrift's own library is not used: it needs generated classes, drops the fields that they do not name, and allocates
whatever a length in the input claims. Here every length is checked against the bytes that are left, and nesting and the
number of values are bounded.

Source: Apache Thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.thrift.struct import (
    BINARY,
    BYTE,
    FALSE,
    FIXED_SIZES,
    INTEGERS,
    LISTS,
    MAP,
    STRUCT,
    TRUE,
    ThriftList,
    ThriftMap,
    ThriftStruct,
)
from bloomparquet.storage.varint import read_varint

MAX_DEPTH = 64
"""Deeper nesting than any Parquet structure has; bounds the recursion on hostile input."""

MAX_VALUES = 1 << 18
"""The default limit on the values that one reader decodes: fields and elements of lists and maps together. A hostile
file spends one byte for a value, and decoding it takes a thousand times the memory."""

S = TypeVar("S", bound=ThriftStruct)


def read_struct(data: bytes | memoryview, definition: type[S], position: int = 0) -> tuple[S, int]:
    """The struct at `position` of `data`, and where it ends.

    Raises FormatError for damaged bytes and LimitError for deep nesting. The number of values is not limited: call this
    for bytes that were parsed before, or that are about to be written again.
    """
    reader = CompactReader(data, position, most=sys.maxsize)
    return reader.read_struct(definition), reader.position


class CompactReader:
    """Reads compact-protocol values from `buffer`, starting at `position`.

    Every read moves `position` after the value. Raises FormatError if the bytes end early or hold an unknown type, and
    LimitError if they nest deeper than :data:`MAX_DEPTH` or hold more than `most` values.
    """

    __slots__ = ("_buffer", "_end", "_left", "_most", "position")

    def __init__(self, buffer: bytes | memoryview, position: int = 0, *, most: int = MAX_VALUES) -> None:
        self._buffer = buffer
        self._end = len(buffer)
        self._left = self._most = most
        self.position = position

    def read_struct(self, definition: type[S], *, last_id: int = 0, stop_after: int | None = None, depth: int = 0) -> S:
        """The struct at `position`. With `stop_after`, only up to and including that field id; `position` is then right
        after that field. `last_id` is that of the field before `position`. FormatError if a field occurs twice."""
        if depth > MAX_DEPTH:
            self._too_deep()
        values = definition.__new__(definition)
        kinds: dict[int, int] = {}
        values.kinds = kinds
        buffer, position, field_id = self._buffer, self.position, last_id
        try:
            # The most frequent fields are read here, without a call: this is what reading a footer or a page costs.
            while header := buffer[position]:
                position += 1
                kind = header & 0x0F
                if header > 0x0F:
                    field_id += header >> 4
                else:
                    raw, position = read_varint(buffer, position)
                    field_id = (raw >> 1) ^ -(raw & 1)
                self._left -= 1
                if self._left < 0 or field_id in kinds:
                    self.position = position
                    self._too_many() if self._left < 0 else self._fail(f"field {field_id} occurs twice in a struct")
                if kind in INTEGERS:
                    raw = buffer[position]
                    position += 1
                    if raw >= 0x80:
                        raw, position = read_varint(buffer, position - 1)
                    values[field_id] = (raw >> 1) ^ -(raw & 1)
                elif kind in (TRUE, FALSE):
                    values[field_id], kind = kind == TRUE, TRUE
                else:
                    self.position = position
                    values[field_id] = self._value(kind, definition.nested.get(field_id, ThriftStruct), depth)
                    position = self.position
                kinds[field_id] = kind
                if field_id == stop_after:
                    self.position = position
                    return values
        except IndexError:
            self.position = position
            self._fail("the bytes end inside a struct")
        except OverflowError:
            self.position = position
            self._fail("an integer is longer than 64 bits")
        self.position = position + 1
        return values

    def fields(self, last_id: int = 0) -> Iterator[tuple[int, int]]:
        """The id and the type of each field of a struct; its value is to be read before the next one is asked for.
        `last_id` is the id of the field before `position`. FormatError if a field occurs twice: readers differ in which
        one they believe."""
        seen = {last_id} if last_id else set()
        while header := self._byte():
            self.count(1)
            last_id = last_id + (header >> 4) if header > 0x0F else self._zigzag()
            if last_id in seen:
                self._fail(f"field {last_id} occurs twice in a struct")
            seen.add(last_id)
            yield last_id, header & 0x0F

    def read_value(self, kind: int) -> Any:
        """The value of a field whose type :meth:`fields` gave."""
        return kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, ThriftStruct, 0)

    def read_list_header(self) -> tuple[int, int]:
        """The number and the type of a list's elements. FormatError for more elements than bytes are left."""
        header = self._byte()
        size, kind = header >> 4, header & 0x0F
        if size == 15:
            size = self._varint()
        if size > self._end - self.position:  # each element takes a byte at least
            self._fail(f"a list claims {size} elements, but {self._end - self.position} bytes are left")
        return size, kind

    def count(self, values: int) -> None:
        """Count `values` values as decoded. LimitError if that makes more than `most`."""
        self._left -= values
        if self._left < 0:
            self._too_many()

    def _value(self, kind: int, definition: type[ThriftStruct], depth: int) -> Any:
        if kind in INTEGERS:
            return self._zigzag()
        if kind == BINARY:
            return self._bytes(self._size())
        if kind == STRUCT:
            return self.read_struct(definition, depth=depth + 1)
        if kind in LISTS:
            return self._list(kind, definition, depth)
        if kind == MAP:
            return self._map(depth)
        if kind in (TRUE, FALSE):
            return self._byte()  # a boolean in a container has a byte of its own; writers differ in false: 0 or 2
        if kind == BYTE:
            return int.from_bytes(self._bytes(1), "little", signed=True)
        if kind in FIXED_SIZES:
            return self._bytes(FIXED_SIZES[kind])
        return self._fail(f"unknown Thrift type {kind}")

    def _list(self, container: int, definition: type[ThriftStruct], depth: int) -> ThriftList[Any]:
        size, kind = self.read_list_header()
        if depth >= MAX_DEPTH:
            self._too_deep()
        self.count(size)
        return ThriftList(container, kind, [self._value(kind, definition, depth + 1) for _ in range(size)])

    def _map(self, depth: int) -> ThriftMap:
        size = self._size()
        if size == 0:
            return ThriftMap(0, 0, [])
        kinds = self._byte()
        if depth >= MAX_DEPTH:
            self._too_deep()
        self.count(2 * size)
        key, value = kinds >> 4, kinds & 0x0F
        pairs = [
            (self._value(key, ThriftStruct, depth + 1), self._value(value, ThriftStruct, depth + 1))
            for _ in range(size)
        ]
        return ThriftMap(key, value, pairs)

    def _size(self) -> int:
        size = self._varint()
        if size > self._end - self.position:
            self._fail(f"a length claims {size} bytes, but {self._end - self.position} are left")
        return size

    def _zigzag(self) -> int:
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)

    def _varint(self) -> int:
        try:
            value, self.position = read_varint(self._buffer, self.position)
        except IndexError:
            self._fail("the bytes end inside a struct")
        except OverflowError:
            self._fail("an integer is longer than 64 bits")
        return value

    def _byte(self) -> int:
        if self.position >= self._end:
            self._fail("the bytes end inside a struct")
        byte = self._buffer[self.position]
        self.position += 1
        return byte

    def _bytes(self, size: int) -> bytes:
        if size > self._end - self.position:
            self._fail(f"{size} bytes expected, {self._end - self.position} are left")
        start = self.position
        self.position += size
        return bytes(self._buffer[start : self.position])

    def _too_deep(self) -> NoReturn:
        raise LimitError(
            f"Thrift data nests deeper than {MAX_DEPTH} levels at byte {self.position}; it is not Parquet metadata"
        )

    def _too_many(self) -> NoReturn:
        raise LimitError(
            f"Thrift data has more than {self._most:,} values up to byte {self.position}; the file is damaged or "
            "malicious"
        )

    def _fail(self, what: str) -> NoReturn:
        raise FormatError(f"damaged Thrift data at byte {self.position}: {what}")
