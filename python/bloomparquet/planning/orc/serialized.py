"""Tables of stripes to and from the arrays of a segment.

A segment holds what plans need of its files: their stripes, the time zones of the writers, and for each column the
statistics of stripes and row groups, with the filters in tiles. The tails are there too, in a section of their own:
they are parsed for files that are read, and for columns that the segment does not have.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.bloom_filter import bit_positions
from bloomparquet.orc.file_tail import Tail, parse_tail, read_tails
from bloomparquet.planning.evidence.section_file import DamagedFileError, Section, SectionFile
from bloomparquet.planning.evidence.stored_arrays import MALFORMED, as_bytes, flat_keys, keys_of, pack, tiled_of, unpack
from bloomparquet.planning.evidence.tiles import BitPositions
from bloomparquet.planning.index.listing import TABLE, Listing, StoredFiles
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.file_profile import find_profiles
from bloomparquet.planning.orc.stripe_arrays import ColumnKey, LazyTails, StoredColumn, StripeArrays
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_TAILS = "tails"
_STRIPES, _ROW_GROUPS = "stripe", "group"
_ARRAYS = tuple(field.name for field in fields(StripeArrays))

log = logging.getLogger("bloomparquet")


def column_name(key: ColumnKey) -> str:
    """The name of a column's section."""
    return f"{key[0]}/{key[1]}"


def table_sections(table: Stripes, listing: Listing, zones: Sequence[str | None]) -> dict[str, Section]:
    """The sections of a table's files and stripes. `zones`: as in :class:`StoredColumns`."""
    names = sorted({zone for zone in zones if zone is not None})
    numbers = {None: -1} | {name: number for number, name in enumerate(names)}
    return {
        TABLE: {
            **listing.arrays,
            **{name: getattr(table.arrays, name) for name in _ARRAYS},
            **pack([profile.tail.raw for profile in table.profiles], "profiles"),
            "zone_names": as_bytes(json.dumps(names).encode()),
            "zone": np.array([numbers[zone] for zone in zones], np.int32),
        },
        _TAILS: pack([tail.raw for tail in table.tails], _TAILS),
    }


def column_section(stripes: ColumnStatistics, row_groups: ColumnStatistics) -> dict[str, NDArray[Any]]:
    """The section of a column, without its filters."""
    return {**_statistics_arrays(stripes, _STRIPES), **_statistics_arrays(row_groups, _ROW_GROUPS)}


def read_segment(file: SectionFile, storage: Storage, root: str, reads: ReadCount) -> Stripes:
    """The table in `file`, a segment of the index of the files below `root`. Raises the errors of :data:`UNUSABLE`."""
    try:
        section = file.section(TABLE, reads)
        files = StoredFiles(section, root)
        arrays = StripeArrays(*(section[name] for name in _ARRAYS))
        _, examples = np.unique(arrays.profile, return_index=True)
        raws = unpack(section, "profiles").tolist()
        tails = [parse_tail(files[i], raw) for i, raw in zip(examples.tolist(), raws, strict=True)]
        profiles, numbers = find_profiles(tails)
        names = json.loads(section["zone_names"].tobytes())
        zones = [None if number < 0 else names[number] for number in section["zone"].tolist()]
        if not (
            numbers == list(range(len(tails)))
            and len(files) == len(arrays.counts) == len(arrays.profile) == len(arrays.stride)
            and int(arrays.counts.sum()) == len(arrays.rows) == len(zones)
        ):
            raise DamagedFileError("its arrays do not fit together")
        stored = _StoredTails(file, storage, files)
        columns = _StoredColumns(file, zones)
        return Stripes(storage, files, LazyTails(stored.read, len(files)), arrays, profiles, columns)
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
            log.warning("%s: %s; the tails of the data files are read instead", self._file.path, error)
        (tail,) = read_tails(self._storage, [self._files[i]], ReadCount())
        if isinstance(tail, BloomParquetError):
            raise tail
        return tail


class _StoredColumns:
    """The columns in a segment; see :class:`bloomparquet.planning.orc.stripe_arrays.StoredColumns`."""

    def __init__(self, file: SectionFile, zones: Sequence[str | None]) -> None:
        self.zones = zones
        self._file = file
        self._names = {*file.sections} - {TABLE, _TAILS}

    def load(self, key: ColumnKey, stripes: int, row_groups: int) -> StoredColumn | None:
        name = column_name(key)
        if name not in self._names:
            return None
        try:
            section = self._file.section(name)
            return StoredColumn(
                _statistics_of(section, _STRIPES, stripes),
                _statistics_of(section, _ROW_GROUPS, row_groups),
                tiled_of(section, "", self._file, row_groups, _positions_of),
            )
        except MALFORMED as error:
            log.warning("%s: %s; a column is read from the data files instead", self._file.path, error)
            self._names.discard(name)
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


def _positions_of(tile: str) -> BitPositions:
    """How a tile is asked: its name ends with the number of hash functions."""
    k = int(tile.rpartition("/")[2])
    return lambda hashes, bits: bit_positions(hashes, k, bits)
