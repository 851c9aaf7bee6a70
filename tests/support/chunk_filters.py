"""Filters of the column chunks of a file, and the check that they hold all values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import xxhash

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.storage.files import LocalStorage, ReadCount
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.spec import Bloom, why_unsuitable
from tests.support.stored import hashes_by_chunk, lacking


def filters_of(path: Path | str, bloom: Bloom | None = None) -> dict[tuple[int, int], SplitBlockBloomFilter | None]:
    """The filters of all suitable chunks, by row group and leaf."""
    storage, count = LocalStorage(), ReadCount()
    (file,) = storage.list_files(str(path), recursive=False)
    (footer,) = read_footers(storage, [file], count, keys=None)
    assert footer is not None
    return {
        (i, leaf.index): filter_chunk(storage, file, footer, i, leaf, bloom or Bloom(), count)
        for i in range(len(footer.rows))
        for leaf in footer.profile.schema.leaves
        if why_unsuitable(leaf, named=True) is None
    }


def assert_complete(path: Path | str) -> dict[tuple[int, int], SplitBlockBloomFilter | None]:
    """Assert that filters hold all values and few other hashes, and that only chunks without values have none."""
    filters = filters_of(path)
    hashes = hashes_by_chunk(str(path))
    others = np.array([xxhash.xxh64_intdigest(b"absent %d" % i) for i in range(2_000)], np.uint64)
    for chunk_id, bloom in filters.items():
        if bloom is None:
            assert not hashes[chunk_id]
            continue
        assert not lacking(bloom.to_bytes(), hashes[chunk_id]), f"{chunk_id} lacks values that are stored"
        assert bloom.check(others).mean() <= 0.05, f"{chunk_id} proves nothing"
    return filters


def leaves(path: Path | str) -> list[str]:
    schema = pq.ParquetFile(path).schema
    return [schema.column(i).path for i in range(len(schema))]
