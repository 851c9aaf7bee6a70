"""Stores tables of stripes as the arrays of a segment, of an index or of the cache, and restores them.

Both hold what plans need of their files: the stripes, the time zones of the writers, and for each column the statistics
of stripes and row groups. The tails are there too, in a section of their own: they are parsed for files that are read,
and for columns that are not stored. A segment of an index has all of it, and filters in tiles; one of the cache has
what was read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import unless_error
from bloomparquet.orc.file_tail import Tail, parse_tail, read_tails
from bloomparquet.planning.cache.listing import TABLE, Listing, StoredFiles
from bloomparquet.planning.evidence.section_file import Section, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.stored_arrays import (
    MALFORMED,
    as_bytes,
    column_name,
    pack,
    unpack,
)
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.stripe_arrays import (
    ROW_GROUPS,
    STRIPES,
    TAILS,
    StoredColumns,
    StripeArrays,
    find_profiles,
)
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_ARRAYS = tuple(field.name for field in fields(StripeArrays))


def table_sections(table: Stripes, listing: Listing) -> dict[str, Section]:
    """The sections of a table's files and stripes."""
    zones = table.known_zones(np.arange(len(table)))
    names = sorted({zone for zone in zones.values() if zone is not None})
    numbers = {None: -1} | {name: number for number, name in enumerate(names)}
    _, examples = np.unique(table.arrays.profile, return_index=True)  # the first file of each profile
    return {
        TABLE: {
            **listing.arrays,
            **{name: getattr(table.arrays, name) for name in _ARRAYS},
            **pack([table.tails[i].raw for i in examples.tolist()], "profiles"),
            "zone_names": as_bytes(json.dumps(names).encode()),
            "zoned": np.array([*zones], np.int64),
            "zone": np.array([numbers[zone] for zone in zones.values()], np.int32),
        },
        TAILS: pack([tail.raw for tail in table.tails], TAILS),
    }


def column_section(stripes: ColumnStatistics, row_groups: ColumnStatistics) -> dict[str, NDArray[Any]]:
    """The section of a column, without its filters."""
    return {**stripes.to_section(STRIPES), **row_groups.to_section(ROW_GROUPS)}


def to_sections(table: Stripes, listing: Listing) -> dict[str, Section]:
    """The sections of a segment of the cache: what was read of `table`. Columns with errors are left out: they are met
    again."""
    sections = table_sections(table, listing)
    for key in sorted(table.known_columns()):
        profile, leaf = key[0], table.profiles[key[0]].schema.leaves[key[1]]
        members = table.members(profile)
        stripes, errors = table.stripe_column(profile, leaf)
        if errors:
            continue
        column, at = table.known_row_groups(profile, leaf), table.row_groups_within(members).at
        sections[column_name(key)] = {
            **column_section(stripes, column.statistics.take(at)),
            "loaded": column.loaded[members] & ~np.isin(members, list(column.errors)),
            **column.filters.read_so_far(at).to_section(),
        }
    return sections


def read_segment(file: SectionFile, storage: Storage, root: str, reads: ReadCount) -> Stripes:
    """The table in `file`, a segment about files below `root`. Raises the errors of :data:`UNUSABLE`."""
    try:
        section = file.section(TABLE, reads)
        files = StoredFiles(section, root)
        arrays = StripeArrays(*(section[name] for name in _ARRAYS))
        _, examples = np.unique(arrays.profile, return_index=True)
        raws = unpack(section, "profiles").tolist()
        tails = [parse_tail(files[i], raw) for i, raw in zip(examples.tolist(), raws, strict=True)]
        profiles, numbers = find_profiles(tails)
        names = json.loads(section["zone_names"].tobytes())
        zone = [None if number < 0 else names[number] for number in section["zone"].tolist()]
        zones = dict(zip(section["zoned"].tolist(), zone, strict=True))
        if not (
            numbers == list(range(len(tails)))
            and len(files) == len(arrays.counts) == len(arrays.profile) == len(arrays.stride)
            and int(arrays.counts.sum()) == len(arrays.rows)
        ):
            raise DamagedFileError("its arrays do not fit together")
        columns = StoredColumns(file, zones, [len(profile.schema.leaves) for profile in profiles])
        return Stripes(storage, files, _StoredTails(file, storage, files), arrays, profiles, columns)
    except MALFORMED as error:
        raise DamagedFileError(f"{file.path}: {error}") from error


class _StoredTails(Sequence[Tail]):
    """The tails in a segment, parsed on demand. If they are damaged, tails are read from the data files."""

    def __init__(self, file: SectionFile, storage: Storage, files: Sequence[FileInfo]) -> None:
        self._file, self._storage, self._files = file, storage, files
        self._section: Section | None = None
        self._tails: dict[int, Tail] = {}

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: Any) -> Any:
        """The tail of file i. Raises the errors of :func:`read_tails`."""
        if i not in self._tails:
            self._tails[i] = self._read(i, self._files[i])
        return self._tails[i]

    def _read(self, i: int, of_file: FileInfo) -> Tail:
        try:
            if self._section is None:
                self._section = self._file.section(TAILS)
            first, last = self._section[f"{TAILS}_ends"][i : i + 2].tolist()
            return parse_tail(of_file, self._section[f"{TAILS}_bytes"][first:last].tobytes())
        except MALFORMED as error:
            self._file.warn(f"its copies of tails cannot be used ({error}); the tails are read from the data files")
        return unless_error(read_tails(self._storage, [of_file], ReadCount())[0])
