"""Reads the rows and the Bloom filters of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import UnsupportedError, quoted, shorten
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.pages.places import has_page_index
from bloomparquet.parquet.values.encoding import encode_values, parquet_family
from bloomparquet.planning.arrow_schema import footer_schemas
from bloomparquet.planning.evidence.interface import Question, Table
from bloomparquet.planning.leaf_reasons import false_positives
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.evaluate.mask import Convert
from bloomparquet.query.literals import Family, coerce_all
from bloomparquet.query.names import dotted_name
from bloomparquet.reading.interface import FilterRow, Probed
from bloomparquet.reading.parquet_file import ParquetFileReader
from bloomparquet.storage.files import ReadCount


@dataclass(frozen=True)
class ParquetReader:
    """Reads the rows of the Parquet files of one table.

    `convert` converts literals for comparison; see :func:`bloomparquet.query.evaluate.mask.bind_mask`.
    """

    _table: Table
    convert: ClassVar[Convert] = staticmethod(coerce_all)

    def schemas(self, files: Sequence[int] | None = None) -> Iterator[pa.Schema]:
        """The Arrow schemas of `files`, given by index (None: all files), in order of first occurrence.

        The call reads the footers that are not in memory, all at once.
        """
        return footer_schemas(
            self._table.gather(range(len(self._table.files)) if files is None else files, RowGroups.read_footers)
        )

    def file(self, file_index: int) -> ParquetFileReader:
        """The reader of the rows of a file."""
        (footer,) = self._table.gather([file_index], RowGroups.read_footers)
        return ParquetFileReader(self._table.storage, self._table.paths[file_index], footer)


@dataclass(frozen=True)
class ParquetInspector:
    """Looks into the Bloom filters of the Parquet files of one table, which were read together."""

    _table: RowGroups

    def column_type(self, schema_index: int, leaf: LeafColumn) -> tuple[Family, str]:
        """The family of `leaf`, and its type for a message."""
        return parquet_family(leaf.node), leaf.describe()

    def row_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The file index of each row group, and its number within the file, in file order."""
        return self._table.file, self._table.index

    def filters(self, leaves: Sequence[tuple[int, LeafColumn]]) -> Iterator[FilterRow]:
        """Every Bloom filter of `leaves`. Each leaf has the index of its schema in ``table.schemas`` before it.

        Raises the error of a filter that cannot be used.
        """
        table = self._table
        has_index = [has_page_index(footer) for footer in table.footers]
        for schema_index, leaf in leaves:
            chunks = table.chunks(schema_index, leaf)
            for i, row_group in enumerate(chunks.members.tolist()):
                bitset = chunks.filters.read(table.storage, i, ReadCount())
                if bitset is None:
                    continue
                bloom = SplitBlockBloomFilter.from_bytes(bitset.tobytes())
                file, index = int(table.file[row_group]), int(table.index[row_group])
                yield FilterRow(
                    table.paths[file], index, None, dotted_name(leaf.path), leaf.describe(), int(table.rows[row_group]),
                    int(chunks.filters.offset[i]), bloom.num_bytes, bloom.bits_set, bloom.estimated_ndv,
                    bloom.estimated_fpp, page_index=has_index[file],
                )  # fmt: skip

    def probe(self, leaves: Sequence[tuple[int, LeafColumn]], value: Any, timezone: str) -> Probed:
        """Ask the filters of `leaves` in each of :meth:`row_groups` whether they might hold `value`.

        Raises PlanError for a value of another kind than the column's, UnsupportedError if the stored bytes of the
        value are not known or the filters prove nothing, and the error of a filter that cannot be used.
        """
        might_match = np.ones(len(self._table), np.bool_)
        has_filter = np.zeros(len(self._table), np.bool_)
        shares: list[float] = []
        for schema_index, leaf in leaves:
            chunks = self._table.chunks(schema_index, leaf)
            encoded = encode_values(leaf, [value], self._table.profiles[schema_index].traits, timezone)
            if encoded is None or encoded.hashes is None:
                raise UnsupportedError(
                    f"column {shorten('.'.join(leaf.path))} ({leaf.describe()}): cannot probe for {quoted(value)}: "
                    "the bytes that this column stores for the value are not known"
                )
            n, hashes = len(chunks.members), encoded.hashes
            question = Question(
                self._table.storage, np.arange(n), np.zeros(n, np.int64), np.full(n, len(hashes)), hashes, ReadCount()
            )  # fmt: skip
            verdicts = chunks.filters.check(question)
            if chunks.filters.errors:
                raise min(chunks.filters.errors.items())[1]
            might_match[chunks.members] = verdicts
            has_filter[chunks.members] = chunks.filters.present
            if len(maybe := np.flatnonzero(verdicts & chunks.filters.present)):
                shares.append(false_positives(chunks.filters, maybe, self._table.storage, ReadCount()))
        return Probed(might_match, has_filter, max(shares, default=0.0))
