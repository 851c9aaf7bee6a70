"""Chunks that contradict their footer are errors that name the chunk; each byte of other chunks is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.pages.headers import RLE_DICTIONARY, walk_pages
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.spec import Bloom
from tests.parquet.test_page_headers import chunk_of
from tests.support.chunk_filters import filters_of
from tests.support.core import Field, column_metadata, decode, edit_footer, encode
from tests.support.files import patch


def forge(path: Path, **changes: int) -> Path:
    """Change a number in the metadata of the first chunk."""
    fields = {"values": 5, "compressed": 7, "pages": 9, "dictionary": 11, "codec": 4, "uncompressed": 6}

    def edit(metadata: dict[int, Any]) -> None:
        chunk = column_metadata(metadata)
        for name, value in changes.items():
            chunk[fields[name]] = chunk[fields[name]]._replace(value=value)

    edit_footer(str(path), edit)
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.parquet"
    data = pa.table({"v": np.arange(1_000), "l": [[i, i] for i in range(1_000)]})
    pq.write_table(data, path, use_dictionary=False, write_page_checksum=True, compression="none")
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": 999}, "999 values, but its row group has 1000 rows"),
        ({"values": 1_001}, "1001 values, but its row group has 1000 rows"),
        ({"compressed": 100}, "claims"),
        ({"compressed": 0}, "0 bytes"),
        ({"compressed": 1 << 40}, "puts the column chunk at byte"),
        ({"pages": 0}, "at byte 0"),
        ({"pages": -5}, "at byte -5"),
        ({"pages": 1 << 50}, "at byte"),
        ({"codec": 1}, "row group 0, column v"),
        ({"codec": 99}, "row group 0, column v"),
        ({"codec": 3}, "row group 0, column v"),
    ],
)
def test_wrong_numbers_are_an_error_that_names_the_chunk(plain: Path, changes: dict[str, int], message: str) -> None:
    with pytest.raises(bp.BloomParquetError, match=message) as caught:
        filters_of(forge(plain, **changes))
    assert "plain.parquet: row group 0, column v: " in str(caught.value)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("at", [0.0, 0.5, 0.99])
def test_wrong_page_checksum_is_an_error(tmp_path: Path, dictionary: bool, at: float) -> None:
    path = tmp_path / "a.parquet"
    data = pa.table({"v": [f"value {i}" for i in range(500)]})
    pq.write_table(data, path, use_dictionary=dictionary, write_page_checksum=True, compression="none")
    chunk = walk_pages(*chunk_of(path))
    page = chunk.dictionary or chunk.data[0]
    content = bytearray(path.read_bytes())
    content[4 + page.body + int(page.size * at)] ^= 1
    path.write_bytes(content)
    with pytest.raises(bp.FormatError, match=r"a\.parquet: row group 0, column v: .*(CRC|crc)"):
        filters_of(path)


def test_dictionary_that_is_not_plain_is_not_used(tmp_path: Path) -> None:
    """The entries of such a dictionary would be decoded as other values."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": np.arange(100)}), path, compression="none")
    raw, values = chunk_of(path)
    page = walk_pages(raw, values).dictionary
    assert page is not None
    header = raw[page.start : page.body]
    fields = decode(header)
    fields[7].value[2] = fields[7].value[2]._replace(value=5)
    changed = encode(fields)
    assert len(changed) == len(header)
    patch(path, 4, changed)
    with pytest.raises(bp.FormatError, match="row group 0, column v"):
        filters_of(path)


def test_chunk_in_another_file_and_invalid_sizes(plain: Path) -> None:
    def elsewhere(metadata: dict[int, Any]) -> None:
        chunk = metadata[4].value.values[0][1].value.values[0]
        chunk[1] = Field(8, b"another.parquet")
        metadata[4].value.values[0][1].value.values[0] = dict(sorted(chunk.items()))

    def no_number(metadata: dict[int, Any]) -> None:
        column_metadata(metadata)[6] = Field(8, b"many")

    before = plain.read_bytes()
    for edit, message in ((elsewhere, "lies in another file"), (no_number, "expected an integer")):
        edit_footer(str(plain), edit)
        with pytest.raises(bp.FormatError, match=f"row group 0, column v: .*{message}"):
            filters_of(plain)
        plain.write_bytes(before)
    assert all(filters_of(plain).values())


def opened(path: Path) -> tuple[LocalStorage, FileInfo, Footer]:
    storage = LocalStorage()
    (file,) = storage.list_files(str(path), recursive=False)
    (footer,) = read_footers(storage, [file], ReadCount(), keys=None)
    assert footer is not None
    return storage, file, footer


def test_storage_error_passes_unchanged(plain: Path) -> None:
    storage, file, footer = opened(plain)
    for error in (OSError(5, "an error"), OSError("an error without a number, as those of pyarrow.fs")):
        with mock.patch.object(storage, "read_into", side_effect=error), pytest.raises(OSError, match="err") as caught:
            filter_chunk(storage, file, footer, 0, footer.profile.schema.leaves[0], Bloom(), ReadCount())
        assert caught.value is error


def test_one_request_reads_exactly_one_chunk(plain: Path) -> None:
    storage, file, footer = opened(plain)
    for leaf in footer.profile.schema.leaves:
        count = ReadCount()
        filter_chunk(storage, FileInfo(*file), footer, 0, leaf, Bloom(), count)
        size = pq.read_metadata(plain).row_group(0).column(leaf.index).total_compressed_size
        assert count == ReadCount(1, size + 4)


def test_list_with_fewer_values_than_rows_is_an_error(tmp_path: Path) -> None:
    """Without its last pages, the chunk looks fully dictionary encoded."""
    path = str(tmp_path / "a.parquet")
    lists = [[*range(4 * i, 4 * i + 4)] for i in range(1_000)]
    pq.write_table(
        pa.table({"l": lists}), path, dictionary_pagesize_limit=4_000, data_page_size=2_000, write_batch_size=64
    )
    pages = walk_pages(*chunk_of(Path(path))).data
    coded = [page.values for page in pages if page.encoding == RLE_DICTIONARY]
    assert 0 < len(coded) < len(pages), "a fallback is what this is about"

    def lie(metadata: dict[int, Any]) -> None:
        chunk = column_metadata(metadata)
        chunk[5] = chunk[5]._replace(value=sum(coded))

    edit_footer(path, lie)
    message = r"row group 0, column l\.list\.element: \d+ rows were decoded; expected 1000"
    with pytest.raises(bp.FormatError, match=message):
        filters_of(path)
