"""The Bloom filter header: all valid headers, and the error for each invalid one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bloomparquet.errors import BloomParquetError, FormatError, LimitError, UnsupportedError
from bloomparquet.parquet.bloom_filter.header import MAX_BITSET_BYTES, parse_header, parse_headers
from tests.support.core import Field, encode

ARROW_RS = bytes([21, 64, 28, 28, 0, 0, 28, 28, 0, 0, 28, 28, 0, 0, 0])


def header(num_bytes: int = 32, algorithm: int = 1, hashing: int = 1, compression: int = 1, **more: Field) -> bytes:
    """A BloomFilterHeader whose unions have the members of these ids; 0 is an empty union."""
    fields = {1: Field(5, num_bytes)}
    for number, member in ((2, algorithm), (3, hashing), (4, compression)):
        fields[number] = Field(12, {member: Field(12, {})} if member else {})
    return encode({**fields, **{int(key[1:]): value for key, value in more.items()}})


def test_the_header_of_arrow_rs_is_read() -> None:
    assert parse_header(ARROW_RS) == (15, 32)
    assert header() == ARROW_RS


def test_a_golden_file_of_another_implementation_is_read(parquet_testing_dir: Path) -> None:
    assert parse_header((parquet_testing_dir / "bloom_filter.xxhash.bin").read_bytes()) == (16, 1024)


def test_the_murmur3_layout_is_unsupported(parquet_testing_dir: Path) -> None:
    with pytest.raises(UnsupportedError, match="Murmur3"):
        parse_header((parquet_testing_dir / "bloom_filter.bin").read_bytes())


@pytest.mark.parametrize("size", [32, 64, 96, 32 * 1023, 2**20, MAX_BITSET_BYTES])
def test_every_multiple_of_a_block_is_a_size(size: int) -> None:
    assert parse_header(header(size) + b"bits") == (len(header(size)), size)


def test_unknown_fields_are_skipped() -> None:
    more = {"f5": Field(8, b"note"), "f6": Field(12, {1: Field(6, 12345)}), "f9": Field(1, True)}
    data = header(64, **more)
    assert parse_header(data + b"\xff" * 9) == (len(data), 64)


@pytest.mark.parametrize("size", [0, -32, 1, 31, 33, 1000])
def test_a_size_that_is_no_multiple_of_32_is_an_error(size: int) -> None:
    with pytest.raises(FormatError, match=rf"{size} bytes; expected a positive multiple of 32"):
        parse_header(header(size))


def test_a_size_of_two_gibibytes_is_an_error() -> None:
    with pytest.raises(LimitError, match="2147483616"):
        parse_header(header(2**31 - 32))


@pytest.mark.parametrize(
    ("which", "name"), [("algorithm", "BLOCK"), ("hashing", "XXHASH"), ("compression", "UNCOMPRESSED")]
)
def test_an_unknown_member_of_a_union_is_unsupported(which: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"member 2 .*{name}"):
        parse_header(header(32, **{which: 2}))  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=name):
        parse_header(header(32, **{which: 0}))  # type: ignore[arg-type]


def test_a_union_of_two_members_is_unsupported() -> None:
    plain = bytes.fromhex("15401c1c00001c1c00001c1c000000")
    assert parse_header(plain)[1] == 32
    with pytest.raises(UnsupportedError, match=r"member 1, 2 of .*BLOCK"):
        parse_header(plain.replace(bytes.fromhex("1c1c0000"), bytes.fromhex("1c1c001c0000"), 1))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x15", ARROW_RS[:-1], b"PAR1" * 8, bytes(64), b"\xff" * 64], ids=repr)
def test_bytes_that_are_no_header_are_an_error(data: bytes) -> None:
    with pytest.raises(BloomParquetError):
        parse_header(data)


def test_many_headers_at_once_are_parsed_like_each_alone() -> None:
    rng = np.random.default_rng(3)
    kinds = [
        header(32),
        header(64),
        header(2**20),
        header(33),
        b"PAR1" * 4,
        header(32, hashing=2),
        header(96, f7=Field(8, b"x" * 20)),
        ARROW_RS[:9],
    ]
    chosen = [kinds[i] for i in rng.integers(0, len(kinds), 300)]
    width = 64
    heads = np.zeros((300, width), np.uint8)
    sizes = np.array([min(width, len(one)) for one in chosen], np.int64)
    for i, one in enumerate(chosen):
        heads[i, : sizes[i]] = np.frombuffer(one[:width], np.uint8)
        heads[i, sizes[i] :] = rng.integers(0, 256, width - sizes[i])
    header_bytes, bitset_bytes, errors = parse_headers(heads, sizes)
    alone = {one: _parse_or_error(one) for one in kinds}
    for i, one in enumerate(chosen):
        expected = alone[one]
        if isinstance(expected, BloomParquetError):
            assert (header_bytes[i], bitset_bytes[i]) == (0, 0)
            assert (type(errors[i]), str(errors[i])) == (type(expected), str(expected))
        else:
            assert (header_bytes[i], bitset_bytes[i]) == expected
            assert i not in errors


def _parse_or_error(data: bytes) -> tuple[int, int] | BloomParquetError:
    try:
        return parse_header(data)
    except BloomParquetError as error:
        return error
