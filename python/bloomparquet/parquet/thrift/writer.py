"""Writes structs in the canonical form of the compact protocol: ascending field ids, shortest integers.

Thrift's own libraries write this form. Source: Apache Thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from __future__ import annotations

from typing import Any

from bloomparquet.errors import FormatError
from bloomparquet.parquet.thrift.struct import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    INTEGERS,
    LISTS,
    MAP,
    STRUCT,
    TRUE,
    UUID,
    ThriftStruct,
)


def write_struct(struct: ThriftStruct) -> bytes:
    """The bytes of a struct. Reading them gives an equal struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _write_struct(out: bytearray, struct: ThriftStruct) -> None:
    last = 0
    for field_id in sorted(struct):
        kind, value = struct.kinds[field_id], struct[field_id]
        if kind == TRUE:
            kind = TRUE if value else FALSE
        delta = field_id - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, field_id)
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
        last = field_id
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in INTEGERS:
        _write_zigzag(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in LISTS:
        if len(value) < 15:
            out.append(len(value) << 4 | value.kind)
        else:
            out.append(0xF0 | value.kind)
            _write_varint(out, len(value))
        for item in value:
            _write_item(out, value.kind, item)
    elif kind == MAP:
        _write_varint(out, len(value.pairs))
        if value.pairs:
            out.append(value.key_kind << 4 | value.value_kind)
        for pair_key, pair_value in value.pairs:
            _write_item(out, value.key_kind, pair_key)
            _write_item(out, value.value_kind, pair_value)
    elif kind == BYTE:
        out.append(value & 0xFF)
    elif kind in (DOUBLE, UUID):
        out += value
    else:
        raise FormatError(f"unknown Thrift type {kind}")


def _write_item(out: bytearray, kind: int, item: Any) -> None:
    if kind in (TRUE, FALSE):
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


def varint(number: int) -> bytes:
    """The bytes of an unsigned integer."""
    out = bytearray()
    _write_varint(out, number)
    return bytes(out)
