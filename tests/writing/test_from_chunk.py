"""The filter of a column chunk holds every stored value, in every encoding, and has the size that they need. Chunks
that contradict their footer are errors that name them; each byte of other chunks is read once."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.pages.headers import RLE_DICTIONARY, walk_pages
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.spec import Bloom
from tests.parquet.test_page_headers import chunk_of
from tests.support import interop
from tests.support.chunk_filters import assert_complete, filters_of, leaves
from tests.support.core import Field, column_metadata, decode, edit_footer, encode
from tests.support.files import patch
from tests.support.stored import bitsets, lacking

ROWS = 900
_NAMES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "date32",
    "time_ms", "time_us", "time_ns", "timestamp_ms", "utc_us", "timestamp_ns", "string", "binary", "fixed_5",
    "fixed_33", "uuid", "decimal_5_2", "decimal_18_4", "decimal_20_2", "decimal_38_10", "decimal256",
)  # fmt: skip
KINDS = {name: interop.TYPES[name] for name in _NAMES}
FLOATS = {"float16", "float32", "float64"}
TABLE = interop.table(KINDS, ROWS)
"""Two row groups of 512 values each (fewer for narrow types), and nulls."""

INTEGERS = [name for name, kind in KINDS.items() if pa.types.is_integer(kind.arrow)]
TEXTS = ["string", "binary"]
FIXED = ["fixed_5", "fixed_33", "float16", "uuid", "decimal_20_2"]
ENCODINGS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "plain": (list(KINDS), {"use_dictionary": False}),
    "dictionary": (list(KINDS), {"use_dictionary": True}),
    "fallback": (list(KINDS), {"dictionary_pagesize_limit": 400, "write_batch_size": 50, "data_page_size": 500}),
    "delta_binary_packed": ([*INTEGERS, "date32", "time_us", "utc_us"], {"column_encoding": "DELTA_BINARY_PACKED"}),
    "delta_length_byte_array": (TEXTS, {"column_encoding": "DELTA_LENGTH_BYTE_ARRAY"}),
    "delta_byte_array": ([*TEXTS, *FIXED], {"column_encoding": "DELTA_BYTE_ARRAY"}),
    "byte_stream_split": (
        ["int32", "int64", "float32", "float64", "utc_us", *FIXED], {"column_encoding": "BYTE_STREAM_SPLIT"}
    ),
}  # fmt: skip


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    if "column_encoding" in options:
        encoding = options.pop("column_encoding")
        options |= {"use_dictionary": False, "column_encoding": dict.fromkeys(table.column_names, encoding)}
    pq.write_table(table, path, row_group_size=ROWS, **options)
    return path


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_filter_of_every_type_and_encoding(tmp_path: Path, encoding: str, version: str) -> None:
    columns, options = ENCODINGS[encoding]
    path = write(tmp_path / "a.parquet", TABLE.select(columns), data_page_version=version, **options)
    filters = assert_complete(path)
    assert len(filters) == 2 * len(columns)
    first = pq.read_metadata(path).row_group(0)
    written = {each for i in range(len(columns)) for each in first.column(i).encodings}
    if "column_encoding" in options:
        assert options["column_encoding"] in written
    if encoding == "fallback":
        wide = columns.index("fixed_33")
        assert not walk_pages(*chunk_of(path, wide)).is_dictionary_encoded
        assert walk_pages(*chunk_of(path, wide)).dictionary is not None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
def test_filter_of_every_codec(tmp_path: Path, codec: str, dictionary: bool, version: str) -> None:
    table = TABLE.select(["int64", "string", "float64", "decimal_20_2"])
    path = write(
        tmp_path / "a.parquet", table, compression=codec, use_dictionary=dictionary, data_page_version=version,
        write_page_checksum=True,
    )  # fmt: skip
    assert_complete(path)


@pytest.mark.parametrize("column", [name for name in KINDS if name not in FLOATS])
def test_filter_equals_that_of_arrow(tmp_path: Path, column: str) -> None:
    """An independent implementation: Arrow's filter of equal size."""
    table = TABLE.select([column])
    ours = filters_of(write(tmp_path / "without.parquet", table))
    for (row_group, _), bloom in ours.items():
        assert bloom is not None
        options = {column: {"ndv": 1, "fpp": math.expm1(-8.0 / (0.75 * 8 * bloom.num_bytes)) ** 8}}
        theirs = tmp_path / "theirs.parquet"
        pq.write_table(table.slice(row_group * ROWS, ROWS), theirs, bloom_filter_options=options)
        assert bitsets(str(theirs)) == {(0, 0): bloom.to_bytes()}


NESTED = pa.table({
    "struct": pa.array([{"a": i, "b": {"c": f"v{i}"}} if i % 7 else None for i in range(300)]),
    "list": pa.array([None if i % 5 == 0 else [] if i % 5 == 1 else [i, None, -i] for i in range(300)]),
    "lists": pa.array([[[i], None, [], [i + 1, i + 2]] if i % 3 else None for i in range(300)]),
    "map": pa.array(
        [[(f"k{i}", i / 4), ("x", None)] if i % 4 else [] for i in range(300)], pa.map_(pa.string(), pa.float64())
    ),
    "structs": pa.array([[{"x": i, "y": None}, None, {"x": None, "y": f"y{i}"}] if i % 3 else [] for i in range(300)]),
    "fixed": pa.array([[i, i + 1] for i in range(300)], pa.list_(pa.int32(), 2)),
    "in_struct": pa.array([{"l": [{"m": [i]}]} if i % 2 else {"l": None} for i in range(300)]),
})  # fmt: skip


@pytest.mark.parametrize("compliant", [True, False])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_filter_of_every_nested_leaf(tmp_path: Path, dictionary: bool, version: str, compliant: bool) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        NESTED, path, row_group_size=100, use_dictionary=dictionary, data_page_version=version,
        use_compliant_nested_type=compliant, data_page_size=200, write_batch_size=10,
    )  # fmt: skip
    filters = assert_complete(path)
    assert len(filters) == 3 * len(leaves(path)) == 30


def test_lists_without_annotation(tmp_path: Path) -> None:
    """A repeated leaf and a repeated group, as protocol buffers and old Avro write them."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"l": [[1, 2], [], [3]], "m": [[{"x": 4}], [{"x": 5}, {"x": 6}], []]}), path)

    def edit(metadata: dict[int, Any]) -> None:
        for element in metadata[2].value.values:
            element.pop(6, None)
            element.pop(10, None)

    edit_footer(str(path), edit)
    filters = filters_of(path)
    for chunk_id, values in {(0, 0): (1, 2, 3), (0, 1): (4, 5, 6)}.items():
        bloom = filters[chunk_id]
        assert bloom is not None
        assert not lacking(bloom.to_bytes(), {xxhash.xxh64_intdigest(struct.pack("<q", value)) for value in values})


@pytest.mark.parametrize("dictionary", [True, False])
def test_int96_of_arrow(tmp_path: Path, dictionary: bool) -> None:
    day = 86_400 * 10**9
    moments = [0, None, 1_000, -1_000, 10**18, -(10**18), day - 1_000]
    path = str(tmp_path / "a.parquet")

    def write(added: list[int | None]) -> str:
        table = pa.table({"t": pa.array(moments + added, pa.timestamp("ns"))})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True, use_dictionary=dictionary)
        assert pq.ParquetFile(path).schema.column(0).physical_type == "INT96"
        return path

    (bloom,) = assert_complete(write([])).values()
    assert bloom is not None
    for nanoseconds in (1, -1, day - 1, 10**18 + 999):
        assert list(filters_of(write([nanoseconds])).values()) == [None], "readers truncate it"


def test_int96_beyond_its_day_has_no_filter(parquet_testing_dir: Path) -> None:
    """A negative number of nanoseconds stands for a time of another day, which has other bytes."""
    assert list(filters_of(parquet_testing_dir / "int96_from_spark.parquet").values()) == [None]


def test_chunk_without_values_and_chunk_of_nulls(tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.int64(), "s": pa.string()})
    groups = [{"a": [None, None], "s": [None, None]}, {"a": [], "s": []}, {"a": [1], "s": ["x"]}]
    for dictionary in (True, False):
        path = tmp_path / f"{dictionary}.parquet"
        with pq.ParquetWriter(path, schema, use_dictionary=dictionary) as writer:
            for group in groups:
                writer.write_table(pa.table(group, schema))
        filters = assert_complete(path)
        empty = SplitBlockBloomFilter.empty(1).to_bytes()
        is_empty = [bloom and bloom.to_bytes() == empty for bloom in filters.values()]
        assert is_empty == [True, True, None, None, False, False]
    with pq.ParquetWriter(tmp_path / "none.parquet", schema):
        pass
    assert filters_of(tmp_path / "none.parquet") == {}


def test_values_split_over_pages_and_batches(tmp_path: Path) -> None:
    """More values than one batch, in many pages. The last value of each row group is found."""
    table = pa.table({"i": np.arange(80_000) * 7, "s": pa.array([f"{i}" for i in range(80_000)])})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=70_000, use_dictionary=False, data_page_size=10_000)
    assert_complete(path)
    assert len(walk_pages(*chunk_of(path)).data) > 30


def test_repeated_large_values_are_decoded_in_small_batches(tmp_path: Path) -> None:
    """A dictionary of megabytes, used by many rows, in a chunk that falls back to PLAIN at its end."""
    path = tmp_path / "a.parquet"
    large = pa.array([chr(65 + i) * 400_000 for i in range(4)], pa.large_string())
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(1_200) % 4, pa.int32()), large)
    with pq.ParquetWriter(path, pa.schema({"v": column.type}), dictionary_pagesize_limit=10_000_000) as writer:
        writer.write_table(pa.table({"v": column}))
    raw, values = chunk_of(path)
    chunk = walk_pages(raw, values)
    assert chunk.dictionary is not None
    program = (
        "import sys, pyarrow as pa\n"
        "from bloomparquet.parquet.pages import headers as pages\n"
        "from tests.support.chunk_filters import filters_of\n"
        "pages.Chunk.is_dictionary_encoded = property(lambda chunk: False)\n"
        "(bloom,) = filters_of(sys.argv[1]).values()\n"
        "print(bloom.num_bytes, pa.default_memory_pool().max_memory())\n"
    )
    command, root = [sys.executable, "-c", program, str(path)], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    num_bytes, most = map(int, done.stdout.split())
    assert num_bytes <= 32 * 512
    assert most < 300_000_000, "1,200 rows of 400,000 bytes each"


def test_column_names_that_are_not_utf8_or_special(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = ["array", "list", "a.b", "", "élan", "x_tuple", "column"]
    pq.write_table(pa.table([[f"{name}{i}" for i in range(9)] for name in columns], names=columns), path)
    assert len(assert_complete(path)) == len(columns)

    def rename(metadata: dict[int, Any]) -> None:
        element = metadata[2].value.values[7]
        element[4] = element[4]._replace(value=b"\xff\xfe bytes")
        chunk = column_metadata(metadata, 0, 6)
        chunk[3] = chunk[3]._replace(value=chunk[3].value._replace(values=[b"\xff\xfe bytes"]))

    edit_footer(str(path), rename)
    bloom = filters_of(path)[0, 6]
    assert bloom is not None
    assert not lacking(bloom.to_bytes(), {xxhash.xxh64_intdigest(f"column{i}".encode()) for i in range(9)})


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
