"""A footer as a tree that can be changed and written again, with nothing lost.

:mod:`bloomparquet.parquet.thrift.reader` reads what it is asked about and forgets the types; here every field keeps
the type
that it was written with, whether this project has heard of it or not, so that :func:`write_tree` gives back a struct
that every reader reads as it read the old one. Doubles stay the eight bytes that they were, NaN payloads included.
Written is the canonical form of the compact protocol (fields in ascending order, shortest integers), which is what
Thrift's own libraries write.

Source: Apache Thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from bloomparquet.errors import FormatError
from bloomparquet.parquet.thrift import reader as thrift
from bloomparquet.parquet.thrift.reader import CompactReader


class Tree(dict[int, Any]):
    """A struct: field id → value, and in `kinds` field id → type. A boolean is a value of type TRUE."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[int, int] = {}

    def put(self, field_id: int, kind: int, value: Any) -> None:
        """Set a field, with its type."""
        self[field_id] = value
        self.kinds[field_id] = kind

    def drop(self, field_id: int) -> None:
        """Remove a field, if it is there."""
        self.pop(field_id, None)
        self.kinds.pop(field_id, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.kinds == other.kinds and super().__eq__(other)

    def __ne__(self, other: object) -> bool:  # that of dict knows nothing of types
        return not self == other

    __hash__ = None


class Items(list[Any]):
    """A list or a set (`container`), and the type of its elements."""

    __slots__ = ("container", "kind")

    def __init__(self, container: int, kind: int, values: list[Any]) -> None:
        super().__init__(values)
        self.container, self.kind = container, kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and self.kind == other.kind and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


class Pairs(NamedTuple):
    """A map: the types of its keys and values (0 where it is empty), and the pairs in their order."""

    key_kind: int
    value_kind: int
    pairs: list[tuple[Any, Any]]


def read_tree(data: bytes | memoryview, position: int = 0) -> tuple[Tree, int]:
    """The struct at `position` of `data`, and where it ends.

    FormatError for damaged bytes and for a field that occurs twice, LimitError for deep nesting. The number of values
    is not limited: this is for what has been parsed before, or is about to be written again.
    """
    reader = _TreeReader(data, position, most=sys.maxsize)
    return reader.read_struct(), reader.position


def write_tree(tree: Tree) -> bytes:
    """The bytes of a struct. ``read_tree(write_tree(tree))`` equals `tree`."""
    out = bytearray()
    _write_struct(out, tree)
    return bytes(out)


class _TreeReader(CompactReader):
    __slots__ = ()

    def read_struct(self, *, stop_after: int | None = None, depth: int = 0) -> Tree:
        if depth > thrift.MAX_DEPTH:
            self._too_deep()
        tree = Tree()
        field_id = 0
        while (found := self.read_field(field_id)) is not None:
            field_id, kind = found
            if field_id in tree:
                self._fail(f"field {field_id} occurs twice in a struct")
            value = self.read_value(kind, depth=depth)
            tree.put(field_id, thrift.TRUE if kind == thrift.FALSE else kind, value)
        return tree

    def read_value(self, kind: int, *, depth: int = 0) -> Any:
        if kind == thrift.DOUBLE:
            return self._bytes(8)
        if kind not in thrift.LISTS:
            return super().read_value(kind, depth=depth)
        size, element = self.read_list_header()
        if depth >= thrift.MAX_DEPTH:
            self._too_deep()
        if element in (thrift.TRUE, thrift.FALSE):
            return Items(kind, element, [self._byte() for _ in range(size)])  # 0 and 2 both are false
        return Items(kind, element, [self.read_value(element, depth=depth + 1) for _ in range(size)])

    def _value(self, kind: int, depth: int) -> Any:
        return (
            self.read_value(kind, depth=depth)
            if kind in (*thrift.LISTS, thrift.DOUBLE)
            else super()._value(kind, depth)
        )

    def _map(self, depth: int) -> Pairs:
        size = self._size()
        if size == 0:
            return Pairs(0, 0, [])
        kinds = self._byte()
        if depth >= thrift.MAX_DEPTH:
            self._too_deep()
        key, value = kinds >> 4, kinds & 0x0F
        return Pairs(key, value, [(self._item(key, depth), self._item(value, depth)) for _ in range(size)])

    def _item(self, kind: int, depth: int) -> Any:
        return self._byte() if kind in (thrift.TRUE, thrift.FALSE) else self._value(kind, depth + 1)


def _write_struct(out: bytearray, tree: Tree) -> None:
    last = 0
    for field_id in sorted(tree):
        kind, value = tree.kinds[field_id], tree[field_id]
        if kind == thrift.TRUE:
            kind = thrift.TRUE if value else thrift.FALSE
        delta = field_id - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, field_id)
        if kind not in (thrift.TRUE, thrift.FALSE):
            _write_value(out, kind, value)
        last = field_id
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in thrift.INTEGERS:
        _write_zigzag(out, value)
    elif kind == thrift.BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == thrift.STRUCT:
        _write_struct(out, value)
    elif kind in thrift.LISTS:
        if len(value) < 15:
            out.append(len(value) << 4 | value.kind)
        else:
            out.append(0xF0 | value.kind)
            _write_varint(out, len(value))
        for item in value:
            _write_item(out, value.kind, item)
    elif kind == thrift.MAP:
        _write_varint(out, len(value.pairs))
        if value.pairs:
            out.append(value.key_kind << 4 | value.value_kind)
        for pair_key, pair_value in value.pairs:
            _write_item(out, value.key_kind, pair_key)
            _write_item(out, value.value_kind, pair_value)
    elif kind == thrift.BYTE:
        out.append(value & 0xFF)
    elif kind in (thrift.DOUBLE, thrift.UUID):
        out += value
    else:
        raise FormatError(f"unknown Thrift type {kind}")


def _write_item(out: bytearray, kind: int, item: Any) -> None:
    if kind in (thrift.TRUE, thrift.FALSE):
        out.append(item)
    else:
        _write_value(out, kind, item)


def _write_zigzag(out: bytearray, number: int) -> None:
    _write_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _write_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
