"""The compact protocol: what is read, and that no input costs more than its own size."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import BloomParquetError, FormatError, LimitError
from bloomparquet.parquet.thrift.reader import MAX_DEPTH, CompactReader, read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from tests.support.core import Field, Items, encode

I32, I64, DOUBLE, BINARY, LIST, STRUCT, TRUE = 5, 6, 7, 8, 9, 12, 1


def test_every_kind_of_value_is_read() -> None:
    data = encode(
        {
            1: Field(TRUE, True),
            2: Field(TRUE, False),
            3: Field(3, 7),
            4: Field(4, -3),
            5: Field(I32, 2**31 - 1),
            6: Field(I64, -(2**63)),
            7: Field(DOUBLE, 1.5),
            8: Field(BINARY, "ä".encode()),
            9: Field(LIST, Items(I32, list(range(20)))),
            10: Field(STRUCT, {1: Field(I32, 5)}),
            11: Field(LIST, Items(TRUE, [True, False])),
            200: Field(I32, 1),
            17: Field(I32, 2),
        }
    )
    reader = CompactReader(data + b"tail")
    assert dict(reader.read_struct(ThriftStruct)) == {
        1: True,
        2: False,
        3: 7,
        4: -3,
        5: 2**31 - 1,
        6: -(2**63),
        7: struct.pack("<d", 1.5),
        8: "ä".encode(),
        9: list(range(20)),
        10: read_struct(encode({1: Field(I32, 5)}), ThriftStruct)[0],
        11: [1, 2],
        200: 1,
        17: 2,
    }
    assert reader.position == len(data)


def test_a_map_is_read() -> None:
    assert CompactReader(b"\x1b\x02\x85\x01a\x02\x01b\x04\x00").read_struct(ThriftStruct)[1].pairs == [
        (b"a", 1),
        (b"b", 2),
    ]
    assert CompactReader(b"\x1b\x00\x00").read_struct(ThriftStruct)[1].pairs == []


@given(st.dictionaries(st.integers(1, 300), st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_integers_come_back_as_they_were_written(fields: dict[int, int]) -> None:
    raw = encode({key: Field(I64, value) for key, value in fields.items()})
    assert dict(CompactReader(raw).read_struct(ThriftStruct)) == fields


@given(st.binary(max_size=200))
def test_any_bytes_give_a_struct_or_an_error_of_ours(data: bytes) -> None:
    reader = CompactReader(data)
    with contextlib.suppress(BloomParquetError):
        reader.read_struct(ThriftStruct)
    assert reader.position <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x19\xf5\xff\xff\xff\xff\x0f",
        b"\x1b\xff\xff\xff\xff\x0f\x55",
        b"\x19\xfc\xff\xff\xff\xff\x07",
    ],
    ids=["string", "list", "map", "structs"],
)
def test_a_length_beyond_the_bytes_is_refused_before_anything_is_allocated(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(FormatError, match="claims"):
        CompactReader(data).read_struct(ThriftStruct)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_deep_nesting_is_refused() -> None:
    for data in (b"\x1c" * 100_000, b"\x19" + b"\x19" * 100_000):
        with pytest.raises((LimitError, FormatError)):
            CompactReader(data).read_struct(ThriftStruct)
    assert CompactReader(b"\x1c" * (MAX_DEPTH - 1) + b"\0" * MAX_DEPTH).read_struct(ThriftStruct)


@pytest.mark.parametrize(
    "data", [b"", b"\x15", b"\x15\x80", b"\x18\x05ab", b"\x1e\x00", b"\x15" + b"\xff" * 11], ids=repr
)
def test_bytes_that_end_or_make_no_sense_are_refused_with_their_place(data: bytes) -> None:
    with pytest.raises(FormatError, match="byte"):
        CompactReader(data).read_struct(ThriftStruct)


def test_reading_stops_behind_the_field_that_was_asked_for() -> None:
    data = encode({1: Field(I32, 1), 2: Field(I32, 2)}) + b"\xff"
    reader = CompactReader(data)
    assert dict(reader.read_struct(ThriftStruct, stop_after=1)) == {1: 1}
    assert reader.position == 2
