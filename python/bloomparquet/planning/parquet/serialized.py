"""Tables of row groups to and from the arrays of a cache file.

A cache file holds what plans need: the files and their row groups, and for each queried column the bounds, the counts,
and what was read of its filters. Footers are not stored. They would only save one more read when a query names a new
column, and most of its time is parsing anyway (for 1,000 local files with 4 row groups: 55 ms of 62 ms). They are large
too: 250 files with 46 columns have 5.7 MB of footers, while one stored column takes 0.1 MB.

Listings are compared as a whole. The digest in the name only finds the file, so a collision cannot pass one data set
off as another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

import bloomparquet.errors
from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.bloom_filter.split_block import BITS_PER_BLOCK, bit_positions
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.planning.evidence.section_file import UNUSABLE, DamagedFileError, Section, SectionFile
from bloomparquet.planning.evidence.tiles import Tile, TiledFilters
from bloomparquet.planning.index.lookup import data_root
from bloomparquet.planning.parquet.cache_file import code_fingerprint
from bloomparquet.planning.parquet.column_arrays import ColumnArrays
from bloomparquet.planning.parquet.filter_index import FilterIndex
from bloomparquet.planning.parquet.row_groups import ColumnChunks, ColumnKey, GroupArrays, RowGroups
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_TABLE = "table"
_COUNTS = ("nulls", "values", "offset", "length", "filled")
_FILTER_INDEX = ("state", "bitset_at", "num_bytes", "not_empty", "resident_at", "resident")
_TILE, _AT, _TILES = "/tile", "/at", "/tiles"
_ERRORS = (KeyError, TypeError, ValueError, IndexError, OverflowError, BloomParquetError, DamagedFileError, OSError)


class Listing:
    """A list of files on one storage as arrays, and the name of their cache file."""

    def __init__(self, storage: Storage, files: Sequence[FileInfo]) -> None:
        joined = "\0".join([file.path for file in files])
        self._unique = joined.count("\0") == len(files) - 1
        self.arrays: dict[str, NDArray[Any]] = {
            "storage": _storage(storage),
            "paths": _bytes(joined.encode("utf-8", "surrogatepass")),
            "sizes": np.array([file.size for file in files], np.int64),
            "mtimes": np.array([file.mtime_ns for file in files], np.int64),
            "inodes": np.array([file.inode for file in files], np.uint64),
            "ctimes": np.array([file.ctime_ns for file in files], np.int64),
        }
        self._root = data_root(files)
        self._storage = storage

    @property
    def storable(self) -> bool:
        """Whether the names mean the same files in another process. A file system that was passed as an object is
        unknown there."""
        return self._unique and isinstance(self._storage.key, str)

    @property
    def prefix(self) -> str:
        """The common prefix of the cache file names of one data set, whichever of its files a query asks for."""
        text = f"{code_fingerprint()}\0{self._storage.key}\0{self._root}"
        return xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass")) + "-"

    @property
    def name(self) -> str:
        digest = xxhash.xxh3_128()
        for array in self.arrays.values():
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(array.data)
        return self.prefix + digest.hexdigest()


class _StoredColumns:
    """The columns in `entry`; see :class:`bloomparquet.planning.parquet.row_groups.StoredColumns`."""

    def __init__(self, entry: SectionFile) -> None:
        self._entry = entry
        names = [name for name in entry.sections if name != _TABLE]
        self.keys = frozenset((int(profile), int(leaf)) for profile, leaf in (name.split("/") for name in names))
        self.damaged = False

    def load(self, key: ColumnKey, reads: ReadCount) -> ColumnArrays | None:
        try:
            return _column_of(self._entry.section(column_name(key), reads), self._entry)
        except _ERRORS:
            self._drop(key)
            return None

    def raw(self, key: ColumnKey) -> Section | None:
        try:
            return self._entry.section(column_name(key))
        except UNUSABLE:
            self._drop(key)
            return None

    def _drop(self, key: ColumnKey) -> None:
        self.keys -= {key}
        self.damaged = True


def table_section(table: RowGroups, listing: Listing) -> dict[str, Section]:
    """The section of a table's files and row groups."""
    footers = [profile.skeleton for profile in table.profiles]
    arrays = table.arrays
    return {
        _TABLE: {
            **listing.arrays,
            "counts": arrays.counts, "profile": arrays.profile, "limit": arrays.limit,
            "rows": arrays.rows, "extents": arrays.extents,
            "footers": _bytes(b"".join(footers)), "footer_ends": np.cumsum([len(raw) for raw in footers]),
        }
    }  # fmt: skip


def column_section(chunks: ColumnChunks) -> Section:
    """The section of a column: what footers say of it, and not what was read of its filters."""
    column = chunks.arrays()
    return _section_of(replace(column, filter_index=FilterIndex.unread(column.offset)))


def to_sections(table: RowGroups, listing: Listing) -> dict[str, Section]:
    """What is cached in `table`, as :meth:`CacheDirectory.write` takes it."""
    table.fill_extents()
    sections = table_section(table, listing)
    cached = table.cached_columns()
    for key in sorted(table.column_keys()):
        if key in cached:
            sections[column_name(key)] = _section_of(cached[key].arrays())
        elif table.stored is not None and (raw := table.stored.raw(key)) is not None:
            sections[column_name(key)] = raw
    if table.stored is not None:
        table.stored.damaged = False  # all of it is written again
    return sections


def read_segment(file: SectionFile, storage: Storage, root: str, reads: ReadCount) -> RowGroups:
    """The table in `file`, a segment of the index of the files below `root`. Raises the errors of :data:`UNUSABLE`."""
    try:
        section = file.section(_TABLE, reads)
        return _table_of(file, section, storage, None, _files_of(section, root))
    except _ERRORS as error:
        raise DamagedFileError(f"{file.path}: {error}") from error


def files_of_segment(file: SectionFile, root: str, reads: ReadCount) -> list[FileInfo]:
    """The files of a segment, as they were when it was made. Raises DamagedFileError."""
    try:
        return _files_of(file.section(_TABLE, reads), root)
    except _ERRORS as error:
        raise DamagedFileError(f"{file.path}: {error}") from error


def read_table(
    entry: SectionFile, storage: Storage, keys: Keys | None, files: Sequence[FileInfo] | None, listing: Listing | None
) -> RowGroups:
    """The table in `entry`: of `files`, with their `listing`; or if they are None, of any files on `storage`.

    The table decrypts footers that it reads with `keys`. Raises :class:`DamagedFileError` if the entry is damaged, or
    belongs to a different set of files.
    """
    try:
        section = entry.section(_TABLE)
        if not np.array_equal(section["storage"], _storage(storage)):
            raise DamagedFileError(f"{entry.path}: the cache file belongs to a different storage")
        if files is None:
            files = _files_of(section, "")
        elif listing is None or not all(np.array_equal(section[key], array) for key, array in listing.arrays.items()):
            raise DamagedFileError(f"{entry.path}: the cache file belongs to a different set of files")
        return _table_of(entry, section, storage, keys, files)
    except _ERRORS as error:
        raise DamagedFileError(f"{entry.path}: {error}") from error


def _files_of(section: Section, root: str) -> list[FileInfo]:
    paths = section["paths"].tobytes().decode("utf-8", "surrogatepass").split("\0")
    numbers = (section[name].tolist() for name in ("sizes", "mtimes", "inodes", "ctimes"))
    return list(map(FileInfo._make, zip([root + path for path in paths] if root else paths, *numbers, strict=True)))


def _table_of(
    file: SectionFile, section: Section, storage: Storage, keys: Keys | None, files: Sequence[FileInfo]
) -> RowGroups:
    profiles = _profiles_of(section["footers"].tobytes(), section["footer_ends"].tolist())
    extents = section["extents"].copy()  # writable: unknown ones are computed when they are needed
    arrays = GroupArrays(section["counts"], section["profile"], section["limit"], section["rows"], extents)
    if not len(files) == len(arrays.counts) == len(arrays.profile) == len(arrays.limit):
        raise DamagedFileError(f"{file.path}: the cache file belongs to a different set of files")
    return RowGroups(storage, files, arrays, profiles, [None] * len(files), _StoredColumns(file), keys)


def _profiles_of(raw: bytes, ends: list[int]) -> list[FileProfile]:
    return [parse_footer(raw[start:end]).profile for start, end in zip([0, *ends], ends, strict=False)]


def _section_of(column: ColumnArrays) -> Section:
    filter_index = column.filter_index
    section: dict[str, NDArray[Any]] = {name: getattr(column, name) for name in _COUNTS}
    if not filter_index.is_unread:
        section |= {name: getattr(filter_index, name) for name in _FILTER_INDEX}
    if column.bounds is not None:
        section["known"] = column.bounds.known
        for side in ("lower", "upper"):
            section |= {f"{side}{kind}": array for kind, array in _flat(getattr(column.bounds, side)).items()}
    errors = [[chunk, type(error).__name__, str(error)] for chunk, error in filter_index.errors.items()]
    section["errors"] = _bytes(json.dumps(errors).encode())
    return section


def _column_of(section: Section, file: SectionFile) -> ColumnArrays:
    bounds = None
    if "known" in section:
        bounds = Bounds(_keys_of(section, "lower"), _keys_of(section, "upper"), section["known"])
    errors = {chunk: _error(kind, text) for chunk, kind, text in json.loads(section["errors"].tobytes())}
    nulls, values, offset, length, filled = (section[name] for name in _COUNTS)
    tiled = _tiled_of(section, "", file)
    if "state" in section:
        state, bitset_at, num_bytes, not_empty, resident_at, resident = (section[name] for name in _FILTER_INDEX)
        index = FilterIndex(state, bitset_at, num_bytes, not_empty, resident_at, resident, errors, tiled)
    else:
        index = replace(FilterIndex.unread(offset), tiled=tiled)
    expressions = {
        name.removesuffix(_TILE): _tiled_of(section, name.removesuffix(_TILE), file)
        for name in section
        if name.endswith(_TILE) and name != _TILE
    }
    return ColumnArrays(bounds, nulls, values, offset, length, filled, index, None, expressions)


def tile_arrays(expression: str, tile: NDArray[np.int32], at: NDArray[np.int32], names: Sequence[str]) -> Section:
    """What a column's section says of its filters in tiles: in which each chunk's is, and at which position.
    `expression` is ``""`` for the filters of the column itself."""
    return {
        expression + _TILE: tile, expression + _AT: at, expression + _TILES: _bytes(json.dumps(list(names)).encode()),
    }  # fmt: skip


def _tiled_of(section: Section, expression: str, file: SectionFile) -> TiledFilters:
    if expression + _TILE not in section:
        return TiledFilters.none(len(section["offset"]))
    names = json.loads(section[expression + _TILES].tobytes())
    tiles = tuple(Tile(file.path, file.tile(name), _positions) for name in names)
    tile, at = section[expression + _TILE], section[expression + _AT]
    if not len(tile) == len(at) == len(section["offset"]) or (len(tile) and int(tile.max()) >= len(tiles)):
        raise ValueError("its tiles do not fit its chunks")
    filters = np.array([each.slices.layout.filters for each in tiles] or [0])
    if bool((at >= filters[tile])[tile >= 0].any()) or bool((at < 0).any()):
        raise ValueError("its tiles have fewer filters than it says")
    return TiledFilters(tile, at, tiles)


def _positions(hashes: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    return bit_positions(hashes, bits // BITS_PER_BLOCK)


def _error(kind: str, text: str) -> BloomParquetError:
    error: type[BloomParquetError] = getattr(bloomparquet.errors, kind)
    if not issubclass(error, BloomParquetError):
        raise ValueError(f"{kind} is not an error class of this package")
    return error(text)


def _flat(keys: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Order keys as arrays of numbers, by names that say how :func:`_keys_of` restores them."""
    if keys.dtype != object:
        return {"": keys}
    if keys.size and isinstance(keys[0], int):  # decimals: unscaled integers of any size
        try:
            return {"_numbers": keys.astype(np.int64)}
        except OverflowError:
            texts = [key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True) for key in keys.tolist()]
            return {f"_wide{name}": array for name, array in _flat_bytes(texts).items()}
    return _flat_bytes(keys.tolist())


def _flat_bytes(texts: list[bytes]) -> dict[str, NDArray[Any]]:
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return {"_ends": ends, "_bytes": _bytes(b"".join(texts))}


def _keys_of(section: Section, side: str) -> NDArray[Any]:
    if side in section:
        return section[side]
    if f"{side}_numbers" in section:
        return section[f"{side}_numbers"].astype(object)
    if f"{side}_ends" in section:
        return _texts_of(section, side)
    keys = _texts_of(section, f"{side}_wide")
    keys[:] = [int.from_bytes(text, "big", signed=True) for text in keys.tolist()]
    return keys


def _texts_of(section: Section, name: str) -> NDArray[Any]:
    """An array of bytes objects. pyarrow makes it: a loop in Python would take most of a plan's time."""
    ends = section[f"{name}_ends"]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(section[f"{name}_bytes"])]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)
    keys: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return keys


def _storage(storage: Storage) -> NDArray[np.uint8]:
    """The identity of a storage. A cryptographic digest, because names of storages may hold secrets."""
    return _bytes(hashlib.sha256(str(storage.key).encode("utf-8", "surrogatepass")).digest())


def _bytes(raw: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(raw, np.uint8)


def column_name(key: ColumnKey) -> str:
    return f"{key[0]}/{key[1]}"
