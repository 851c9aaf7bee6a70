"""Files with changed footers and filters, kept row groups of plans, and recorded reads.

The Thrift decoder is the tests' own, so that it does not share the faults of the product's.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import bloomparquet as bp
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
BLOOM_OFFSET, BLOOM_LENGTH = 14, 15  # fields of ColumnMetaData


class Field(NamedTuple):
    """A value of Thrift's compact protocol, with its wire type."""

    kind: int
    value: Any


class Items(NamedTuple):
    kind: int
    values: list[Any]


def decode(data: bytes) -> dict[int, Field]:
    """A serialised struct as ``{field id: Field}``. It trusts its input."""
    return decode_first(data)[0]


def decode_first(data: bytes) -> tuple[dict[int, Field], int]:
    """The struct at the start of `data`, and its size."""
    decoder = _Decoder(data)
    return decoder.struct(), decoder.at


def encode(fields: dict[int, Field]) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    last = 0
    for number, (kind, value) in fields.items():
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        delta = number - last
        out += bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + varint(_to_zigzag(number))
        if kind not in (_TRUE, _FALSE):
            out += _encode_value(kind, value)
        last = number
    return bytes(out) + b"\0"


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Field]:
        fields: dict[int, Field] = {}
        number = 0
        while header := self.take(1)[0]:
            kind = header & 15
            number = number + (header >> 4) if header >> 4 else self.zigzag()
            fields[number] = Field(kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind))
        return fields

    def value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return self.take(1)[0] == _TRUE
        if kind == _BYTE:
            return self.take(1)[0]
        if kind in (_I16, _I32, _I64):
            return self.zigzag()
        if kind == _DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind == BINARY:
            return self.take(self.varint())
        if kind == _STRUCT:
            return self.struct()
        assert kind in (_LIST, _SET), kind
        header = self.take(1)[0]
        count = self.varint() if header >> 4 == 15 else header >> 4
        return Items(header & 15, [self.value(header & 15) for _ in range(count)])

    def varint(self) -> int:
        result = shift = 0
        while True:
            byte = self.take(1)[0]
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def zigzag(self) -> int:
        raw = self.varint()
        return (raw >> 1) ^ -(raw & 1)

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def _encode_value(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):
        return bytes([_TRUE if value else _FALSE])
    if kind == _BYTE:
        return bytes([value])
    if kind in (_I16, _I32, _I64):
        return varint(_to_zigzag(value))
    if kind == _DOUBLE:
        return struct.pack("<d", value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == _STRUCT:
        return encode(value)
    assert kind in (_LIST, _SET), kind
    head = bytes([len(value.values) << 4 | value.kind]) if len(value.values) < 15 else None
    head = head or bytes([0xF0 | value.kind]) + varint(len(value.values))
    return head + b"".join(_encode_value(value.kind, item) for item in value.values)


def _to_zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def read_footer(path: str) -> bytes:
    """The serialised FileMetaData of a file."""
    data = Path(path).read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    return data[-8 - size : -8]


def replace_footer(path: str, footer: bytes) -> str:
    """Replace the footer of a file."""
    data = Path(path).read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    Path(path).write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + data[-4:])
    return path


def edit_footer(path: str, edit: Callable[[dict[int, Field]], None]) -> str:
    """Let `edit` change the FileMetaData (2 schema, 4 row groups, 5 key values, 6 created_by, 7 column orders)."""
    metadata = decode(read_footer(path))
    edit(metadata)
    return replace_footer(path, encode(metadata))


def column_metadata(metadata: dict[int, Field], row_group: int = 0, column: int = 0) -> dict[int, Field]:
    """The ColumnMetaData of a column chunk, which may be changed in place."""
    chunk = metadata[4].value.values[row_group][1].value.values[column]
    return chunk[3].value  # type: ignore[no-any-return]


def set_filter_location(
    path: str, *, offset: int | None = None, length: int | None = None, row_group: int = 0, column: int = 0
) -> str:
    """Change the offset and the length of a filter in the footer. A negative `length` removes the length."""

    def edit(metadata: dict[int, Field]) -> None:
        chunk = column_metadata(metadata, row_group, column)
        if offset is not None:
            chunk[BLOOM_OFFSET] = Field(_I64, offset)
        if length is not None:
            chunk[BLOOM_LENGTH] = Field(_I32, length)
        if length is not None and length < 0:
            del chunk[BLOOM_LENGTH]

    return edit_footer(path, edit)


def empty_filters(path: str, column: int = 0) -> str:
    """Zero the bitset of every filter of a column in place, and keep the headers."""
    metadata = pq.read_metadata(path)
    with open(path, "r+b") as file:
        for i in range(metadata.num_row_groups):
            chunk = metadata.row_group(i).column(column)
            file.seek(chunk.bloom_filter_offset)
            header = _Decoder(file.read(64))
            header.struct()
            file.seek(chunk.bloom_filter_offset + header.at)
            file.write(bytes(chunk.bloom_filter_length - header.at))
    return path


def plan_with(path: Any, where: Any, **options: Any) -> bp.ScanPlan:
    """A plan with :class:`PlanOptions`, of which the public functions have only some."""
    dataset = path if isinstance(path, bp.Dataset) else bp.Dataset.open(path)
    return plan_dataset(dataset, where, PlanOptions(**options))


def kept(plan: bp.ScanPlan) -> set[tuple[str, int]]:
    """The kept row groups as (file name, index)."""
    return {(Path(group.path).name, group.index) for group in plan.row_groups if group.kept and group.index is not None}


def kept_indexes(plan: bp.ScanPlan) -> set[int]:
    """The indexes of the kept row groups of a plan over one file."""
    return {group.index for group in plan.row_groups if group.kept and group.index is not None}


def rows_of(table: pa.Table, column: str) -> list[Any]:
    return table.column(column).to_pylist()  # type: ignore[no-any-return]


@dataclass
class Reads:
    """Reads of local files as the operating system sees them: (path, offset, requested bytes)."""

    calls: list[tuple[str, int, int]] = field(default_factory=list)

    def of(self, path: str) -> list[tuple[int, int]]:
        return [(offset, size) for name, offset, size in self.calls if name == os.path.realpath(path)]

    def touching(self, path: str, start: int, end: int) -> list[tuple[int, int]]:
        """The reads of `path` that overlap the bytes from `start` to `end`."""
        return [(offset, size) for offset, size in self.of(path) if offset < end and offset + size > start]


def watch_reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Record every positioned read from now on."""
    reads = Reads()
    original = os.preadv

    def preadv(descriptor: int, buffers: Any, offset: int) -> int:
        path = os.path.realpath(f"/proc/self/fd/{descriptor}")
        reads.calls.append((path, offset, sum(len(buffer) for buffer in buffers)))
        return original(descriptor, buffers, offset)

    monkeypatch.setattr("bloomparquet.storage.files.os.preadv", preadv)
    return reads


def bloom_header(num_bytes: int) -> bytes:
    """A BloomFilterHeader of parquet.thrift."""
    union = Field(_STRUCT, {1: Field(_STRUCT, {})})
    return encode({1: Field(_I32, num_bytes), 2: union, 3: union, 4: union})


def graft_filters(path: str, num_bytes: int) -> str:
    """Give the first column, of INT64, filters of exactly `num_bytes` each, whatever size its values need."""
    data, footer = Path(path).read_bytes(), read_footer(path)
    body, metadata = data[: -8 - len(footer)], decode(footer)
    table = pq.ParquetFile(path)
    for i in range(table.num_row_groups):
        values = [value for value in table.read_row_group(i).column(0).to_pylist() if value is not None]
        digests = [xxhash.xxh64_intdigest(struct.pack("<q", value)) for value in values]
        bloom = bp.SplitBlockBloomFilter.empty(num_bytes // 32)
        bloom.insert(np.array(digests, np.uint64))
        chunk = column_metadata(metadata, i)
        chunk[BLOOM_OFFSET] = Field(_I64, len(body))
        chunk[BLOOM_LENGTH] = Field(_I32, len(bloom_header(num_bytes)) + num_bytes)
        body += bloom_header(num_bytes) + bloom.to_bytes()
    changed = encode(dict(sorted(metadata.items())))
    Path(path).write_bytes(body + changed + len(changed).to_bytes(4, "little") + b"PAR1")
    return path
