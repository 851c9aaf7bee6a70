"""The contents of segments of ORC files: their stripes and row groups, and the filters that can be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import first_line, unless_error
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.filters import FOLDED_FPP, FilterSet
from bloomparquet.indexing.segment import BuildReport, EvidenceReader, SegmentContents, require_room
from bloomparquet.orc.bloom_filter import OrcBloomFilter
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.stripe_indexes import StripeIndexes, read_filters
from bloomparquet.orc.writer_quirks import why_filters_unusable
from bloomparquet.planning.cache.listing import Listing
from bloomparquet.planning.evidence.section_file import NewTile, Section
from bloomparquet.planning.evidence.stored_arrays import column_name
from bloomparquet.planning.orc.filters import never_filled
from bloomparquet.planning.orc.open import read_stripes
from bloomparquet.planning.orc.serialized import column_section, table_sections
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import dotted_name
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_STRIPES_AT_ONCE = 16  # bounds the memory that streams of filters take, which may be compressed well
_DIVISORS = (2, 3, 5, 7, 11, 13)


def _read_files(storage: Storage, files: Sequence[FileInfo], report: BuildReport) -> tuple[list[FileInfo], list[Tail]]:
    table, errors = read_stripes(storage, files, report.reads)
    report.left_out.update((file.path, first_line(error)) for file, error in errors.items())
    return list(table.files), list(table.tails)


def _row_groups(tail: Tail) -> int:
    return sum(max(tail.row_groups(stripe), 1) for stripe in range(len(tail.stripes)))


def _contents(
    storage: Storage,
    files: Sequence[FileInfo],
    tails: Sequence[Tail],
    root: str,
    columns: IndexColumns,
    report: BuildReport,
) -> SegmentContents:
    require_room(sum(stripe.index_length for tail in tails for stripe in tail.stripes), files)
    table = Stripes.of_tails(storage, files, tails)
    footers = list(map(unless_error, table.footers.read(np.arange(len(table)), report.reads)))
    relative = [file._replace(path=file.path.removeprefix(root)) for file in files]
    sections: dict[str, Section] = table_sections(table, Listing(storage, relative))
    tiles: dict[str, NewTile] = {}
    for number, profile in enumerate(table.profiles):
        leaves, _, missing = columns.leaves(profile.schema, profile.tail.path)
        report.note_missing(missing)
        for index in sorted(leaves):
            leaf = profile.schema.leaves[index]
            if not leaf.repeated:  # plans have no evidence about elements of lists and maps in ORC
                name = column_name((number, index))
                sections[name], made = _column(table, number, leaf, name, footers, report.reads)
                tiles |= made
    return SegmentContents(sections, tiles, len(files), int(table.first_group[-1]))


def _column(
    table: Stripes, profile: int, leaf: LeafColumn, name: str, footers: Sequence[StripeIndexes], reads: ReadCount
) -> tuple[Section, dict[str, NewTile]]:
    members = table.members(profile)
    at = table.row_groups_within(members).at
    stripes, errors = table.stripe_column(profile, leaf)
    column = table.row_group_column(profile, leaf, members, reads)
    for error in (*errors.values(), *column.errors.values()):
        raise error
    filters = FilterSet(len(at))
    for row_group, bloom in _filters(table, profile, leaf, footers, reads):
        filters.add_bits(int(np.searchsorted(at, row_group)), _folded(bloom), bloom.k)
    arrays, made = filters.tiles(name)
    return {**column_section(stripes, column.statistics.take(at)), **arrays}, made


def _filters(
    table: Stripes, profile: int, leaf: LeafColumn, footers: Sequence[StripeIndexes], reads: ReadCount
) -> Iterator[tuple[int, OrcBloomFilter]]:
    """The filters that prove something, each with the number of its row group in the table."""
    tail, column = table.profiles[profile].tail, table.column_of(profile, leaf)
    if why_filters_unusable(tail, column) is not None:
        return
    members = table.members(profile)
    row_groups = table.row_groups_within(members)
    chunks = row_groups.chunks(profile, leaf, reads)
    filled = set(row_groups.at[(chunks.counts.nulls >= 0) & (chunks.counts.nulls < chunks.counts.values)].tolist())
    for first in range(0, len(members), _STRIPES_AT_ONCE):
        stripes = members[first : first + _STRIPES_AT_ONCE].tolist()
        stripes = [stripe for stripe in stripes if why_filters_unusable(tail, column, footers[stripe]) is None]
        results = read_filters(table.storage, [(footers[stripe], column) for stripe in stripes], reads)
        for stripe, filters in zip(stripes, map(unless_error, results), strict=True):
            for i, bloom in enumerate(filters or ()):
                row_group = int(table.first_group[stripe]) + i
                if bloom.bits_set:
                    yield row_group, bloom
                elif row_group in filled:
                    raise never_filled(footers[stripe], i, dotted_name(leaf.path))


def _folded(bloom: OrcBloomFilter) -> NDArray[np.uint64]:
    """The words of a filter, made smaller while few absent values pass.

    A hash sets its bits modulo their number. So the filter of fewer bits, a divisor of them, is the union of parts of
    this one. All bits of a hash follow from two of them: values that agree on both pass, however few bits are set.
    """
    words = bloom.words
    for divisor in _DIVISORS:
        while len(words) % divisor == 0:
            smaller = np.bitwise_or.reduce(words.reshape(divisor, -1), axis=0)
            bits, bits_set = smaller.nbytes * 8, int(np.bitwise_count(smaller).sum())
            if (bits_set / bits) ** bloom.k + bits_set / bloom.k / bits**2 > FOLDED_FPP:
                break
            words = smaller
    return words


ORC = EvidenceReader(_read_files, _row_groups, _contents)
