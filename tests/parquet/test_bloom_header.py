"""The Bloom filter header: all valid headers, and the error for each invalid one."""

from __future__ import annotations

import numpy as np
import pytest

from bloomparquet.errors import BloomParquetError, UnsupportedError
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


@pytest.mark.parametrize("size", [32, 64, 96, 32 * 1023, 2**20, MAX_BITSET_BYTES])
def test_every_multiple_of_a_block_is_a_size(size: int) -> None:
    assert parse_header(header(size) + b"bits") == (len(header(size)), size)


def test_unknown_fields_are_skipped() -> None:
    more = {"f5": Field(8, b"note"), "f6": Field(12, {1: Field(6, 12345)}), "f9": Field(1, True)}
    data = header(64, **more)
    assert parse_header(data + b"\xff" * 9) == (len(data), 64)


def test_a_union_of_two_members_is_unsupported() -> None:
    plain = bytes.fromhex("15401c1c00001c1c00001c1c000000")
    assert parse_header(plain)[1] == 32
    with pytest.raises(UnsupportedError, match=r"member 1, 2 of .*BLOCK"):
        parse_header(plain.replace(bytes.fromhex("1c1c0000"), bytes.fromhex("1c1c001c0000"), 1))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x15", ARROW_RS[:-1], b"PAR1" * 8, bytes(64), b"\xff" * 64], ids=repr)
def test_bytes_that_are_no_header_are_an_error(data: bytes) -> None:
    with pytest.raises(BloomParquetError):
        parse_header(data)


def test_a_truncated_header_is_not_taken_for_a_whole_one() -> None:
    """Many headers are parsed at once, and recognised by their bytes."""
    heads = np.zeros((2, 64), np.uint8)
    heads[:, : len(ARROW_RS)] = np.frombuffer(ARROW_RS, np.uint8)
    header_bytes, bitset_bytes, errors = parse_headers(heads, np.array([64, len(ARROW_RS) - 1]))
    assert (header_bytes.tolist(), bitset_bytes.tolist(), list(errors)) == ([15, 0], [32, 0], [1])
