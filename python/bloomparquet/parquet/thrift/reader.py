"""Thrift's compact protocol, read into plain Python trees.

Owns the decoding of any compact-protocol struct without knowing its definition: a struct becomes ``{field id:
value}``, so fields that this project has never heard of are carried along instead of failing. Thrift's own library is
not used because it needs generated classes, drops what they do not name, and allocates whatever a length in the input
claims; here every length is checked against the bytes that are left, and nesting is bounded.

Source: Apache Thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.storage.varint import read_varint

Struct = dict[int, Any]
"""A decoded struct: field id → int, float, bool, bytes, list, dict (map) or Struct."""

MAX_DEPTH = 64
"""Deeper nesting than any Parquet structure has; bounds the recursion on hostile input."""

MAX_VALUES = 1 << 18
"""The most values that one reader decodes, fields and elements of lists and maps together, where nothing else is said.
Each of them costs a thousand times what its one byte costs the writer of a hostile file."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
INTEGERS = frozenset({I16, I32, I64})
LISTS = frozenset({LIST, SET})
FIXED_SIZES = {BYTE: 1, DOUBLE: 8, UUID: 16}
"""Types whose values take a fixed number of bytes."""
_DOUBLE_CODEC = struct.Struct("<d")


class CompactReader:
    """Reads compact-protocol values from `buffer`, starting at `position`.

    Every read moves `position` past what it consumed. Raises :class:`FormatError` when the bytes end early or hold an
    unknown type, and :class:`LimitError` when they nest deeper than :data:`MAX_DEPTH` or hold more than `most` values.
    """

    __slots__ = ("_buffer", "_end", "_left", "_most", "position")

    def __init__(self, buffer: bytes | memoryview, position: int = 0, *, most: int = MAX_VALUES) -> None:
        self._buffer = buffer
        self._end = len(buffer)
        self._left = self._most = most
        self.position = position

    def read_struct(self, *, stop_after: int | None = None, depth: int = 0) -> Struct:
        """The struct at `position`; with `stop_after`, only up to and including that field id (`position` is then right
        behind it)."""
        if depth > MAX_DEPTH:
            self._too_deep()
        fields: Struct = {}
        field_id = 0
        while True:
            found = self.read_field(field_id)
            if found is None:
                return fields
            field_id, kind = found
            fields[field_id] = self.read_value(kind, depth=depth)
            if field_id == stop_after:
                return fields

    def read_field(self, last_id: int) -> tuple[int, int] | None:
        """The id and the type of the next field of a struct, of which `last_id` (0 at first) was read last; None at the
        struct's end. What follows is the value, for :meth:`read_value`."""
        header = self._byte()
        if header == 0:
            return None
        self._left -= 1
        if self._left < 0:
            self._too_many()
        delta = header >> 4
        return last_id + delta if delta else self._zigzag(), header & 0x0F

    def read_value(self, kind: int, *, depth: int = 0) -> Any:
        """The value of a field whose type :meth:`read_field` gave; a boolean's is in its type."""
        return kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)

    def read_list_header(self) -> tuple[int, int]:
        """How many elements a list has, and their type. No list has more elements than bytes are left."""
        header = self._byte()
        size, kind = header >> 4, header & 0x0F
        if size == 15:
            size = self._varint()
        if size > self._end - self.position:  # each element takes a byte at least
            self._fail(f"a list claims {size} elements, but {self._end - self.position} bytes are left")
        return size, kind

    def count(self, values: int) -> None:
        """Note that so many values are about to be decoded. LimitError where there are too many."""
        self._left -= values
        if self._left < 0:
            self._too_many()

    def _value(self, kind: int, depth: int) -> Any:
        if kind in INTEGERS:
            return self._zigzag()
        if kind == BINARY:
            return self._bytes(self._size())
        if kind == STRUCT:
            return self.read_struct(depth=depth + 1)
        if kind in LISTS:
            return self._list(depth)
        if kind == MAP:
            return self._map(depth)
        if kind in (TRUE, FALSE):
            return self._byte() == TRUE  # inside containers a boolean takes a byte of its own
        if kind == BYTE:
            return int.from_bytes(self._bytes(1), "little", signed=True)
        if kind == DOUBLE:
            return _DOUBLE_CODEC.unpack(self._bytes(8))[0]
        if kind == UUID:
            return self._bytes(16)
        return self._fail(f"unknown Thrift type {kind}")

    def _list(self, depth: int) -> list[Any]:
        size, kind = self.read_list_header()
        if depth >= MAX_DEPTH:
            self._too_deep()
        self.count(size)
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> Any:
        size = self._size()
        if size == 0:
            return {}
        kinds = self._byte()
        if depth >= MAX_DEPTH:
            self._too_deep()
        self.count(2 * size)
        pairs = [(self._value(kinds >> 4, depth + 1), self._value(kinds & 0x0F, depth + 1)) for _ in range(size)]
        if any(isinstance(key, list | dict) for key, _ in pairs):
            self._fail("a map's keys are lists or structs")
        return dict(pairs)

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
            f"Thrift data nests deeper than {MAX_DEPTH} levels at byte {self.position}; this is no Parquet metadata"
        )

    def _too_many(self) -> NoReturn:
        raise LimitError(
            f"Thrift data has more than {self._most:,} values, up to byte {self.position}; so many are not read: no "
            "file has them unless it is damaged, or made to do harm"
        )

    def _fail(self, what: str) -> NoReturn:
        raise FormatError(f"damaged Thrift data at byte {self.position}: {what}")
