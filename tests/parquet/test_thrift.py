"""Thrift structs: what is read is written again unchanged, fields have names, and no input costs more than its size."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.parquet.thrift import struct as thrift
from bloomparquet.parquet.thrift.definitions import ColumnMetaData, Statistics
from bloomparquet.parquet.thrift.reader import MAX_DEPTH, read_struct
from bloomparquet.parquet.thrift.struct import ThriftList, ThriftMap, ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from tests.support.core import Field, decode, encode, read_footer

I64 = st.integers(-(2**63), 2**63 - 1)
_scalars: dict[int, st.SearchStrategy[Any]] = {
    thrift.BYTE: st.integers(-128, 127),
    thrift.I16: st.integers(-(2**15), 2**15 - 1),
    thrift.I32: st.integers(-(2**31), 2**31 - 1),
    thrift.I64: I64,
    thrift.DOUBLE: st.binary(min_size=8, max_size=8),
    thrift.BINARY: st.binary(max_size=40),
    thrift.UUID: st.binary(min_size=16, max_size=16),
}


def values(kind: int, depth: int) -> st.SearchStrategy[Any]:
    """Values of type `kind` inside a container."""
    if kind in _scalars:
        return _scalars[kind]
    if kind in (thrift.TRUE, thrift.FALSE):
        return st.sampled_from([0, 1, 2])
    if kind == thrift.STRUCT:
        return structs(depth - 1)
    if kind == thrift.MAP:
        return kinds(depth - 1).flatmap(
            lambda key: kinds(depth - 1).flatmap(
                lambda value: st.lists(st.tuples(values(key, depth - 1), values(value, depth - 1)), max_size=3).map(
                    lambda pairs: ThriftMap(key, value, pairs) if pairs else ThriftMap(0, 0, [])
                )
            )
        )
    return kinds(depth - 1).flatmap(
        lambda element: st.lists(values(element, depth - 1), max_size=18).map(
            lambda found: ThriftList(kind, element, found)
        )
    )


def kinds(depth: int) -> st.SearchStrategy[int]:
    deeper = [thrift.LIST, thrift.SET, thrift.MAP, thrift.STRUCT] if depth > 0 else []
    return st.sampled_from([thrift.TRUE, thrift.FALSE, *_scalars, *deeper])


@st.composite
def structs(draw: st.DrawFn, depth: int = 3) -> ThriftStruct:
    tree = ThriftStruct()
    for field_id in draw(st.lists(st.integers(-5, 40) | st.integers(-(2**15), 2**15 - 1), unique=True, max_size=5)):
        kind = draw(kinds(depth))
        if kind in (thrift.TRUE, thrift.FALSE):
            tree.put(field_id, thrift.TRUE, draw(st.booleans()))
        else:
            tree.put(field_id, kind, draw(values(kind, depth)))
    return tree


@given(structs())
def test_a_written_struct_is_read_again(tree: ThriftStruct) -> None:
    raw = write_struct(tree)
    again, stop = read_struct(b"before" + raw + b"behind", ThriftStruct, 6)
    assert again == tree
    assert stop == 6 + len(raw)
    assert write_struct(again) == raw
    for end in range(len(raw)):
        with pytest.raises(bp.FormatError):
            read_struct(raw[:end], ThriftStruct)


def test_each_type_has_the_bytes_of_the_specification() -> None:
    tree = ThriftStruct()
    tree.put(1, thrift.TRUE, True)
    tree.put(2, thrift.TRUE, False)
    tree.put(3, thrift.BYTE, -2)
    tree.put(4, thrift.I16, -1)
    tree.put(5, thrift.I32, 150)
    tree.put(40, thrift.I64, -(2**63))
    tree.put(41, thrift.DOUBLE, struct.pack("<d", 1.5))
    tree.put(42, thrift.BINARY, b"ab")
    tree.put(43, thrift.LIST, ThriftList(thrift.LIST, thrift.I32, [1, -1]))
    tree.put(44, thrift.SET, ThriftList(thrift.SET, thrift.BYTE, list(range(15))))
    tree.put(45, thrift.LIST, ThriftList(thrift.LIST, thrift.TRUE, [1, 2]))
    tree.put(46, thrift.MAP, ThriftMap(thrift.BINARY, thrift.FALSE, [(b"k", 1)]))
    tree.put(47, thrift.MAP, ThriftMap(0, 0, []))
    tree.put(48, thrift.STRUCT, ThriftStruct())
    tree.put(49, thrift.UUID, bytes(range(16)))
    expected = (
        b"\x11\x12\x13\xfe\x14\x01\x15\xac\x02"
        b"\x06\x50" + b"\xff" * 9 + b"\x01"
        b"\x17" + struct.pack("<d", 1.5) + b"\x18\x02ab\x19\x25\x02\x01"
        b"\x1a\xf3\x0f" + bytes(range(15)) + b"\x19\x21\x01\x02\x1b\x01\x82\x01k\x01\x1b\x00\x1c\x00"
        b"\x1d" + bytes(range(16)) + b"\x00"
    )  # fmt: skip
    assert write_struct(tree) == expected
    assert read_struct(expected, ThriftStruct) == (tree, len(expected))


@pytest.mark.parametrize("order", [(3, 1, 2), (40, 3), (2, -1)])
def test_fields_in_any_order_are_written_in_ascending_order(order: tuple[int, ...]) -> None:
    raw = encode({number: Field(thrift.I32, 7 * number) for number in order})
    tree, _ = read_struct(raw, ThriftStruct)
    assert dict(tree) == {number: 7 * number for number in order}
    assert list(decode(write_struct(tree))) == sorted(order)


def test_longer_encodings_of_a_number_are_read() -> None:
    tree, stop = read_struct(b"\x05\x02\x82\x80\x80\x00\x00", ThriftStruct)
    assert (dict(tree), stop) == ({1: 1}, 7)
    assert write_struct(tree) == b"\x15\x02\x00"


def test_structs_that_differ_in_a_type_are_not_equal() -> None:
    def struct_of(kind: int, value: Any) -> ThriftStruct:
        made = ThriftStruct()
        made.put(1, kind, value)
        return made

    def in_list(kind: int) -> ThriftStruct:
        return struct_of(thrift.LIST, ThriftList(thrift.LIST, kind, []))

    for one, other in (
        (struct_of(thrift.I32, 1), struct_of(thrift.I64, 1)),
        (struct_of(thrift.TRUE, 1), struct_of(thrift.I32, 1)),
        (in_list(thrift.I32), in_list(thrift.I64)),
    ):
        assert not one == other  # noqa: SIM201 (both operators are meant)
        assert one != other
        assert struct_of(thrift.STRUCT, one) != struct_of(thrift.STRUCT, other)


def test_fields_are_read_and_set_by_name() -> None:
    metadata = ColumnMetaData(num_values=3, path_in_schema=[b"a"], statistics=Statistics(null_count=1))
    assert metadata.num_values == 3
    assert metadata.statistics.null_count == 1
    assert metadata.bloom_filter_offset is None
    metadata.bloom_filter_offset = 7
    assert (metadata[14], metadata.kinds[14]) == (7, thrift.I64)
    assert read_struct(write_struct(metadata), ColumnMetaData)[0] == metadata
    metadata.bloom_filter_offset = metadata.statistics = None
    assert set(metadata) == {ColumnMetaData.num_values.id, ColumnMetaData.path_in_schema.id}
    with pytest.raises(AttributeError):
        metadata.bloom_offset = 7  # type: ignore[attr-defined]


def test_a_missing_required_field_is_an_error() -> None:
    with pytest.raises(bp.FormatError, match=r"field 5 \(num_values\) of ColumnMetaData is missing"):
        _ = ColumnMetaData().num_values


@pytest.mark.parametrize(
    ("field_id", "kind", "value", "message"),
    [
        (5, thrift.BINARY, b"many", "num_values.* is b'many'; expected an integer"),
        (12, thrift.I32, 3, "statistics.* is 3; expected a struct"),
        (3, thrift.LIST, ThriftList(thrift.LIST, thrift.I32, [1]), "path_in_schema.* expected a list of bytes"),
    ],
)
def test_a_field_of_another_type_is_an_error(field_id: int, kind: int, value: Any, message: str) -> None:
    metadata = ColumnMetaData()
    metadata.put(field_id, kind, value)
    with pytest.raises(bp.FormatError, match=message):
        metadata.check()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "end inside"),
        (b"\x15", "end inside"),
        (b"\x15\x80", "byte 2: the bytes end inside"),
        (b"\x15\x02", "end inside"),
        (b"\x15\x02\x05\x02\x04\x00", "occurs twice"),
        (b"\x1e\x02\x00", "unknown Thrift type 14"),
        (b"\x10\x00", "unknown Thrift type 0"),
        (b"\x19\x27\x00\x00", "expected"),
        (b"\x19\x2e\x00\x00\x00", "unknown Thrift type"),
        (b"\x15" + b"\xff" * 10 + b"\x01\x00", "64 bits"),
        (b"\x18\x05ab", "claims"),
        (b"\x18\xff\xff\xff\xff\x0f", "claims"),
        (b"\x19\xf5\xff\xff\xff\xff\x0f", "claims"),
        (b"\x1b\xff\xff\xff\xff\x0f\x55", "claims"),
        (b"\x19\xfc\xff\xff\xff\xff\x07", "claims"),
    ],
)
def test_damaged_bytes_are_an_error_before_anything_is_allocated(raw: bytes, message: str) -> None:
    tracemalloc.start()
    with pytest.raises(bp.FormatError, match=message):
        read_struct(raw, ThriftStruct)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("opening", [b"\x1c", b"\x19\x1c", b"\x1b\x01\x5c\x02", b"\x19\x19"])
def test_deep_nesting_is_an_error(opening: bytes) -> None:
    with pytest.raises(bp.LimitError, match="nests deeper"):
        read_struct(opening * 100_000, ThriftStruct)
    assert read_struct(b"\x1c" * (MAX_DEPTH - 1) + b"\0" * MAX_DEPTH, ThriftStruct)[0]


def test_rewritten_footers_of_other_writers_are_equal(parquet_testing_dir: Path) -> None:
    seen = 0
    for path in sorted(parquet_testing_dir.rglob("*.parquet")):
        raw = read_footer(str(path))
        tree, stop = read_struct(raw, ThriftStruct)
        assert stop == len(raw)
        again = write_struct(tree)
        assert decode(again) == decode(raw) or "nan" in path.name, path
        assert repr(sorted(decode(again).items())) == repr(sorted(decode(raw).items())), path
        seen += 1
    assert seen >= 5
