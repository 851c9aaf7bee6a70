"""An independent check of filters: the XXH64 of every stored value, by pyarrow, `struct` and `xxhash`; and which of
them a filter lacks, by the description of the format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from tests.support.core import BLOOM_LENGTH, BLOOM_OFFSET, Field, decode, encode, read_footer

_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_JULIAN_EPOCH = 2_440_588
_NANOS_PER_DAY = 86_400 * 10**9
_WIDE = Context(prec=100)


def leaf_arrays(array: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """The leaf arrays in schema order, without nulls and without elements of null lists."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from leaf_arrays(child)
    elif pa.types.is_map(array.type):
        array = array.drop_null()
        start, stop = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        for child in (array.keys, array.items):
            yield from leaf_arrays(child.slice(start, stop - start))
    elif pa.types.is_nested(array.type):
        yield from leaf_arrays(array.drop_null().flatten())
    else:
        yield array.drop_null()


def plain(array: pa.Array, physical: str, length: int) -> list[bytes]:
    """The PLAIN encoding of each value, which is hashed."""
    kind = array.type
    if pa.types.is_float16(kind) or pa.types.is_floating(kind):
        data, width = array.to_numpy(zero_copy_only=False).tobytes(), kind.bit_width // 8
        return [data[i : i + width] for i in range(0, len(data), width)]
    if physical == "INT96":
        encoded = []
        nanos_per_tick = {"us": 1_000, "ns": 1}[kind.unit]
        for ticks in array.cast(pa.int64()).to_pylist():
            days, rest = divmod(ticks * nanos_per_tick, _NANOS_PER_DAY)
            encoded.append(struct.pack("<qi", rest, days + _JULIAN_EPOCH))
        return encoded
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values = array.to_pylist()
    if pa.types.is_decimal(kind):
        values = [int(value.scaleb(kind.scale, _WIDE)) for value in values]
        if physical == "FIXED_LEN_BYTE_ARRAY":
            return [value.to_bytes(length, "big", signed=True) for value in values]
    if physical in ("INT32", "INT64"):
        width = 4 if physical == "INT32" else 8
        return [(value & ((1 << 8 * width) - 1)).to_bytes(width, "little") for value in values]
    return [value.encode() if isinstance(value, str) else bytes(value) for value in values]


def hashes_by_chunk(path: str, int96: str = "ns") -> dict[tuple[int, int], set[int]]:
    """The hashes of the values that pyarrow reads, by row group and leaf. `int96` is the unit of INT96 timestamps."""
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit=int96)
    hashes: dict[tuple[int, int], set[int]] = {}
    for row_group in range(file.metadata.num_row_groups):
        table = file.read_row_group(row_group)
        leaves = [leaf for column in table.columns for leaf in leaf_arrays(column)]
        assert len(leaves) == len(file.schema)
        for i, leaf in enumerate(leaves):
            column = file.schema.column(i)
            if column.physical_type != "BOOLEAN":
                values = plain(leaf, column.physical_type, column.length)
                hashes[row_group, i] = {xxhash.xxh64_intdigest(value) for value in values}
    return hashes


def lacking(bitset: bytes, hashes: set[int]) -> set[int]:
    """The `hashes` that a bitset does not hold."""
    words = struct.unpack(f"<{len(bitset) // 4}I", bitset)
    blocks = len(bitset) // 32
    return {
        one
        for one in hashes
        if not all(
            words[8 * (((one >> 32) * blocks) >> 32) + i] >> (((one * salt) & 0xFFFFFFFF) >> 27) & 1
            for i, salt in enumerate(_SALTS)
        )
    }


def bitsets(path: str) -> dict[tuple[int, int], bytes]:
    """The bitset of each filter, by row group and leaf."""
    data = Path(path).read_bytes()
    by_chunk = {}
    for i, group in enumerate(decode(read_footer(path))[4].value.values):
        for j, chunk in enumerate(group[1].value.values):
            metadata: dict[int, Field] = chunk[3].value
            if BLOOM_OFFSET not in metadata:
                continue
            at = metadata[BLOOM_OFFSET].value
            header = decode(data[at : at + 64])
            size = header[1].value
            start = at + len(encode(header))
            assert [header[k].value for k in (2, 3, 4)] == [{1: Field(12, {})}] * 3
            by_chunk[i, j] = data[start : start + size]
            assert metadata.get(BLOOM_LENGTH, Field(5, start + size - at)).value == start + size - at
    return by_chunk


def assert_filters_hold_all(
    path: str, columns: set[int] | None = None, *, int96: str = "ns"
) -> dict[tuple[int, int], bytes]:
    """Check that every filter holds all values of its chunk, and that chunks of `columns` with values have filters."""
    filters, hashes = bitsets(path), hashes_by_chunk(path, int96)
    for chunk, bitset in filters.items():
        assert not lacking(bitset, hashes[chunk]), f"{path}: the filter of {chunk} lacks stored values"
    for chunk, values in hashes.items():
        if columns is not None and chunk[1] in columns and values:
            assert chunk in filters, f"{path}: {chunk} has values and no filter"
    return filters
