"""A struct of Thrift's compact protocol, read and written again: nothing is lost, whatever it is."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.parquet.thrift import struct as thrift
from bloomparquet.parquet.thrift.reader import CompactReader, read_struct
from bloomparquet.parquet.thrift.struct import ThriftList, ThriftMap, ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from tests.support.core import Field, decode, encode, read_footer
from tests.support.core import Items as PlainItems

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
    """What `kind` holds inside a container."""
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
def test_what_is_written_is_read_again(tree: ThriftStruct) -> None:
    raw = write_struct(tree)
    again, stop = read_struct(b"before" + raw + b"behind", ThriftStruct, 6)
    assert again == tree
    assert stop == 6 + len(raw)
    assert write_struct(again) == raw


@given(structs())
def test_the_readers_that_planning_uses_find_the_same_end(tree: ThriftStruct) -> None:
    raw = write_struct(tree)
    reader = CompactReader(raw + b"\x15\x15")
    assert reader.read_struct(ThriftStruct) == tree
    assert reader.position == len(raw)


def test_each_type_is_written_as_the_specification_says() -> None:
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


@pytest.mark.parametrize("bits", [0x7FF0000000000001, 0x7FF8DEADBEEF0001, 0xFFF8000000000000, 0x8000000000000000])
def test_doubles_keep_every_bit(bits: int) -> None:
    raw = b"\x17" + bits.to_bytes(8, "little") + b"\x19\x27" + bits.to_bytes(8, "little") * 2 + b"\x00"
    assert write_struct(read_struct(raw, ThriftStruct)[0]) == raw


@pytest.mark.parametrize("order", [(3, 1, 2), (40, 3), (2, -1)])
def test_fields_in_any_order_are_read_and_written_in_ascending_order(order: tuple[int, ...]) -> None:
    raw = encode({number: Field(thrift.I32, 7 * number) for number in order})
    tree, _ = read_struct(raw, ThriftStruct)
    assert dict(tree) == {number: 7 * number for number in order}
    assert list(decode(write_struct(tree))) == sorted(order)


def test_longer_forms_of_a_number_mean_the_same() -> None:
    tree, stop = read_struct(b"\x05\x02\x82\x80\x80\x00\x00", ThriftStruct)
    assert (dict(tree), stop) == ({1: 1}, 7)
    assert write_struct(tree) == b"\x15\x02\x00"


def test_trees_that_differ_in_a_type_are_not_equal() -> None:
    """What was written is compared with what was meant, types included, at the top and below it."""
    pairs: list[tuple[ThriftStruct, ThriftStruct]] = []
    for kinds_of_field in ((thrift.I32, thrift.I64), (thrift.TRUE, thrift.I32)):
        left, right = ThriftStruct(), ThriftStruct()
        left.put(1, kinds_of_field[0], 1)
        right.put(1, kinds_of_field[1], 1)
        pairs.append((left, right))
    left, right = ThriftStruct(), ThriftStruct()
    left.put(1, thrift.LIST, ThriftList(thrift.LIST, thrift.I32, [1]))
    right.put(1, thrift.LIST, ThriftList(thrift.LIST, thrift.I64, [1]))
    pairs.append((left, right))
    for one, other in pairs:
        assert not one == other  # noqa: SIM201 (both operators are meant)
        assert one != other
        above, below = ThriftStruct(), ThriftStruct()
        above.put(1, thrift.STRUCT, one)
        below.put(1, thrift.STRUCT, other)
        assert above != below
    assert ThriftList(thrift.LIST, thrift.I32, []) != ThriftList(thrift.LIST, thrift.I64, [])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "end inside"),
        (b"\x15", "end inside"),
        (b"\x15\x02", "end inside"),
        (b"\x15\x02\x05\x02\x04\x00", "occurs twice"),
        (b"\x1e\x02\x00", "unknown Thrift type 14"),
        (b"\x10\x00", "unknown Thrift type 0"),
        (b"\x19\xf5\xff\xff\xff\x7f\x00", "claims"),
        (b"\x18\x7fab\x00", "claims"),
        (b"\x1b\xff\x7f\x55\x00", "claims"),
        (b"\x19\x27\x00\x00", "expected"),
        (b"\x19\x2e\x00\x00\x00", "unknown Thrift type"),
        (b"\x15" + b"\xff" * 10 + b"\x01\x00", "64 bits"),
    ],
)
def test_damaged_bytes_are_an_error(raw: bytes, message: str) -> None:
    with pytest.raises(bp.FormatError, match=message):
        read_struct(raw, ThriftStruct)


@pytest.mark.parametrize("opening", [b"\x1c", b"\x19\x1c", b"\x1b\x01\x5c\x02", b"\x19\x19"])
def test_deep_nesting_is_an_error_and_no_recursion(opening: bytes) -> None:
    with pytest.raises(bp.LimitError, match="nests deeper"):
        read_struct(opening * 100_000, ThriftStruct)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_error_of_ours_or_a_tree(raw: bytes) -> None:
    try:
        tree, stop = read_struct(raw, ThriftStruct)
    except bp.BloomParquetError:
        return
    assert 0 < stop <= len(raw)
    assert read_struct(write_struct(tree), ThriftStruct)[0] == tree


def test_a_footer_of_arrow_is_written_as_arrow_wrote_it(tmp_path: Path) -> None:
    table = pa.table({"a": [1, None], "b": [["x"], []], "c": pa.array([1, 2], pa.decimal128(20, 2))})
    pq.write_table(table, tmp_path / "a.parquet", write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
    raw = read_footer(str(tmp_path / "a.parquet"))
    assert write_struct(read_struct(raw, ThriftStruct)[0]) == raw
    assert encode(decode(raw)) == raw, "the tests' own encoder"
    assert isinstance(decode(raw)[4].value, PlainItems)


def test_the_footers_of_other_writers_keep_their_meaning(parquet_testing_dir: Path) -> None:
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
