"""An encrypted file to add filters to, and assertions about the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.writing.encryption import Encryption
from tests.support.encrypted_modules import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    bitsets,
    chunks,
    filter_excerpts,
    find_secrets,
    footer_of,
    hashes,
    metadata,
)
from tests.support.stored import lacking

ROWS, GROUPS = 300, 3
N = ROWS * GROUPS
IDS = np.random.default_rng(3).choice(1 << 50, N, replace=False) * 2
TABLE = pa.table({
    "id": IDS,
    "name": pa.array([f"secret name {i}" if i % 9 else None for i in IDS]),
    "city": pa.array([f"city {i * 7919 % 1009}" for i in range(N)]),
    "st": pa.array([{"x": int(i) ^ 0x5555} for i in IDS]),
})  # fmt: skip
ID, NAME, CITY, X = range(4)  # leaves
BLOOM = ["id", "name", "city", "st.x"]
FOOTER, FIRST, SECOND = b"the-footer's-key", b"key-of-column-id", b"names'-very-key!"
ALL = bp.Keys(FOOTER, {"id": FIRST, "name": SECOND})
WITHOUT_NAME = bp.Keys(FOOTER, {"id": FIRST})
WITHOUT_FOOTER = bp.Keys(None, {"id": FIRST, "name": SECOND})
LARGE = bp.Bloom(0.01, ndv=20_000)
FOOTERS = pytest.mark.parametrize("plaintext_footer", [False, True], ids=["sealed", "signed"])


def write(path: Path, bloom: Any = None, *, keys: bp.Keys = ALL, plaintext_footer: bool = False, **options: Any) -> str:
    options = {
        "row_group_size": ROWS, "write_page_index": True, "data_page_size": 500, "write_batch_size": 64,
        "compression": "none",
    } | options  # fmt: skip
    encryption = Encryption(keys, plaintext_footer=plaintext_footer)
    bp.write_table(TABLE, path, bloom=bloom, encryption=encryption, **options)
    return str(path)


def data_end(path: str, keys: bp.Keys) -> int:
    """The offset at which the footer begins."""
    return Path(path).stat().st_size - footer_of(path, keys).size


def assert_filters_hold_all(path: str, keys: bp.Keys, leaves: set[int]) -> dict[tuple[int, int], bytes]:
    filters = bitsets(path, keys)
    assert {leaf for _, leaf in filters} == leaves
    assert len(filters) == GROUPS * len(leaves)
    for (row_group, leaf), bitset in filters.items():
        assert not lacking(bitset, hashes(TABLE, row_group, ROWS)[leaf])
    return filters


def assert_hidden(told: bytes, filters: dict[tuple[int, int], bytes], plain: set[int] = frozenset({CITY, X})) -> None:  # type: ignore[assignment]
    """Assert that the bytes show only the filters of the `plain` columns."""
    for (_, leaf), bitset in filters.items():
        excerpts = list(filter_excerpts(bitset))
        assert find_secrets(told, excerpts) == (excerpts if leaf in plain else [])


def others(path: str, keys: bp.Keys, leaves: set[int]) -> dict[tuple[int, int], bytes]:
    """The bytes of the ColumnChunks of all leaves except `leaves`."""
    return {
        chunk_id: write_struct(chunk) for chunk_id, chunk in chunks(path, keys).items() if chunk_id[1] not in leaves
    }


def less_filters(path: str, keys: bp.Keys) -> dict[tuple[int, int], bytes]:
    """The metadata of all chunks, without the fields of filters."""
    trees = metadata(path, keys)
    for tree in trees.values():
        tree.drop(BLOOM_OFFSET)
        tree.drop(BLOOM_LENGTH)
    return {chunk_id: write_struct(tree) for chunk_id, tree in trees.items()}
