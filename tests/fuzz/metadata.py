"""Targets: Thrift structs, footers, Bloom filter headers and bitsets, encrypted modules.

Footers have an oracle: the readers that match templates, one chunk or many at a time, must agree with the one that
decodes field by field.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.bloom_filter.header import header_bytes, parse_header, parse_headers
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.file_crypto import decrypt_footer
from bloomparquet.parquet.encryption.keys import FileKeys, Keys
from bloomparquet.parquet.encryption.modules import Algorithm, Cipher, Module, module_aad
from bloomparquet.parquet.metadata import column_chunks, row_group_scan
from bloomparquet.parquet.metadata import footer as footers
from bloomparquet.parquet.metadata.chunk_fields import SLOTS, ChunkColumns, ChunkFields
from bloomparquet.parquet.metadata.footer import Footer, parse_alike, parse_footer
from bloomparquet.parquet.metadata.read_column import read_column, read_extents
from bloomparquet.parquet.pages.headers import walk_pages
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnCryptoMetaData,
    ColumnMetaData,
    Empty,
    EncryptionWithColumnKey,
    FileCryptoMetaData,
    FileMetaData,
    PageHeader,
    SchemaElement,
)
from bloomparquet.parquet.thrift.reader import CompactReader, read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.storage.files import LocalStorage
from tests.fuzz.mutate import change_bytes, change_some, change_thrift, in_parts, join, split
from tests.fuzz.target import Target

_DEFINITIONS = (ThriftStruct, FileMetaData, ColumnChunk, ColumnMetaData, SchemaElement, FileCryptoMetaData, PageHeader)
_KEY = b"0123456789abcdef"
_COPIES = 3
_HEADER = header_bytes(32)
_STORAGE = LocalStorage()
TABLE = pa.table(
    {
        "x": pa.array([1, None, 3, 4], pa.int64()),
        "s": ["a", "b", None, "dddd"],
        "l": [[1, 2], [], None, [4]],
        "n": [{"u": 1.5, "d": b"x"}, None, {"u": None, "d": b""}, {"u": float("nan"), "d": None}],
        "t": pa.array([0, 1, 2, None], pa.timestamp("us", "UTC")),
    }
)


def file_of(table: pa.Table, **options: object) -> bytes:
    """The bytes of a Parquet file that pyarrow wrote."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def footer_of(file: bytes) -> bytes:
    return file[-8 - int.from_bytes(file[-8:-4], "little") : -8]


@cache
def _files() -> list[bytes]:
    """Files of one or two columns: their footers have what wider ones repeat."""
    plain: dict[str, object] = {"store_schema": False}
    filters = {"ndv": 2, "fpp": 0.1}
    return [
        file_of(TABLE.select(["x"]), row_group_size=2, bloom_filter_options={"x": filters}, **plain),
        file_of(TABLE.select(["s"]), row_group_size=2, bloom_filter_options={"s": filters}, **plain),
        file_of(TABLE.select(["l", "n"]), **plain),
        file_of(TABLE.select(["s", "t"]), write_statistics=False, compression="zstd", use_dictionary=False, **plain),
        file_of(TABLE.select(["x", "s"]).slice(0, 0), **plain),
        file_of(pa.table({"x": [1, 2], "y": ["a", "b"]}), row_group_size=1, **plain),
        file_of(pa.table({"d": pa.array([1, 2], pa.decimal128(20, 3)), "b": [True, None]}), version="1.0"),
    ]


def _run_thrift(data: bytes) -> None:
    definition = _DEFINITIONS[data[0] % len(_DEFINITIONS)] if data else ThriftStruct
    raw = data[1:]
    with suppress(BloomParquetError):
        walk_pages(raw, 5)
    try:
        struct = CompactReader(raw).read_struct(definition)
    except BloomParquetError:
        return
    written = write_struct(struct)
    again, end = read_struct(written, ThriftStruct)
    assert again == struct
    assert end == len(written)
    with suppress(BloomParquetError):
        struct.check()


def _thrift_seeds() -> list[bytes]:
    """Pages, and the structs of footers: each with the number of its definition before it."""
    seeds = [bytes([_DEFINITIONS.index(PageHeader)]) + file[4:200] for file in _files() if len(file) > 200]
    for file in _files():
        metadata, _ = read_struct(footer_of(file), FileMetaData)
        chunks = [chunk for group in metadata.row_groups[:1] for chunk in group.columns[:2]]
        structs = [*metadata.schema[:3], *chunks, *(chunk.meta_data for chunk in chunks), metadata]
        metadata.schema, metadata.row_groups = metadata.schema[:2], []
        seeds += [bytes([_DEFINITIONS.index(type(struct))]) + write_struct(struct) for struct in structs]
    return seeds


def _run_footer(data: bytes) -> None:
    try:
        footer = parse_footer(data)
    except BloomParquetError:
        footer = None
    alike = parse_alike([data] * _COPIES)
    if footer is None or footer.crypto is not None:
        assert alike == [None] * _COPIES
        return
    for each in alike:
        assert each is None or _parts(each) == _parts(footer)
    groups = range(min(len(footer.rows), 4))
    if footer.profile.schema.leaves:
        _compare_chunks(footer, groups, len(data) % len(footer.profile.schema.leaves))
    extents = read_extents([footer] * _COPIES)[: len(groups)].tolist()
    for group, extent in zip(groups, extents, strict=True):
        with suppress(BloomParquetError):
            start, size = footer.extent(group)
            assert extent == [-1, -1] or (extent[1] == size and (extent[0] == start or start == -1))


def _compare_chunks(footer: Footer, groups: range, leaf: int) -> None:
    """Compare what is read of a column's chunks one at a time, and all at once."""
    chunks = [_read(footer, group, leaf) for group in groups]
    columns, is_read = read_column([footer], leaf)
    for group, fields in enumerate(chunks):
        if is_read[group]:
            assert fields is not None
            assert not fields.is_encrypted
            one = ChunkColumns.unknown(len(columns.values))
            with suppress(OverflowError):
                one.put(group, fields)
            _require_equal(one, columns, group)


def _parts(footer: Footer) -> tuple[object, ...]:
    return footer.rows, footer.sizes, footer.chunks.tolist(), footer.key_values, footer.profile, footer.raw


def _read(footer: Footer, group: int, leaf: int) -> ChunkFields | None:
    """The fields of a chunk, that both ways to read it agree on."""
    at = int(footer.chunks[group, leaf])
    values: list[object] = [None] * len(SLOTS)
    try:
        column_chunks._decode(footer.raw, at, values)
        decoded = ChunkFields(*values)  # type: ignore[arg-type]
    except BloomParquetError:
        decoded = None
    try:
        fields = footer.read_chunk(group, leaf)
    except BloomParquetError:
        assert decoded is None or decoded.is_encrypted
        return None
    # Only templates accept a field that occurs twice, outside of the fields that are read.
    assert decoded is None or decoded == fields, (decoded, fields)
    return fields


def _require_equal(one: ChunkColumns, many: ChunkColumns, at: int) -> None:
    for single, array in zip(one.numbers, many.numbers, strict=True):
        assert single[at] == array[at]
    assert (one.lower[at], one.upper[at], one.deprecated[at]) == (many.lower[at], many.upper[at], many.deprecated[at])


def _many_at_once(data: bytes) -> None:
    """`_run_footer`, with the readers of many chunks and footers used from two on."""
    with (
        patch.object(footers, "MANY", 2),
        patch.object(row_group_scan, "MANY", 2),
        patch.object(column_chunks, "MANY", 2),
        patch.object(column_chunks, "_MANY_TO_READ", 2),
    ):
        _run_footer(data)


def _run_bloom(data: bytes) -> None:
    heads = np.zeros((3, 64), np.uint8)
    heads[0, : len(data[:64])] = heads[2, : len(data[:64])] = np.frombuffer(data[:64], np.uint8)
    heads[1, : len(_HEADER)] = np.frombuffer(_HEADER, np.uint8)
    sizes = np.array([min(len(data), 64), 64, min(len(data), 64)], np.int64)
    header_sizes, bitset_sizes, errors = parse_headers(heads, sizes)
    assert (header_sizes[1], bitset_sizes[1]) == (len(_HEADER), 32)
    assert header_sizes[0] == header_sizes[2]
    try:
        size, num_bytes = parse_header(data[:64])
    except BloomParquetError:
        assert {0, 2} <= set(errors)
    else:
        assert (header_sizes[0], bitset_sizes[0], errors) == (size, num_bytes, {})
        assert 0 < size <= min(64, len(data))
        assert num_bytes % 32 == 0 < num_bytes
    try:
        bloom = SplitBlockBloomFilter.from_bytes(data)
    except BloomParquetError:
        return
    hashes = np.frombuffer(data[:32], np.uint64)
    before = bloom.check(hashes)
    folded = bloom
    while folded.n_blocks % 2 == 0:
        folded = folded.fold()
        assert (folded.check(hashes) >= before).all()
    inserted = SplitBlockBloomFilter.from_bytes(data)
    inserted.insert(hashes)
    assert inserted.check(hashes).all()
    assert bloom.merge(inserted).to_bytes() == inserted.to_bytes()


def _bloom_seeds() -> list[bytes]:
    old = (64).to_bytes(4, "little") + bytes(8)
    return [
        header_bytes(32),
        header_bytes(1024),
        old,
        header_bytes(64)[:-1] + b"\x15\x02\x00",
        bytes(range(64)),
        bytes(128),
    ]


def _encrypt(plain: bytes, file_aad: bytes, module: Module, *ordinals: int) -> bytes:
    """A module with a fixed nonce, so that an input always means the same."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = b"123456789012"
    encrypted = nonce + AESGCM(_KEY).encrypt(nonce, plain, module_aad(file_aad, module, *ordinals))
    return len(encrypted).to_bytes(4, "little") + encrypted


def _file_keys() -> FileKeys:
    return Keys(footer=_KEY, retriever=lambda metadata: _KEY).for_file(_STORAGE, "x.parquet")


def _run_encrypted(data: bytes) -> None:
    """The crypto metadata; the footer and the metadata of a column, which are encrypted here; a module as it is."""
    crypto_raw, plain, column, module = split(data, 4)
    with suppress(BloomParquetError):
        Cipher(_KEY, b"aad").decrypt(module, Module.FOOTER)
    with suppress(BloomParquetError):
        Cipher(_KEY, b"aad").decrypt_counter_mode(module)
    try:
        metadata, end = read_struct(crypto_raw, FileCryptoMetaData)
        file_aad = Algorithm.parse(metadata.encryption_algorithm).file_aad(None)
    except BloomParquetError:
        file_aad, end = b"", len(crypto_raw)
    raw = crypto_raw[:end] + _encrypt(plain, file_aad, Module.FOOTER)
    try:
        decrypted, crypto = decrypt_footer(raw, _file_keys())
        assert decrypted == plain
        footer = parse_footer(decrypted, crypto)
    except BloomParquetError:
        footer = None
    if footer is not None:
        _read_encrypted(footer, file_aad, column)
    with suppress(BloomParquetError):
        parse_footer(plain + module, keys=_file_keys())


def _read_encrypted(footer: Footer, file_aad: bytes, column: bytes) -> None:
    for group in range(min(len(footer.rows), 2)):
        for leaf in range(min(len(footer.profile.schema.leaves), 2)):
            with suppress(BloomParquetError):
                footer.read_chunk_with_cipher(group, leaf)
            with suppress(BloomParquetError):
                cipher = footer.chunk_cipher(group, leaf)
                if cipher is not None:
                    module = _encrypt(column, file_aad, Module.COLUMN_METADATA, footer.ordinals[group], leaf)
                    assert cipher.decrypt(module, Module.COLUMN_METADATA) == column
            with suppress(BloomParquetError):
                footer.chunk_metadata(group, leaf)
            with suppress(BloomParquetError):
                footer.extent(group)


def _encrypted_seeds() -> list[bytes]:
    algorithm = Algorithm(b"fileuniq", aad_prefix=b"prefix")
    seeds = []
    for i, raw in enumerate(map(footer_of, _files())):
        footer = parse_footer(raw)
        column = write_struct(footer.chunk_metadata(0, 0)) if footer.rows else b"\0"
        metadata, _ = read_struct(raw, FileMetaData)
        for number, group in enumerate(metadata.row_groups):
            for leaf, chunk in enumerate(group.columns):
                own = EncryptionWithColumnKey(path_in_schema=[b"x"], key_metadata=b"k")
                if (leaf + i) % 2:
                    chunk.crypto_metadata = ColumnCryptoMetaData(ENCRYPTION_WITH_COLUMN_KEY=own)
                    inner = write_struct(chunk.meta_data)
                    chunk.encrypted_column_metadata = _encrypt(
                        inner, algorithm.file_aad(None), Module.COLUMN_METADATA, number, leaf
                    )
                    chunk.meta_data = None
                else:
                    chunk.crypto_metadata = ColumnCryptoMetaData(ENCRYPTION_WITH_FOOTER_KEY=Empty())
        crypto = write_struct(FileCryptoMetaData(encryption_algorithm=algorithm.to_struct(), key_metadata=b"key"))
        seeds.append(join([crypto, write_struct(metadata), column, _encrypt(column, b"aad", Module.FOOTER)]))
        metadata.encryption_algorithm = algorithm.to_struct()
        signed = write_struct(metadata)
        signature = Cipher(_KEY, algorithm.file_aad(None))._signature(signed, b"123456789012")
        seeds.append(join([crypto, signed, column, signature]))
    return seeds


TARGETS = [
    Target(
        "thrift",
        _thrift_seeds,
        _run_thrift,
        change_some(lambda data, random: data[:1] + change_thrift(data[1:], random)),
        max_bytes=256,
    ),
    Target("footer", lambda: [footer_of(file) for file in _files()], _many_at_once, change_thrift, max_bytes=1024),
    Target("bloom", _bloom_seeds, _run_bloom, change_bytes, max_bytes=512),
    Target("encrypted", _encrypted_seeds, _run_encrypted, in_parts(change_thrift, 4), max_bytes=1536),
]
