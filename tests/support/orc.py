"""ORC files for tests: the contents of real files by row group, and forged files with any index streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from bloomparquet.errors import unless_error
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import Hashes, OrcBloomFilter, bit_positions, hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.compression import Compression
from bloomparquet.orc.file_tail import MAX_SECTION, Tail, read_tails
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.statistics import Statistics
from bloomparquet.orc.stripe_indexes import StripeId, StripeIndexes, read_filters, read_statistics, read_stripe_footers
from bloomparquet.orc.writer_quirks import decimal_text, timestamp_millis
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.open import open_storage

BYTES = (Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.BINARY, Kind.DECIMAL)
FLOATS = (Kind.FLOAT, Kind.DOUBLE)
TIMESTAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)


def list_files(path: Path | str) -> tuple[Storage, list[FileInfo]]:
    storage, inner = open_storage(str(path))
    return storage, storage.list_files(inner, recursive=True)


def tail_of(path: Path | str) -> Tail:
    storage, files = list_files(path)
    tail: Tail = unless_error(read_tails(storage, files, ReadCount())[0])
    return tail


@dataclass
class OrcFile:
    """A file with its tail and the indexes of its stripes."""

    path: str
    storage: Storage
    tail: Tail
    stripes: list[StripeIndexes]

    @classmethod
    def open(cls, path: Path | str) -> OrcFile:
        storage, files = list_files(path)
        (tail,) = map(unless_error, read_tails(storage, files, ReadCount()))
        ids = [StripeId(0, stripe) for stripe in range(len(tail.stripes))]
        stripes = map(unless_error, read_stripe_footers(storage, [tail], ids, ReadCount()))
        return cls(str(path), storage, tail, list(stripes))

    def column(self, name: str) -> int:
        return columns_by_path(self.tail.types)[tuple(name.split("."))]

    def filters(self, name: str, stripe: int = 0) -> tuple[OrcBloomFilter, ...] | None:
        wanted = [(self.stripes[stripe], self.column(name))]
        filters: tuple[OrcBloomFilter, ...] | None = unless_error(read_filters(self.storage, wanted, ReadCount())[0])
        return filters

    def statistics(self, name: str) -> tuple[Statistics | None, ...]:
        wanted = [(self.stripes[0], self.column(name))]
        statistics: tuple[Statistics | None, ...] = unless_error(read_statistics(self.storage, wanted, ReadCount())[0])
        return statistics

    def row_groups(self, name: str, stripe: int) -> list[list[Any]]:
        """The values of a column that are not null, by row group, in the form that is hashed: numbers and bytes;
        timestamps in nanoseconds."""
        kind = self.tail.types[self.column(name)].kind
        values = plain_values(orc.ORCFile(self.path).read_stripe(stripe, columns=[name]).column(0), kind)
        stride = self.tail.row_index_stride
        parts = [values[at : at + stride] for at in range(0, len(values), stride)]
        return [[value for value in part if value is not None] for part in parts]


def columns_by_path(types: Sequence[OrcType]) -> dict[tuple[str, ...], int]:
    """The number of every column below the root that is in structs only, structs included."""
    columns: dict[tuple[str, ...], int] = {}
    pending: list[tuple[tuple[str, ...], int]] = [((), 0)]
    while pending:
        path, column = pending.pop()
        if types[column].kind == Kind.STRUCT:
            children = {(*path, name): i for name, i in zip(types[column].names, types[column].children, strict=True)}
            columns |= children
            pending += children.items()
    return columns


def plain_values(column: pa.Array, kind: int) -> list[Any]:
    if kind in TIMESTAMPS:
        return list(column.cast(pa.timestamp("ns")).cast(pa.int64()).to_pylist())
    if kind == Kind.DATE:
        return list(column.cast(pa.int32()).to_pylist())
    if kind == Kind.DECIMAL:
        return [None if value is None else decimal_text(value) for value in column.to_pylist()]
    return [value.encode() if isinstance(value, str) else value for value in column.to_pylist()]


def possible_hashes(value: Any, kind: int) -> Hashes:
    """Every hash that a filter may hold for a value."""
    if kind in BYTES:
        return hash_bytes([value])
    if kind in FLOATS:
        return hash_doubles(np.array([value]))
    return hash_longs(np.array(timestamp_millis(value, value) if kind in TIMESTAMPS else [value], np.int64))


def count_held(file: OrcFile, name: str) -> tuple[int, int, int, int]:
    """The number of values that the filter of their row group holds, and of all; the same for values of other row
    groups."""
    kind = file.tail.types[file.column(name)].kind
    held = written = taken = absent = 0
    for stripe in range(len(file.stripes)):
        filters = file.filters(name, stripe)
        assert filters is not None
        groups = file.row_groups(name, stripe)
        every = {value for group in groups for value in group}
        for group, each in zip(groups, filters, strict=True):
            held += sum(bool(each.check(possible_hashes(value, kind)).any()) for value in group)
            written += len(group)
            others = every - set(group)
            taken += sum(bool(each.check(possible_hashes(value, kind)).any()) for value in others)
            absent += len(others)
    return held, written, taken, absent


def footer_message(data: bytes, compression: Compression) -> Any:
    """The Footer message of the ORC file that `data` is."""
    end = len(data) - 1 - data[-1]
    size = messages.PostScript.FromString(data[end:-1]).footer_length
    return messages.Footer.FromString(compression.decompress(data[end - size : end], MAX_SECTION))


def filter_of(hashes: Hashes, *, k: int = 30, words: int = 1024) -> OrcBloomFilter:
    """A filter of so many 64-bit `words` that holds `hashes`."""
    positions = bit_positions(hashes, k, words * 64).reshape(-1)
    bits = np.zeros(words, np.uint64)
    np.bitwise_or.at(bits, positions >> 6, np.uint64(1) << (positions & 63).astype(np.uint64))
    return OrcBloomFilter(k, bits)


def bloom_message(bloom: OrcBloomFilter, *, utf8: bool = True) -> Any:
    """The BloomFilter message of a stream BLOOM_FILTER_UTF8 if `utf8`, else BLOOM_FILTER."""
    if utf8:
        return messages.BloomFilter(num_hash_functions=bloom.k, utf8bitset=bloom.words.astype("<u8").tobytes())
    return messages.BloomFilter(num_hash_functions=bloom.k, bitset=bloom.words.tolist())


def forge(
    path: Path,
    streams: Mapping[tuple[int, int], bytes],
    *,
    kinds: Sequence[int] = (Kind.LONG,),
    rows: int = 10,
    stride: int = 10,
    stripe_footer: Callable[[Any], None] = lambda _: None,
    footer: Callable[[Any], None] = lambda _: None,
    postscript: Callable[[Any], None] = lambda _: None,
    statistics: bytes = b"",
    zone: str | None = None,
) -> Path:
    """An uncompressed file with one stripe without data and these index streams, by kind and column. The callables
    change the messages before they are written. `statistics` is the Metadata message, `zone` the writer's time zone."""
    body = b"ORC" + b"".join(streams.values())
    at_end = messages.StripeFooter(writer_timezone=zone and zone.encode())
    for (kind, column), data in streams.items():
        at_end.streams.add(kind=kind, column=column, length=len(data))
    for _ in range(len(kinds) + 1):
        at_end.columns.add(bloom_encoding=1)
    stripe_footer(at_end)
    stripe_end = at_end.SerializeToString()
    tail = messages.Footer(number_of_rows=rows, row_index_stride=stride, writer=0, software_version=b"2.3.0")
    tail.stripes.add(offset=3, index_length=len(body) - 3, footer_length=len(stripe_end), number_of_rows=rows)
    names = [f"c{i}".encode() for i in range(len(kinds))]
    tail.types.add(kind=Kind.STRUCT, subtypes=range(1, len(kinds) + 1), field_names=names)
    for kind in kinds:
        tail.types.add(kind=kind)
    footer(tail)
    data = tail.SerializeToString()
    last = messages.PostScript(
        footer_length=len(data), metadata_length=len(statistics), version=[0, 12], writer_version=9, magic=b"ORC"
    )
    postscript(last)
    end = last.SerializeToString()
    path.write_bytes(body + stripe_end + statistics + data + end + bytes([len(end)]))
    return path
