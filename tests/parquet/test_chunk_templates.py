"""Column chunks that are read by templates of their bytes equal those that are decoded field by field."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bloomparquet.parquet.metadata.chunk_fields import ChunkFields
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.parquet.thrift import template
from bloomparquet.parquet.thrift.definitions import FileMetaData, Statistics
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.storage.varint import read_varint
from tests.support.core import read_footer
from tests.support.files import write

_CHOICES: list[list[Any]] = [
    [None, *("x" * size for size in (0, 1, 127, 128, 300, 20_000))],
    [None, 0, -1, 2**40, -(2**62)],
    [None, 0.0, -0.0, float("nan"), 1.5],
    [None, True, False],
    [None, {"x": 1, "y": ""}, {"x": 2, "y": "q" * 128}],
    [None, [], [1, 2]],
]


def test_templates_read_what_full_decoding_reads(tmp_path: Path) -> None:
    """Bounds of 0 to 20,000 bytes, missing statistics and filters, pages of both versions."""
    rng = random.Random(3)
    for number in range(60):
        rows = rng.randrange(2, 80)
        chosen = [rng.randrange(6) for _ in range(rng.randrange(1, 6))]
        table = pa.table(
            {f"c{i}": pa.array([rng.choice(_CHOICES[kind]) for _ in range(rows)]) for i, kind in enumerate(chosen)}
        )
        path = write(
            tmp_path / f"{number}.parquet",
            table,
            [f"c{i}" for i, kind in enumerate(chosen) if kind < 3 and rng.random() < 0.5],
            rows_per_group=rng.randrange(2, 20),
            write_statistics=rng.random() < 0.8,
            write_page_index=rng.random() < 0.5,
            data_page_version=rng.choice(["1.0", "2.0"]),
        )
        raw = read_footer(path)
        footer = parse_footer(raw)
        for i, group in enumerate(read_struct(raw, FileMetaData)[0].row_groups):
            assert footer.rows[i] == group.num_rows
            for j, chunk in enumerate(group.columns):
                metadata = chunk.meta_data
                bounds = metadata.statistics or Statistics()
                expected = ChunkFields(
                    values=metadata.num_values,
                    nulls=bounds.null_count,
                    nans=bounds.nan_count,
                    bloom_offset=metadata.bloom_filter_offset,
                    bloom_length=metadata.bloom_filter_length,
                    compressed_size=metadata.total_compressed_size,
                    data_page_offset=metadata.data_page_offset,
                    dictionary_page_offset=metadata.dictionary_page_offset,
                    deprecated_max=bounds.max,
                    deprecated_min=bounds.min,
                    max_value=bounds.max_value,
                    min_value=bounds.min_value,
                    **dict.fromkeys(ChunkFields._fields[12:]),
                )
                assert footer.read_chunk(i, j) == expected


@pytest.mark.parametrize("bits", range(0, 62, 3))
def test_numbers_of_every_length_are_read_from_templates(bits: int) -> None:
    """A wrong offset or count would read another filter, or skip rows."""
    sizes = sorted({(1 << bits) - 1, 1 << bits, (1 << bits) + 1, (3 << bits) - 1})
    for size in sizes:
        varint = bytes(size >> shift & 0x7F | 0x80 for shift in range(0, max(size.bit_length(), 1), 7))
        raw = varint[:-1] + bytes([varint[-1] & 0x7F])
        assert template.varint(raw) == size == read_varint(raw, 0)[0]
        assert template.zigzag(raw) == (size >> 1) ^ -(size & 1)
