"""Page headers of a column chunk: offsets, sizes and encodings; wrong headers are an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.pages import headers as pages
from bloomparquet.parquet.pages.headers import walk_pages
from tests.support.core import Field, encode

I32, STRUCT = 5, 12


def page(
    kind: int,
    body: bytes = b"",
    values: int = 0,
    encoding: int = 0,
    *,
    size: int | None = None,
    crc: int | None = None,
    without: int | None = None,
    more: dict[int, Field] | None = None,
) -> bytes:
    """A page with its header. `without` is the id of a field to leave out."""
    at, encoding_at = {0: (5, 2), 2: (7, 2), 3: (8, 4)}.get(kind, (6, 2))
    details = {1: Field(I32, values), encoding_at: Field(I32, encoding)}
    if kind == 3:  # as many rows as values, and no levels
        details |= {3: Field(I32, values), 5: Field(I32, 0), 6: Field(I32, 0)}
    fields = {1: Field(I32, kind), 2: Field(I32, 2 * len(body)), 3: Field(I32, len(body) if size is None else size)}
    if crc is not None:
        fields[4] = Field(I32, crc)
    fields[at] = Field(STRUCT, details if kind in (0, 2, 3) else {})
    fields |= more or {}
    if without is not None:
        del fields[without]
    return encode(fields) + body


def chunk_of(path: Path, column: int = 0, row_group: int = 0) -> tuple[bytes, int]:
    """The bytes of a column chunk and its number of values, by pyarrow."""
    chunk = pq.read_metadata(path).row_group(row_group).column(column)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return path.read_bytes()[start : start + chunk.total_compressed_size], chunk.num_values


def test_offsets_sizes_and_encodings() -> None:
    first = page(2, b"dictionary", 3, pages.PLAIN, crc=-5)
    second = page(0, b"data", 10, pages.RLE_DICTIONARY)
    third = page(3, b"", 2, pages.PLAIN)
    chunk = walk_pages(first + second + third + b"trailing", 12)
    assert chunk.dictionary == pages.Page(2, 0, len(first) - 10, 10, 20, -5, 3, pages.PLAIN, 0, 0, 0)
    start = len(first)
    assert chunk.data == (
        pages.Page(0, start, start + len(second) - 4, 4, 8, None, 10, pages.RLE_DICTIONARY, 0, 0, 0),
        pages.Page(3, start + len(second), start + len(second + third), 0, 0, None, 2, pages.PLAIN, 2, 0, 0),
    )
    assert chunk.end == len(first + second + third)


@pytest.mark.parametrize(
    ("encodings", "expected"),
    [
        ([pages.RLE_DICTIONARY], True),
        ([pages.PLAIN_DICTIONARY, pages.RLE_DICTIONARY], True),
        ([pages.RLE_DICTIONARY, pages.PLAIN], False),
        ([pages.PLAIN, pages.RLE_DICTIONARY], False),
        ([5], False),
        ([pages.RLE], False),
    ],
)
def test_a_chunk_is_dictionary_encoded_when_every_page_is(encodings: list[int], expected: bool) -> None:
    data = b"".join(page(0, b"x", 1, encoding) for encoding in encodings)
    assert walk_pages(page(2, b"d", 1) + data, len(encodings)).is_dictionary_encoded is expected
    assert walk_pages(data, len(encodings)).is_dictionary_encoded is False


def test_index_pages_and_unknown_pages_are_skipped() -> None:
    raw = page(1, b"index") + page(0, b"a", 1) + page(9, b"new") + page(0, b"b", 1)
    chunk = walk_pages(raw, 2)
    assert [each.type for each in chunk.data] == [0, 0]
    assert chunk.end == len(raw)


@pytest.mark.parametrize(
    ("raw", "values", "message"),
    [
        (b"", 1, "end inside"),
        (page(0, b"abc", 5), 6, "end inside"),
        (page(0, b"abc", 5), 4, "have 5 values, but its metadata says 4"),
        (page(0, b"abc", 5, size=4), 5, "claims 4 bytes; 3 are left"),
        (page(0, b"abc", 5, size=-1), 5, "negative number.*size=-1"),
        (page(0, b"abc", -5), 5, "negative number.*values=-5"),
        (page(0, b"abc", 5, without=3), 5, "lacks a required field.*{1: 0, 2: 6, 5: "),
        (page(0, b"abc", 5, without=1), 5, "lacks a required field.*{2: 6, 3: 3, 5: "),
        (page(0, b"abc", 5, without=5), 5, "lacks a required field.*{1: 0, 2: 6, 3: 3}"),
        (page(0, b"abc", 5, more={5: Field(I32, 3)}), 5, "one of another type.*5: 3}"),
        (page(0, b"abc", 1, more={5: Field(STRUCT, {1: Field(1, True), 2: Field(I32, 0)})}), 1, "one of another type"),
        (page(0, b"abc", 5, more={3: Field(8, b"\x03")}), 5, "one of another type.*3: b"),
        (page(2, b"d", 1) + page(2, b"d", 1) + page(0, b"a", 1), 1, "unexpected dictionary page"),
        (page(0, b"a", 1) + page(2, b"d", 1) + page(0, b"a", 1), 2, "unexpected dictionary page"),
    ],
)
def test_wrong_headers_are_an_error(raw: bytes, values: int, message: str) -> None:
    with pytest.raises(bp.FormatError, match=message):
        walk_pages(raw, values)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_pages_that_arrow_wrote_are_walked_to_the_end(tmp_path: Path, version: str, codec: str) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({
        "few": pa.array(rng.integers(0, 9, 5_000)),
        "many": pa.array([f"{i:0200}" for i in range(5_000)]),
        "lists": pa.array([[i, i + 1] if i % 3 else None for i in range(5_000)]),
    })  # fmt: skip
    path = tmp_path / "a.parquet"
    pq.write_table(
        table, path, data_page_version=version, compression=codec, data_page_size=2_000, write_batch_size=100,
        dictionary_pagesize_limit=20_000, write_page_checksum=True,
    )  # fmt: skip
    for column in range(3):
        raw, values = chunk_of(path, column)
        chunk = walk_pages(raw, values)
        assert chunk.end == len(raw)
        assert {each.type for each in chunk.data} == {0 if version == "1.0" else 3}
        assert len(chunk.data) >= 2
        assert all(each.crc is not None for each in (chunk.dictionary, *chunk.data))
        assert chunk.is_dictionary_encoded is (column == 0)
