"""Rewriting filters keeps data, indexes and every other field of the footer, wherever the old filters were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from bloomparquet.writing.rewrite import rewrite
from tests.support.core import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    Field,
    bloom_header,
    column_metadata,
    decode,
    edit_footer,
    encode,
    read_footer,
    replace_footer,
    set_filter_location,
)
from tests.support.files import patch
from tests.support.layout import assert_only_filters_changed, chunks, insert_filters, pages, sizes
from tests.support.stored import assert_filters_hold_all, bitsets

I32, I64, DOUBLE, BINARY, LIST, STRUCT = 5, 6, 7, 8, 9, 12
PLACES = ["between", "before", "behind"]
TABLE = pa.table({
    "a": np.arange(900) * 3,
    "b": [f"text {i % 400}" for i in range(900)],
    "c": pa.array([{"d": i / 7} if i % 5 else None for i in range(900)]),
})  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "a.parquet")


def write(path: Path, table: pa.Table = TABLE, **options: Any) -> str:
    defaults: dict[str, Any] = {
        "row_group_size": 300, "data_page_size": 400, "write_batch_size": 50, "write_page_index": True,
        "sorting_columns": [pq.SortingColumn(0)],
    }  # fmt: skip
    pq.write_table(table.replace_schema_metadata({"mine": "kept", "é": "中"}), path, **(defaults | options))
    return str(path)


def copy(path: str) -> str:
    before = path + ".before"
    Path(before).write_bytes(Path(path).read_bytes())
    return before


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("columns", [["a"], ["a", "b", "c.d"], ["c.d"]])
def test_adding_keeps_all_bytes_and_footer_fields(tmp_path: Path, columns: list[str], index: bool) -> None:
    path = write(tmp_path / "a.parquet", write_page_index=index)
    before = copy(path)
    assert add_filters(path, bloom=columns)[0].action == "added"
    assert_only_filters_changed(before, path)
    leaves = {["a", "b", "c.d"].index(column) for column in columns}
    assert set(assert_filters_hold_all(path)) == {(i, j) for i in range(3) for j in leaves}
    metadata = pq.read_metadata(path)
    assert metadata.metadata[b"mine"] == b"kept"
    assert b"ARROW:schema" in metadata.metadata
    assert metadata.row_group(1).sorting_columns == (pq.SortingColumn(0),)


def test_filters_lie_between_data_and_footer_without_gaps(path: str) -> None:
    end = Path(path).stat().st_size - 8 - len(read_footer(path))
    add_filters(path, bloom="a")
    at = end
    for (_, j), chunk in chunks(decode(read_footer(path))):
        if j == 0:
            assert chunk[3].value[BLOOM_OFFSET] == Field(I64, at)
            at += chunk[3].value[BLOOM_LENGTH].value
    assert at == Path(path).stat().st_size - 8 - len(read_footer(path))


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("where", PLACES)
def test_shrinking_closes_the_gap_wherever_it_is(path: str, where: str, told: bool) -> None:
    insert_filters(path, 1 << 15, where=where, columns={0: told, 1: told})
    before = copy(path)
    (outcome,) = shrink_filters(path)
    assert outcome.action == "shrunk"
    assert_only_filters_changed(before, path, moved=True)
    filters = assert_filters_hold_all(path, {0, 1})
    assert len(filters) == outcome.filters == 6
    assert max(map(len, filters.values())) <= 1_024
    new = sum(sizes(path))
    assert new == outcome.filter_bytes
    saved = Path(before).stat().st_size - Path(path).stat().st_size
    assert abs(saved - (6 * (1 << 15) - new)) < 300, "the hole is gone, and only it"
    assert outcome.bytes_after == Path(path).stat().st_size
    assert shrink_filters(path)[0].action == "unchanged"


@pytest.mark.parametrize("where", PLACES)
def test_fitting_filter_is_kept_when_its_neighbour_shrinks(path: str, where: str) -> None:
    """One row group has many values, whose filter fits; the others have few values in filters of equal size."""
    few = pa.table({"a": np.concatenate([np.arange(300), np.zeros(600, int)]), "b": TABLE["b"], "c": TABLE["c"]})
    path = write(Path(path), few)
    insert_filters(path, 512, where=where, columns={0: True})
    before, old = copy(path), bitsets(path)
    shrink_filters(path)
    assert_only_filters_changed(before, path, moved=True)
    new = assert_filters_hold_all(path, {0})
    assert new[0, 0] == old[0, 0]
    assert [len(new[chunk_id]) for chunk_id in ((0, 0), (1, 0), (2, 0))] == [512, 32, 32]


@pytest.mark.parametrize("where", PLACES)
def test_replacing_closes_the_gap(path: str, where: str) -> None:
    insert_filters(path, 1 << 15, where=where, columns={0: True, 1: False})
    before = copy(path)
    (outcome,) = add_filters(path, bloom=["a", "c.d"], replace=True)
    assert (outcome.action, outcome.filters) == ("added", 6)
    assert_only_filters_changed(before, path, moved=True)
    assert {chunk_id[1] for chunk_id in assert_filters_hold_all(path, {0, 1, 2})} == {0, 1, 2}
    assert bitsets(path)[0, 1] == bitsets(before)[0, 1], "not asked for"
    assert add_filters(path, bloom=["a"], replace=True)[0].action == "unchanged"


def test_dropped_filters_leave_nothing(path: str) -> None:
    insert_filters(path, 32, where="between", columns={0: True})  # 300 values in one block: it lets all through
    before = copy(path)
    (outcome,) = shrink_filters(path)
    assert (outcome.action, outcome.dropped, outcome.filters) == ("shrunk", 3, 0)
    assert bitsets(path) == {}
    assert_only_filters_changed(before, path, moved=True)
    assert not any({BLOOM_OFFSET, BLOOM_LENGTH} & set(chunk[3].value) for _, chunk in chunks(decode(read_footer(path))))


NAN = 0x7FF8DEADBEEF0001.to_bytes(8, "little")
UNKNOWN = (
    b"\x01\xc8\x01\x12\x13\xfe\x14\xd7\x04\x17" + NAN + b"\x19\x31\x01\x02\x01\x1a\x14\x0a"
    b"\x1b\x01\x87\x01k" + NAN + b"\x1b\x00\x1d" + bytes(range(16)) + b"\x1c\x1c\x00\x00"
    b"\x1b\x01\xd1" + bytes(16) + b"\x01\x19\xf1\x10" + b"\x01\x02" * 8 + b"\x1a\x27" + NAN * 2
)  # fmt: skip
"""Fields 100 to 113 of a struct: booleans, a byte, an i16, a NaN with a payload, a list of booleans, a set, a map of
doubles, an empty map, a UUID, structs, a map of UUIDs to booleans, a long list of booleans, a set of NaNs."""
MARK = b"here be unknown fields"
MARKED = b"\x08\xc8\x01" + bytes([len(MARK)]) + MARK
"""Field 100 in the long form, with its full id."""


def graft_unknown(path: str) -> int:
    """Add `UNKNOWN` to every struct of the footer that concerns columns. Returns their number."""
    metadata = decode(read_footer(path))
    metadata[100] = Field(BINARY, MARK)
    for element in metadata[2].value.values:
        element[100] = Field(BINARY, MARK)
    for group in metadata[4].value.values:
        group[100] = Field(BINARY, MARK)
    for _, chunk in chunks(metadata):
        chunk[100] = Field(BINARY, MARK)
        chunk[3].value[100] = Field(BINARY, MARK)
        chunk[3].value[12].value[100] = Field(BINARY, MARK)
    raw = encode(metadata)
    replace_footer(path, raw.replace(MARKED, UNKNOWN))
    return raw.count(MARKED)


@pytest.mark.parametrize("where", [None, *PLACES])
def test_unknown_fields_survive(path: str, where: str | None) -> None:
    if where:
        insert_filters(path, 1 << 15, where=where)
    known = copy(path)
    count = graft_unknown(path)
    assert count == 1 + 5 + 3 + 9 * 3
    assert read_footer(path).count(UNKNOWN) == count
    (outcome,) = shrink_filters(path) if where else add_filters(path, bloom=["a", "b"])
    assert outcome.action == ("shrunk" if where else "added")
    assert read_footer(path).count(UNKNOWN) == count
    replace_footer(path, read_footer(path).replace(UNKNOWN, b""))
    assert_only_filters_changed(known, path, moved=bool(where))
    assert_filters_hold_all(path, {0})


@pytest.mark.parametrize(("blocks", "folded"), [(48, 12), (1_504, 47)])
def test_filter_with_any_number_of_blocks_is_folded(path: str, blocks: int, folded: int) -> None:
    insert_filters(path, 32 * blocks, where="behind")
    shrink_filters(path)
    assert_filters_hold_all(path, {0})
    assert set(sizes(path)) == {32 * folded}


def test_offsets_into_the_gap_point_behind_it(path: str) -> None:
    """Old writers set file_offset to the end of the chunk, where a filter may begin."""
    insert_filters(path, 1 << 15, where="between")

    def edit(metadata: dict[int, Field]) -> None:
        for _, chunk in chunks(metadata):
            chunk[2] = Field(I64, pages(chunk)[1])

    edit_footer(path, edit)
    shrink_filters(path)
    for _, chunk in chunks(decode(read_footer(path))):
        assert chunk[2].value == pages(chunk)[1]


def put_header(path: str, size: int, shift: int = 0) -> tuple[int, int]:
    """Write the header of a filter of `size` bytes, `shift` bytes behind the start of the first filter. Returns where
    it is, and the bytes of such a filter."""
    at, header = column_metadata(decode(read_footer(path)), 0, 0)[BLOOM_OFFSET].value + shift, bloom_header(size)
    patch(path, at, header)
    return at, len(header) + size


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("shift", [100, (1 << 15) - 500])
def test_overlapping_filters_are_an_error(path: str, shift: int, told: bool) -> None:
    """The filter of column b begins inside that of column a, with a valid header."""
    insert_filters(path, 1 << 15, where="between")
    at, length = put_header(path, 1 << 10, shift)
    set_filter_location(path, offset=at, length=length if told else None, column=1)
    before = Path(path).read_bytes()
    with pytest.raises(bp.FormatError, match=r"overlap"):
        add_filters(path, bloom="a", replace=True)
    assert Path(path).read_bytes() == before


def test_kept_filter_reaching_into_a_removed_one_is_an_error(path: str) -> None:
    """The footer does not state its length. Without its last bytes it would deny values."""
    insert_filters(path, 1 << 10, where="between", columns={0: False, 1: False})
    put_header(path, 1 << 11)
    before = Path(path).read_bytes()
    with pytest.raises(bp.FormatError, match="overlaps the filter of row group 0, column a"):
        add_filters(path, bloom="b", replace=True)
    assert Path(path).read_bytes() == before


def test_filter_reaching_into_a_row_group_is_an_error(path: str) -> None:
    insert_filters(path, 1 << 10, where="between")
    put_header(path, 1 << 12)
    set_filter_location(path, length=-1)
    before = Path(path).read_bytes()
    for change in (lambda: shrink_filters(path), lambda: add_filters(path, bloom="a", replace=True)):
        with pytest.raises(bp.FormatError, match="overlap the pages of row group 1, column a"):
            change()
        assert Path(path).read_bytes() == before


@pytest.mark.parametrize("extent", ["pages", "column index", "longer", "nothing", "beyond"])
def test_invalid_offset_index_is_an_error(path: str, extent: str) -> None:
    """Offset indexes are written again, so other bytes at their position must not be lost."""
    insert_filters(path, 1 << 15, where="between")

    def edit(metadata: dict[int, Field]) -> None:
        for chunk_id, chunk in chunks(metadata):
            if chunk_id == (1, 1):
                if extent == "pages":
                    chunk[4] = Field(I64, pages(chunk)[0])
                elif extent == "column index":
                    chunk[4], chunk[5] = chunk[6], chunk[7]
                elif extent == "longer":
                    chunk[5] = Field(I32, chunk[5].value + 20)
                elif extent == "nothing":
                    chunk[5] = Field(I32, -3)
                else:
                    chunk[4] = Field(I64, 1 << 40)

    edit_footer(path, edit)
    before = Path(path).read_bytes()
    with pytest.raises(bp.FormatError, match=r"offset index|overlap|damaged"):
        shrink_filters(path)
    assert Path(path).read_bytes() == before


def test_chunk_in_another_file_is_an_error(path: str) -> None:
    def edit(metadata: dict[int, Field]) -> None:
        chunk = metadata[4].value.values[1][1].value.values[0]
        metadata[4].value.values[1][1].value.values[0] = {1: Field(BINARY, b"other.parquet"), **chunk}

    edit_footer(path, edit)
    before = Path(path).read_bytes()
    for bloom in ("a", "b"):
        with pytest.raises(bp.FormatError, match=r"lies in another file, b'other.parquet'"):
            add_filters(path, bloom=bloom)
    assert Path(path).read_bytes() == before


def test_rewrite_checks_its_arguments(path: str) -> None:
    """Bytes that are needed are never removed."""
    footer = parse_footer(read_footer(path))
    size = Path(path).stat().st_size
    bloom = bp.SplitBlockBloomFilter.empty(1)
    start, _ = pages(next(chunks(decode(read_footer(path))))[1])
    for dead in [(0, 2), (start, start + 1), (size - 8 - len(footer.raw) - 1, size)]:
        with pytest.raises(bp.FormatError, match="overlap"):
            rewrite(path, size, footer, {(0, 0): bloom}, [dead], lambda _: [])


def test_files_without_row_groups_or_rows(tmp_path: Path) -> None:
    for groups in (0, 1):
        path = str(tmp_path / f"{groups}.parquet")
        with pq.ParquetWriter(path, TABLE.schema) as writer:
            for _ in range(groups):
                writer.write_table(TABLE.slice(0, 0))
        before = Path(path).read_bytes()
        assert add_filters(path, bloom=["a", "b"])[0].action == "unchanged"
        assert shrink_filters(path)[0].action == "unchanged"
        assert Path(path).read_bytes() == before
        assert add_filters(path, str(tmp_path / f"{groups}.copy"), bloom="a")[0].action == "copied"
        assert (tmp_path / f"{groups}.copy").read_bytes() == before
