"""The filters of column chunks as an index stores them: read from the files, or made of the values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.indexing.columns import FilterToMake
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.planning.evidence.bit_slices import SliceLayout, transpose
from bloomparquet.planning.evidence.section_file import NewTile, Section
from bloomparquet.planning.evidence.stored_arrays import tile_arrays
from bloomparquet.planning.parquet.columns import PartChunks
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.storage.files import ReadCount
from bloomparquet.writing.filters.from_chunk import filter_chunk

FOLDED_FPP = 1e-5
"""A filter is folded while its fpp stays below this: a lookup over 100,000 row groups then reads at most about one more
of them for it."""


Filters = Iterator[tuple[int, SplitBlockBloomFilter]]
"""Chunks, and the filter of each."""


_FOLDABLE_FILL = 1 - (1 - FOLDED_FPP**0.125) ** 0.5
"""A filter with a larger share of set bits has a larger fpp than FOLDED_FPP after one fold: that share to the power of
eight is the least that the fpp can be."""


class NotAsciiError(Exception):
    """A value has a character outside ASCII, where engines differ in upper and lower case."""


class FilterSet:
    """The filters of one column in n chunks, sorted into tiles by their size, and in ORC by their hash functions."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks
        self._by_size: dict[tuple[int, int], list[tuple[int, NDArray[np.uint8]]]] = {}

    def add(self, chunk: int, bloom: SplitBlockBloomFilter) -> None:
        folded = bloom if bloom.bits_set > _FOLDABLE_FILL * 8 * bloom.num_bytes else bloom.fitted(FOLDED_FPP)
        self.add_bits(chunk, folded.blocks)

    def add_bits(self, chunk: int, bits: NDArray[Any], hash_functions: int = 0) -> None:
        """Add the words of a filter. The names of tiles end with the number of `hash_functions`."""
        size = hash_functions, bits.nbytes
        self._by_size.setdefault(size, []).append((chunk, bits.view(np.uint8).reshape(-1)))

    def tiles(self, name: str, expression: str = "") -> tuple[Section, dict[str, NewTile]]:
        """The arrays that say where the filters are, those of the column or of an `expression`; and the tiles by their
        names in the file, which begin with `name`."""
        tile, at = np.full(self._chunks, -1, np.int32), np.zeros(self._chunks, np.int32)
        tiles = {}
        for number, ((hash_functions, _), filters) in enumerate(sorted(self._by_size.items())):
            chunks = [chunk for chunk, _ in filters]
            tile[chunks], at[chunks] = number, np.arange(len(chunks))
            matrix = np.stack([bits for _, bits in filters])
            filters.clear()
            layout = SliceLayout(len(matrix), matrix.shape[1] * 8)
            tiles[f"{name}/{number}/{hash_functions}"] = NewTile(layout, partial(transpose, matrix))
        return tile_arrays(expression, tile, at, list(tiles)), tiles


def stored_filters(table: RowGroups, chunks: PartChunks, reads: ReadCount) -> Filters:
    """The usable filters in the files, by chunk. An unusable filter is left to plans, which report it."""
    for chunk, bits in chunks.filters.read_all(table.storage, reads):
        yield chunk, SplitBlockBloomFilter(bits.view("<u4").reshape(-1, 8))


def made_filters(
    table: RowGroups, chunks: PartChunks, wanted: FilterToMake, has_filter: NDArray[np.bool_], reads: ReadCount
) -> Filters:
    """Make filters of the values of the chunks without a filter. Raises FormatError for a damaged chunk."""
    change = partial(_in_case, wanted.case) if wanted.case else None
    for chunk in np.flatnonzero(~has_filter).tolist():
        row_group = int(chunks.members[chunk])
        file = int(table.file[row_group])
        try:
            bloom = filter_chunk(
                table.storage, table.files[file], table.footer(file), int(table.index[row_group]), chunks.leaf,
                wanted.bloom, reads, change,
            )  # fmt: skip
        except NotAsciiError:
            continue
        if bloom is not None and bloom.bits_set:
            yield chunk, bloom


def _in_case(case: str, values: pa.Array) -> pa.Array:
    """Text in lower or upper case, by a rule on which all engines agree. Raises :class:`NotAsciiError`."""
    text = values.cast(pa.large_binary()).view(pa.large_string())
    if not pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        raise NotAsciiError
    changed = pc.ascii_lower(text) if case == "lower" else pc.ascii_upper(text)
    return changed.view(pa.large_binary()).cast(pa.binary())
