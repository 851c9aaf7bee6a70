"""The search in pages: a page is left out only if its bytes prove that no row has a wanted value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.pages import search
from bloomparquet.parquet.pages.headers import DATA_PAGE, DATA_PAGE_V2, PLAIN, RLE, Page
from bloomparquet.parquet.pages.places import find_pages
from bloomparquet.parquet.pages.search import PlainValues, rows_of_pages_with
from bloomparquet.parquet.values.encoding import plain_values
from bloomparquet.reading import cost, parquet_file
from bloomparquet.reading.parquet_file import ParquetFileReader
from tests.parquet.test_page_image import CODECS
from tests.support.page_files import check_search, flat_table, footer_of, reader_of

ROWS = 6_000


@pytest.mark.parametrize(("codec", "version"), CODECS)
@pytest.mark.parametrize("dictionary", [True, False])
def test_rows_with_a_value_are_found(tmp_path: Path, codec: str, version: str, dictionary: bool) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(
        flat_table(ROWS), path, compression=codec, data_page_version=version, use_dictionary=dictionary,
        data_page_size=2_000, row_group_size=4_000, dictionary_pagesize_limit=10_000, write_page_index=True,
    )  # fmt: skip
    check_search(path)


def rows_possible(path: Path, name: str, wanted: list[Any], log: list[tuple[int, int]] | None = None) -> np.ndarray:
    footer, read = footer_of(path), reader_of(path, log)
    (leaf,) = (leaf for leaf in footer.profile.schema.leaves if leaf.path == (name,))
    pages = find_pages(footer, 0, leaf, read)
    values = plain_values(leaf, wanted, footer.profile.traits, "UTC")
    if log is not None:
        log.clear()
    return rows_of_pages_with(pages, values, read, 1)


@pytest.mark.parametrize("name", ["int64", "int32", "text", "sparse_text", "timestamp"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_without_the_value_are_left_out(tmp_path: Path, name: str, version: str) -> None:
    """Without a dictionary, two pages of about 25 hold a value at most."""
    path, table = tmp_path / "x.parquet", flat_table(ROWS)
    pq.write_table(
        table, path, data_page_version=version, use_dictionary=False, data_page_size=2_000, max_rows_per_page=250
    )
    row = next(row for row in range(3_000, ROWS) if table[name][row].is_valid)
    rows = rows_possible(path, name, [table[name][row].as_py()])
    assert row in rows
    assert len(rows) <= 500


def test_of_a_dictionary_only_its_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": [f"value {i % 50}" for i in range(ROWS)]}), path, max_rows_per_page=500)
    log: list[tuple[int, int]] = []
    assert len(rows_possible(path, "x", ["value 7"], log)) == ROWS
    assert len(log) == 1
    assert not len(rows_possible(path, "x", ["value 50"]))


def test_a_page_may_use_a_dictionary_although_it_was_not_expected(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": [f"value {i % 50}" for i in range(ROWS)]}), path, max_rows_per_page=500)
    footer, read = footer_of(path), reader_of(path)
    pages = find_pages(footer, 0, footer.profile.schema.leaves[0], read)
    assert pages is not None
    unexpected = replace(pages, may_use_dictionary=np.zeros(len(pages.start), np.bool_))
    for value in ("value 7", "value 50"):
        values = plain_values(footer.profile.schema.leaves[0], [value], footer.profile.traits, "UTC")
        assert len(rows_of_pages_with(unexpected, values, read, 1)) == ROWS


BODY = np.array([1, 2, 3], "<u8").tobytes()
VALUES = np.array([7], "<u8")


def page(body: bytes, **changed: Any) -> tuple[Page, bytes, int]:
    header = Page(DATA_PAGE_V2, 0, 0, len(body), len(body), None, 3, PLAIN, 3, 0, 0)
    return header._replace(**changed), body, 0


@pytest.mark.parametrize(
    ("given", "values", "is_nullable", "expected"),
    [
        (page(BODY), VALUES, False, False),
        (page(BODY), np.array([7, 2], "<u8"), False, True),
        (page(BODY + b"\0"), VALUES, False, True),  # not a whole number of values
        (page(BODY, uncompressed_size=25), VALUES, False, True),
        (page(BODY, encoding=5), VALUES, False, True),  # DELTA_BINARY_PACKED
        (page(BODY, encoding=9), VALUES, False, True),  # BYTE_STREAM_SPLIT
        (page(b"\2\0\0\0\6\1" + BODY, type=DATA_PAGE, rows=0), VALUES, True, False),
        (page(b"\2\0\0\0\6\1" + BODY, type=DATA_PAGE, rows=0, level_encoding=4), VALUES, True, True),  # BIT_PACKED
        (page(b"\xff\0\0\0\6\1" + BODY, type=DATA_PAGE, rows=0), VALUES, True, True),  # levels beyond the page
        (page(b"\1\0\0\0a\1\0\0\0b"), [b"\1\0\0\0c"], False, False),
        (page(b"\1\0\0\0a\1\0\0\0b"), [b"\1\0\0\0c", b"\1\0\0\0b"], False, True),
    ],
)
def test_only_certain_bytes_prove(
    given: tuple[Page, bytes, int], values: PlainValues, is_nullable: bool, expected: bool
) -> None:
    header, body, codec = given
    assert search._may_hold(header, body, codec, values, is_nullable=is_nullable) is expected


def test_compressed_bytes_that_are_not_certain_prove_nothing() -> None:
    snappy, unknown = 1, 3
    body = pa.Codec("snappy").compress(BODY, asbytes=True)
    header = page(BODY)[0]._replace(size=len(body), uncompressed_size=len(BODY))
    assert not search._may_hold(header, body, snappy, VALUES, is_nullable=False)
    assert search._may_hold(header, body[:-3], snappy, VALUES, is_nullable=False)
    assert search._may_hold(header, body, unknown, VALUES, is_nullable=False)
    assert header.level_encoding == RLE


def test_a_page_of_version_2_may_be_stored_as_it_is() -> None:
    """Its bytes, and what they are decompressed to, must both lack the value."""
    stored, snappy = page(BODY)[0], 1
    assert not search._may_hold(stored, BODY, snappy, VALUES, is_nullable=False)
    assert search._may_hold(stored, BODY, snappy, np.array([2], "<u8"), is_nullable=False)
    plain = bytes(range(1, 9)) * 100
    body = pa.Codec("snappy").compress(plain, asbytes=True)
    both = stored._replace(size=len(body), uncompressed_size=len(plain))
    assert search._may_hold(both, body, snappy, np.frombuffer(plain[:8], "<u8"), is_nullable=False)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The number of rows that each search leaves; None for all. Columns of any size are searched."""
    numbers: list[int | None] = []
    original = ParquetFileReader.find_rows

    def find_rows(self: ParquetFileReader, *arguments: Any) -> Any:
        rows = original(self, *arguments)
        numbers.append(None if rows is None else len(rows))
        return rows

    monkeypatch.setattr(ParquetFileReader, "find_rows", find_rows)
    monkeypatch.setattr(cost, "_LEAST_SEARCHED", 0)
    monkeypatch.setattr(parquet_file, "reads_pages", lambda *_: True)
    return numbers


@pytest.mark.parametrize(
    ("where", "expected", "number"),
    [
        ("id = 5999", [5999], 250),
        ("id IN (3, 5999) AND v > 0", [3, 5999], 500),
        ("id = 3 AND id = 4", [], 250),
        ("id = 6000", [], 0),
        ("text = 'text 17' AND v = 18", [], 250),
        ("text = 'text 17' AND v = 17", [17], 250),
        ("id = 3 OR v = 4", [3, 4], None),
        ("NOT id = 3 AND id < 6", [0, 1, 2, 4, 5], None),
        ("id = 3.5", [], 0),
        ("`a.b` = 11", [11], 250),
        ("many = 3", list(range(3, ROWS, 1000)), 1500),
        ("id IN (1, 2, 3, 4, 5)", [1, 2, 3, 4, 5], None),
    ],
)
def test_read_table_gives_the_matching_rows(
    tmp_path: Path, searched: list[int | None], where: str, expected: list[int], number: int | None
) -> None:
    numbers = np.arange(ROWS)
    table = pa.table({
        "v": numbers, "id": numbers, "text": [f"text {i}" for i in range(ROWS)], "a.b": numbers, "many": numbers % 1000,
    })  # fmt: skip
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, use_dictionary=False, max_rows_per_page=250, write_statistics=False)
    assert bp.read_table(path, where)["v"].to_pylist() == expected
    assert bp.read_table(path, where, ["text"])["text"].to_pylist() == [f"text {i}" for i in expected]
    assert bp.count(path, where) == len(expected)
    assert set(searched) <= {number}


def test_a_value_of_another_width_or_sign_is_found(tmp_path: Path, searched: list[int | None]) -> None:
    """Each file's own type says which bytes a value has."""
    for i, kind in enumerate([pa.int64(), pa.int32(), pa.uint32(), pa.int8()]):
        column = pa.array([100, None, 7], kind)
        pq.write_table(pa.table({"n": column}), tmp_path / f"{i}.parquet", use_dictionary=False, write_statistics=False)
    assert bp.read_table(tmp_path, "n = 7").num_rows == 4
    assert bp.read_table(tmp_path, "n = 9").num_rows == 0
    assert 0 in searched
