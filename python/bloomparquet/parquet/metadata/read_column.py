"""Reads the chunks of one column, or the extents of the row groups, from many footers at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.metadata.chunk_fields import ChunkColumns
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.thrift.struct_arrays import Buffer

_BATCH_BYTES = 32 * 1024 * 1024  # of footers that are copied together


def read_column(footers: Sequence[Footer], leaf: int) -> tuple[ChunkColumns, NDArray[np.bool_]]:
    """The fields of a leaf's chunks in all row groups of `footers`, which share a profile; and which were read.

    Chunks that are encrypted or damaged, and all of encrypted files, are not: :meth:`Footer.read_chunk_with_cipher`
    reads them or raises their errors.
    """
    ends = np.cumsum([len(footer.rows) for footer in footers])
    total = int(ends[-1]) if len(footers) else 0
    columns, is_read = ChunkColumns.unknown(total), np.zeros(total, np.bool_)
    for batch in _batches(footers):
        some = [footers[i] for i in batch]
        counts = np.array([len(footer.rows) for footer in some])
        buffer = Buffer([footer.raw for footer in some])
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.repeat(ends[batch] - counts, counts) + within
        offsets = np.concatenate([footer.chunks[:, leaf] for footer in some])
        positions, limits = np.repeat(buffer.starts, counts) + offsets, np.repeat(buffer.ends, counts)
        templates = some[0].profile.templates[leaf]
        is_read[rows] = templates.read_all(buffer, positions, limits, columns, rows)
    return columns, is_read


def read_extents(footers: Sequence[Footer]) -> NDArray[np.int64]:
    """The extents of all row groups of `footers`, which share a profile, shape (n, 2). -1 for those that
    :meth:`Footer.extent` must compute: of encrypted files, of damaged chunks, and if the footer lacks the size."""
    sizes = np.array([-1 if size is None else size for footer in footers for size in footer.sizes], np.int64)
    if not footers[0].profile.schema.leaves:
        return np.full((len(sizes), 2), -1)
    columns, is_read = read_column(footers, 0)
    pages, dictionary = columns.data_page_offset, columns.dictionary_page_offset
    starts = np.where((dictionary == -1) | (dictionary > pages), pages, dictionary)
    is_known = is_read & (pages >= 0) & (dictionary >= -1) & (sizes >= 0)
    extents: NDArray[np.int64] = np.where(is_known[:, np.newaxis], np.stack((starts, sizes), axis=1), -1)
    return extents


def _batches(footers: Sequence[Footer]) -> Iterator[NDArray[np.int64]]:
    """The indexes of the `footers` without encryption, in batches of bounded size."""
    plain = np.array([i for i, footer in enumerate(footers) if footer.crypto is None], np.int64)
    batch = np.cumsum([len(footers[i].raw) for i in plain]) // _BATCH_BYTES
    return (plain[batch == number] for number in np.unique(batch))
