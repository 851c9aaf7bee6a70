"""Encrypted files that pyarrow wrote, beside plaintext files with the same rows."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

import bloomparquet as bp
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.storage.files import LocalStorage, ReadCount, Storage
from tests.support.kms import Kms, Writer, configuration

FOOTER_KEY = b"0123456789012345"
ROWS = 1200


def make_table(rows: int = ROWS) -> pa.Table:
    every = range(rows)
    random = np.random.default_rng(3)
    words = pa.array([None if i % 5 == 0 else f"word {i % 37}" for i in every])
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "word": words,
            "random": random.integers(0, 2**62, rows),
            "category": words.dictionary_encode(),
            "list": pa.array([None if i % 9 == 0 else [i, None, i % 3][: i % 4] for i in every], pa.list_(pa.int32())),
            "struct": pa.array([None if i % 11 == 0 else {"a": i % 3, "b": {"c": str(i)}} for i in every]),
            "map": pa.array([[(f"k{i % 4}", i)] for i in every], pa.map_(pa.string(), pa.int64())),
            "amount": pa.array([decimal.Decimal(i).scaleb(-2) for i in every], pa.decimal128(12, 2)),
            "at": pa.array([dt.datetime(2026, 1, 1) + dt.timedelta(hours=i) for i in every], pa.timestamp("us", "UTC")),
            "flag": pa.array([None if i % 4 == 0 else i % 3 == 0 for i in every]),
            "nothing": pa.nulls(rows, pa.float64()),
        }
    )


TABLE = make_table()
COLUMNS = {"k1": ["id", "list.list.element", "nothing"], "k2": ["struct.b.c", "word", "map.key_value.value"]}
"""The columns with their own keys, by master key. The others are plaintext."""
LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain values": {"use_dictionary": False, "compression": "none"},
    "version 2": {"data_page_version": "2.0", "compression": "zstd"},
    "many pages": {"data_page_size": 200, "row_group_size": 500, "write_page_index": True, "use_dictionary": ["word"]},
    "checksums": {"write_page_checksum": True, "row_group_size": 700, "use_deprecated_int96_timestamps": True},
}


class Secret:
    """A plaintext file, `plain`, and an encrypted one with the same rows, `path`."""

    def __init__(self, home: Path) -> None:
        self.plain, self.path, self.kms = home / "plain.parquet", home / "secret.parquet", Kms()

    def keys(self) -> bp.Keys:
        """The keys of all columns."""
        return bp.Keys.from_kms(pe.KmsConnectionConfig(), self.kms.client)

    def write(self, table: pa.Table, columns: dict[str, list[str]], **options: Any) -> None:
        """Write both files. `columns`: the columns with their own keys, by master key."""
        names = ("encryption_algorithm", "plaintext_footer", "data_key_length_bits")
        encryption = {name: options.pop(name) for name in names if name in options}
        pq.write_table(table, self.plain, **options)
        Writer(self.kms).write(table, self.path, configuration(columns, **encryption), **options)

    def write_uniform(self, table: pa.Table, key: bytes = FOOTER_KEY, *, name: str = "secret", **options: Any) -> None:
        """Write both files, the encrypted one under a single `key` and called `name`."""
        names = ("encryption_algorithm", "plaintext_footer", "aad_prefix", "store_aad_prefix")
        encryption = {name: options.pop(name) for name in names if name in options}
        properties = pe.create_encryption_properties(key, **encryption)
        pq.write_table(table, self.plain, **options)
        pq.write_table(table, self.path.with_stem(name), encryption_properties=properties, **options)


def open_file(path: Path, keys: bp.Keys | None) -> tuple[Storage, Footer]:
    """The storage, and the footer of the file at `path` as `keys` decrypt it."""
    storage = LocalStorage()
    (footer,) = read_footers(storage, storage.list_files(str(path), recursive=False), ReadCount(), keys=keys)
    assert footer is not None
    return storage, footer


def chunk_extents(path: Path, keys: bp.Keys) -> dict[tuple[int, str], tuple[int, int]]:
    """The start and end offset of each column chunk, by row group and column."""
    _, footer = open_file(path, keys)
    extents = {}
    for i, leaf in itertools.product(range(len(footer.rows)), footer.profile.schema.leaves):
        fields = footer.read_chunk(i, leaf.index)
        start = min(fields.dictionary_page_offset or 1 << 62, fields.data_page_offset or 0)
        extents[i, ".".join(leaf.path)] = start, start + (fields.compressed_size or 0)
    return extents
