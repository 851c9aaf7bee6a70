"""Stores tables of stripes as the arrays of a segment, of an index or of the cache, and restores them.

Both hold what plans need of their files: the stripes, the time zones of the writers, and for each column the statistics
of stripes and row groups. The tails are there too, in a section of their own: they are parsed for files that are read,
and for columns that are not stored. A segment of an index has all of it, and filters in tiles; one of the cache has
what was read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.bloom_filter import bit_positions
from bloomparquet.orc.file_tail import Tail, parse_tail, read_tails
from bloomparquet.planning.evidence.section_file import Section, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.stored_arrays import (
    MALFORMED,
    ColumnKey,
    as_bytes,
    column_keys,
    column_name,
    flat_keys,
    keys_of,
    pack,
    tiled_of,
    unpack,
)
from bloomparquet.planning.evidence.tiles import BitPositions, TiledFilters
from bloomparquet.planning.index.listing import TABLE, Listing, StoredFiles
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.file_profile import FileProfile, find_profiles
from bloomparquet.planning.orc.filters import ReadFilters
from bloomparquet.planning.orc.stripe_arrays import LazyTails, StoredColumn, StripeArrays
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_TAILS = "tails"
_STRIPES, _ROW_GROUPS = "stripe", "group"
_ARRAYS = tuple(field.name for field in fields(StripeArrays))

log = logging.getLogger("bloomparquet")


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
        _TAILS: pack([tail.raw for tail in table.tails], _TAILS),
    }


def column_section(stripes: ColumnStatistics, row_groups: ColumnStatistics) -> dict[str, NDArray[Any]]:
    """The section of a column, without its filters."""
    return {**_statistics_arrays(stripes, _STRIPES), **_statistics_arrays(row_groups, _ROW_GROUPS)}


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
        filters = column.filters.read_so_far(at)
        sections[column_name(key)] = {
            **column_section(stripes, column.statistics.take(at)),
            "loaded": column.loaded[members] & ~np.isin(members, list(column.errors)),
            "present": filters.present, "key": filters.key, "row": filters.row,
            "functions": np.array(filters.functions, np.int64),
            **{f"words_{i}": words for i, words in enumerate(filters.words)},
        }  # fmt: skip
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
        stored = _StoredTails(file, storage, files)
        columns = _StoredColumns(file, zones, profiles)
        lazy_tails = LazyTails(len(files), stored.read)
        return Stripes(storage, files, lazy_tails, arrays, profiles, columns)
    except MALFORMED as error:
        raise DamagedFileError(f"{file.path}: {error}") from error


class _StoredTails:
    """The tails in a segment. If they are damaged, tails are read from the data files."""

    def __init__(self, file: SectionFile, storage: Storage, files: Sequence[FileInfo]) -> None:
        self._file, self._storage, self._files = file, storage, files
        self._section: Section | None = None
        self._tails: dict[int, Tail] = {}

    def read(self, i: int) -> Tail:
        """The tail of file i. Raises the errors of :func:`read_tails`."""
        if i not in self._tails:
            self._tails[i] = self._read(i)
        return self._tails[i]

    def _read(self, i: int) -> Tail:
        try:
            if self._section is None:
                self._section = self._file.section(_TAILS)
            first, last = self._section[f"{_TAILS}_ends"][i : i + 2].tolist()
            return parse_tail(self._files[i], self._section[f"{_TAILS}_bytes"][first:last].tobytes())
        except MALFORMED as error:
            self._file.warn(f"its copies of tails cannot be used ({error}); the tails are read from the data files")
        (tail,) = read_tails(self._storage, [self._files[i]], ReadCount())
        if isinstance(tail, BloomParquetError):
            raise tail
        return tail


class _StoredColumns:
    """The columns in a segment; see :class:`bloomparquet.planning.orc.stripe_arrays.StoredColumns`."""

    def __init__(self, file: SectionFile, zones: Mapping[int, str | None], profiles: Sequence[FileProfile]) -> None:
        self.zones = zones
        self._file = file
        leaves = [len(profile.schema.leaves) for profile in profiles]
        self.keys = column_keys([name for name in file.sections if name not in (TABLE, _TAILS)], leaves)

    def load(
        self, key: ColumnKey, stripes: int, row_groups: int, reads: ReadCount | None = None
    ) -> StoredColumn | None:
        if key not in self.keys:
            return None
        try:
            section = self._file.section(column_name(key), reads)
            filters: TiledFilters | ReadFilters
            if "loaded" in section:
                loaded, filters = section["loaded"], _read_filters_of(section, row_groups)
            else:
                loaded = np.ones(stripes, np.bool_)
                filters = tiled_of(section, "", self._file, row_groups, _positions_of)
            if len(loaded) != stripes:
                raise ValueError(f"a column of {len(loaded)} stripes; expected {stripes}")
            of_stripes = _statistics_of(section, _STRIPES, stripes)
            return StoredColumn(of_stripes, _statistics_of(section, _ROW_GROUPS, row_groups), loaded, filters)
        except MALFORMED as error:
            self._file.warn(f"a column cannot be used ({error}); it is read from the data files")
            self.keys -= {key}
            return None


def _statistics_arrays(statistics: ColumnStatistics, part: str) -> Section:
    known = statistics.known
    section: dict[str, NDArray[Any]] = {
        f"{part}_known": known, f"{part}_nulls": statistics.nulls, f"{part}_sound": statistics.sound,
    }  # fmt: skip
    for side, keys in (("lower", statistics.lower), ("upper", statistics.upper)):
        if keys.dtype == object and known.any():
            keys = np.where(known, keys, keys[known][0])  # arrays are of one type of keys
        section |= flat_keys(keys, f"{part}_{side}")
    return section


def _statistics_of(section: Section, part: str, n: int) -> ColumnStatistics:
    lower, upper = (keys_of(section, f"{part}_{side}") for side in ("lower", "upper"))
    known, nulls, sound = (section[f"{part}_{name}"] for name in ("known", "nulls", "sound"))
    if {len(lower), len(upper), len(known), len(nulls), len(sound)} != {n}:
        raise ValueError(f"statistics of {len(nulls)} chunks; expected {n}")
    return ColumnStatistics(lower, upper, known, nulls, sound)


def _read_filters_of(section: Section, n: int) -> ReadFilters:
    present, key, row = (section[name] for name in ("present", "key", "row"))
    functions = tuple(section["functions"].tolist())
    words = tuple(section[f"words_{i}"] for i in range(len(functions)))
    rows = np.array([len(each) for each in words] or [0])
    if (
        {len(present), len(key), len(row)} != {n}
        or int(key.max(initial=-1)) >= len(words)
        or bool((row >= rows[np.maximum(key, 0)])[key >= 0].any())
    ):
        raise ValueError("its filters do not fit its row groups")
    return ReadFilters(present, key, row, functions, words)


def _positions_of(tile: str) -> BitPositions:
    """The function that returns the bits of hashes in a tile, whose name ends with the number of hash functions."""
    k = int(tile.rpartition("/")[2])
    return lambda hashes, bits: bit_positions(hashes, k, bits)
