"""Footers that are parsed many at once equal footers that are parsed alone."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.metadata import column_chunks, row_group_scan
from bloomparquet.parquet.metadata import footer as footers
from bloomparquet.parquet.metadata.chunk_fields import NO_FIELDS, ChunkColumns, ChunkFields
from bloomparquet.parquet.metadata.column_chunks import ChunkTemplates
from bloomparquet.parquet.metadata.footer import Footer, parse_alike, parse_footer
from bloomparquet.parquet.metadata.read_column import read_column, read_extents
from tests.support.core import Field, column_metadata, decode, encode

MANY = 64
_COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "i": (pa.int64(), lambda rng: rng.choice([None, 0, -1, 2**40, -(2**62)])),
    "s": (pa.string(), lambda rng: rng.choice([None, *("x" * size for size in (0, 1, 127, 128, 300))])),
    "f": (pa.float64(), lambda rng: rng.choice([None, 0.0, -0.0, float("nan"), 1.5])),
    "l": (pa.list_(pa.int32()), lambda rng: rng.choice([None, [], [1, 2]])),
    "t": (pa.struct({"u": pa.binary(3)}), lambda rng: rng.choice([None, {"u": None}, {"u": b"abc"}])),
}


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (column_chunks, row_group_scan, footers):
        monkeypatch.setattr(module, "MANY", MANY)


def footer_bytes(rng: random.Random, columns: str = "".join(_COLUMNS), **options: Any) -> bytes:
    """The footer of a small file with random values, of one to four row groups."""
    rows = rng.randrange(1, 40)
    arrays = {name: pa.array([_COLUMNS[name][1](rng) for _ in range(rows)], _COLUMNS[name][0]) for name in columns}
    sink = io.BytesIO()
    filtered = [name for name in columns if name in "is"]
    options = {"bloom_filter_options": {name: {"ndv": 10, "fpp": 0.1} for name in filtered}} | options
    pq.write_table(pa.table(arrays), sink, row_group_size=max(1, -(-rows // rng.randrange(1, 5))), **options)
    file = sink.getvalue()
    return file[-8 - int.from_bytes(file[-8:-4], "little") : -8]


def alone(raw: bytes) -> Footer | BloomParquetError:
    try:
        return parse_footer(raw)
    except BloomParquetError as error:
        return error


def require_equal(raws: Sequence[bytes]) -> int:
    """Assert that each footer that is parsed together with others is what it is alone. Gives their number."""
    together = parse_alike(raws)
    for raw, footer in zip(raws, together, strict=True):
        if footer is None:
            continue
        expected = alone(raw)
        assert isinstance(expected, Footer), expected
        assert footer.profile is expected.profile
        assert (footer.raw, footer.rows, footer.sizes) == (expected.raw, expected.rows, expected.sizes)
        assert (footer.key_values, footer.size) == (expected.key_values, expected.size)
        assert np.array_equal(footer.chunks, expected.chunks)
    return sum(footer is not None for footer in together)


def require_equal_columns(footers: Sequence[Footer]) -> None:
    """Assert that each column that is read of many footers is what it is of each footer alone."""
    for profile in {id(footer.profile): footer.profile for footer in footers}.values():
        some = [footer for footer in footers if footer.profile is profile]
        for leaf in range(len(profile.schema.leaves)):
            expected = [fields_alone(footer, i, leaf) for footer in some for i in range(len(footer.rows))]
            columns, is_read = read_column(some, leaf)
            assert is_read.tolist() == [fields is not None for fields in expected]
            alone = ChunkColumns.of([fields or NO_FIELDS for fields in expected])
            for one, many in zip(alone.numbers, columns.numbers, strict=True):
                assert one.tolist() == many.tolist()
            assert (alone.lower, alone.upper) == (columns.lower, columns.upper)
            assert columns.deprecated[is_read].tolist() == alone.deprecated[is_read].tolist()


def fields_alone(footer: Footer, row_group: int, leaf: int) -> ChunkFields | None:
    try:
        return footer.read_chunk(row_group, leaf)
    except BloomParquetError:
        return None


def test_footers_of_one_writer_are_parsed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    raws = [footer_bytes(rng, "il", data_page_version="2.0") for _ in range(5 * MANY)]
    raws = [raw for raw in raws if len(parse_footer(raw).rows) == 2] * 3
    alone: list[int] = []
    skip = ChunkTemplates.skip
    monkeypatch.setattr(ChunkTemplates, "skip", lambda *arguments: alone.append(1) or skip(*arguments))
    parsed = [footer for footer in parse_alike(raws) if footer is not None]
    read_column(parsed, 0)
    assert (len(parsed), len(raws) > 3 * MANY) == (len(raws), True)
    # By row group, leaf and form one chunk is read alone, and those of rare forms.
    assert len(alone) < len(raws)
    require_equal(raws)
    require_equal_columns(parsed)


def test_footers_of_several_schemas_are_parsed_together() -> None:
    rng = random.Random(2)
    writers: list[dict[str, Any]] = [
        {},
        {"write_statistics": False},
        {"columns": "is", "write_page_index": True},
        {"columns": "si", "use_dictionary": False, "compression": "zstd"},
        {"data_page_version": "2.0", "bloom_filter_options": None},
    ]
    raws = [footer_bytes(rng, **rng.choice(writers)) for _ in range(10 * MANY)]
    assert require_equal(raws) >= 8 * MANY
    require_equal_columns([parse_footer(raw) for raw in raws])


def test_numbers_of_every_length_are_read_together() -> None:
    """A wrong offset or count would read another filter, or skip rows."""
    rng = random.Random(3)
    raws = []
    for i in range(4 * MANY):
        tree = decode(footer_bytes(rng))
        for number, group in enumerate(tree[4].value.values):
            chunk = column_metadata(tree, number)
            for field in (5, 9, 11, 14):  # num_values, data_page_offset, dictionary_page_offset, bloom_filter_offset
                chunk[field] = Field(6, rng.choice([1, 1, 1, -1]) * rng.randrange(1 << i % 63))
            group[3] = Field(6, rng.randrange(1 << i % 63))
        raws.append(encode(tree))
    assert require_equal(raws) >= 2 * MANY
    require_equal_columns([parse_footer(raw) for raw in raws])


@pytest.mark.parametrize(
    ("pages", "dictionary", "size", "start"),
    [
        (1000, None, 50, 1000), (1000, 4, 50, 4), (1000, 0, 50, 0), (1000, 2000, 50, 1000), (0, None, 50, 0),
        (1000, 4, 0, 4), (1000, 4, None, -1), (-9, None, 50, -1), (1000, -9, 50, -1),
    ],
)  # fmt: skip
def test_extents_follow_the_first_page_of_the_first_chunk(
    pages: int, dictionary: int | None, size: int | None, start: int
) -> None:
    tree = decode(footer_bytes(random.Random(5), "is"))
    for number, group in enumerate(tree[4].value.values):
        chunk = column_metadata(tree, number)
        chunk[9] = Field(6, pages)
        chunk.pop(11, None)
        if dictionary is not None:
            chunk[11] = Field(6, dictionary)
        group.pop(6, None)
        if size is not None:
            group[6] = Field(6, size)
    footer = parse_footer(encode(tree))
    expected = [start, -1 if start < 0 else size]
    assert read_extents([footer] * MANY).tolist() == [expected] * MANY * len(footer.rows)


def test_the_first_damaged_file_of_many_is_reported(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i:03}.parquet" for i in range(2 * MANY)]
    for i, path in enumerate(paths):
        pq.write_table(pa.table({"id": [i]}), path)
    for i in (70, 90):
        raw = paths[i].read_bytes()
        size = int.from_bytes(raw[-8:-4], "little")
        paths[i].write_bytes(raw[: -8 - size] + bytes(size) + raw[-8:])
    with pytest.raises(bp.FormatError, match=r"070\.parquet: the footer \(\d+ bytes\) is damaged"):
        bp.plan(tmp_path, "id = 7")
    plan = bp.plan(tmp_path, "id = 100", skip_corrupt=True)
    assert (plan.total, plan.kept, plan.footer_reads.requests) == (2 * MANY - 2, 1, 2 * MANY + 2)  # two for: no ORC
