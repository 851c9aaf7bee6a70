"""Tables of row groups as the arrays that a cache file holds, and back.

Stored is what a plan asks for: the files and their row groups, and for each column that was queried its bounds and
counts and what is known of its filters. The footers themselves are not: they would only save reading them once more
when a query names a column that none has named before, and most of the time that this takes with local files is their
parsing (of 1,000 files with 4 row groups: 55 ms of 62). They are large, too: those of 250 files with 46 columns take
5.7 MB, what is stored of one column 0.1 MB.

Listings are compared whole. A digest only finds the file; so no collision can pass one data set off as another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

import bloomparquet.errors
from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.planning.parquet.cache_file import DamagedEntryError, Entry, Unit, code_fingerprint
from bloomparquet.planning.parquet.filter_index import Learnt
from bloomparquet.planning.parquet.row_groups import ColumnArrays, ColumnKey, GroupArrays, RowGroups
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo, Storage

_TABLE = "table"
_ERRORS = (KeyError, TypeError, ValueError, IndexError, OverflowError, BloomParquetError)


class Listing:
    """Files as a cache file names them, on one storage, with a digest to find it by."""

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
        self._root = _root(files)
        self._storage = storage

    @property
    def storable(self) -> bool:
        """Whether these names mean the same files in another process, which knows no file system that was passed as
        an object."""
        return self._unique and isinstance(self._storage.key, str)

    @property
    def prefix(self) -> str:
        """What the names of listings of one data set begin with."""
        text = f"{code_fingerprint()}\0{self._storage.key}\0{self._root}"
        return xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass")) + "-"

    @property
    def name(self) -> str:
        digest = xxhash.xxh3_128()
        for array in self.arrays.values():
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(array.data)
        return self.prefix + digest.hexdigest()


def _root(files: Sequence[FileInfo]) -> str:
    """The deepest directory that has all of `files`, above any partition directories: what the files of one data set
    share whichever of them a query asks for."""
    paths = [file.path for file in files]
    pairs = zip(min(paths).split("/")[:-1], max(paths).split("/")[:-1], strict=False)
    return "/".join(name for name, _ in takewhile(lambda pair: pair[0] == pair[1] and "=" not in pair[0], pairs))


class _Stored:
    """The columns of a cache file."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        names = [name for name in entry.units if name != _TABLE]
        self.keys = frozenset((int(layout), int(leaf)) for layout, leaf in (name.split("/") for name in names))
        self.damaged = False

    def load(self, key: ColumnKey) -> ColumnArrays | None:
        unit = self.raw(key)
        try:
            return None if unit is None else _column_of(unit)
        except _ERRORS:
            self._drop(key)
            return None

    def raw(self, key: ColumnKey) -> Unit | None:
        """The arrays as they were stored."""
        try:
            return self._entry.unit(_name(key))
        except DamagedEntryError:
            self._drop(key)
            return None

    def _drop(self, key: ColumnKey) -> None:
        self.keys -= {key}
        self.damaged = True


def to_units(table: RowGroups, listing: Listing) -> dict[str, Unit]:
    """What is known of `table`, for :meth:`CacheDirectory.write`."""
    table.fill_extents()
    footers = [layout.skeleton for layout in table.layouts]
    arrays = table.arrays
    units: dict[str, Unit] = {
        _TABLE: {
            **listing.arrays,
            "counts": arrays.counts, "layout": arrays.layout, "limit": arrays.limit,
            "rows": arrays.rows, "extents": arrays.extents,
            "footers": _bytes(b"".join(footers)), "footer_ends": np.cumsum([len(raw) for raw in footers]),
        }
    }  # fmt: skip
    known = table.known()
    for key in sorted(table.column_keys()):
        if key in known:
            units[_name(key)] = _unit_of(ColumnArrays.of(known[key]))
        elif isinstance(table.stored, _Stored) and (raw := table.stored.raw(key)) is not None:
            units[_name(key)] = raw
    if isinstance(table.stored, _Stored):
        table.stored.damaged = False  # for all of it is written anew
    return units


def read_table(
    entry: Entry, storage: Storage, keys: Keys | None, files: Sequence[FileInfo] | None, listing: Listing | None
) -> RowGroups:
    """The table that `entry` holds: that of `files`, whose listing is given, or whichever it is of on this storage.
    Footers that have to be read again are decrypted with `keys`.

    Raises :class:`DamagedEntryError` when it is damaged, or not of these files.
    """
    try:
        unit = entry.unit(_TABLE)
        if not np.array_equal(unit["storage"], _storage(storage)):
            raise DamagedEntryError(f"{entry.path}: of another storage")
        if files is None:
            paths = unit["paths"].tobytes().decode("utf-8", "surrogatepass").split("\0")
            numbers = (unit[name].tolist() for name in ("sizes", "mtimes", "inodes", "ctimes"))
            files = list(map(FileInfo._make, zip(paths, *numbers, strict=True)))
        elif listing is None or not all(np.array_equal(unit[key], array) for key, array in listing.arrays.items()):
            raise DamagedEntryError(f"{entry.path}: of other files")
        layouts = _layouts_of(unit["footers"].tobytes(), unit["footer_ends"].tolist())
        extents = unit["extents"].copy()  # those that could not be told are asked for again
        arrays = GroupArrays(unit["counts"], unit["layout"], unit["limit"], unit["rows"], extents)
        if not len(files) == len(arrays.counts) == len(arrays.layout) == len(arrays.limit):
            raise DamagedEntryError(f"{entry.path}: of other files")
        return RowGroups(storage, files, arrays, layouts, [None] * len(files), _Stored(entry), keys)
    except _ERRORS as error:
        raise DamagedEntryError(f"{entry.path}: {error}") from error


def is_damaged(table: RowGroups) -> bool:
    """Whether the cache file that `table` came from has turned out damaged since."""
    return isinstance(table.stored, _Stored) and table.stored.damaged


def _layouts_of(raw: bytes, ends: list[int]) -> list[FileProfile]:
    return [parse_footer(raw[start:end]).profile for start, end in zip([0, *ends], ends, strict=False)]


def _unit_of(column: ColumnArrays) -> Unit:
    learnt = column.learnt
    unit: dict[str, NDArray[Any]] = {name: getattr(column, name) for name in _COUNTS}
    unit |= {name: getattr(learnt, name) for name in _LEARNT}
    if column.bounds is not None:
        unit["known"] = column.bounds.known
        for side in ("lower", "upper"):
            unit |= {f"{side}{kind}": array for kind, array in _flat(getattr(column.bounds, side)).items()}
    errors = [[chunk, type(error).__name__, str(error)] for chunk, error in learnt.errors.items()]
    unit["errors"] = _bytes(json.dumps(errors).encode())
    return unit


_COUNTS = ("nulls", "values", "offset", "length", "filled")
_LEARNT = ("state", "bitset_at", "num_bytes", "not_empty", "resident_at", "resident")


def _column_of(unit: Unit) -> ColumnArrays:
    bounds = None
    if "known" in unit:
        bounds = Bounds(_keys_of(unit, "lower"), _keys_of(unit, "upper"), unit["known"])
    errors = {chunk: _error(kind, text) for chunk, kind, text in json.loads(unit["errors"].tobytes())}
    state, bitset_at, num_bytes, not_empty, resident_at, resident = (unit[name] for name in _LEARNT)
    learnt = Learnt(state, bitset_at, num_bytes, not_empty, resident_at, resident, errors)
    nulls, values, offset, length, filled = (unit[name] for name in _COUNTS)
    return ColumnArrays(bounds, nulls, values, offset, length, filled, learnt)


def _error(kind: str, text: str) -> BloomParquetError:
    found: type[BloomParquetError] = getattr(bloomparquet.errors, kind)
    if not issubclass(found, BloomParquetError):
        raise ValueError(f"{kind} is no error of this package")
    return found(text)


def _flat(keys: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Order keys as arrays of numbers; the names say what to make of them."""
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


def _keys_of(unit: Unit, side: str) -> NDArray[Any]:
    if side in unit:
        return unit[side]
    if f"{side}_numbers" in unit:
        return unit[f"{side}_numbers"].astype(object)
    if f"{side}_ends" in unit:
        return _texts_of(unit, side)
    keys = _texts_of(unit, f"{side}_wide")
    keys[:] = [int.from_bytes(text, "big", signed=True) for text in keys.tolist()]
    return keys


def _texts_of(unit: Unit, name: str) -> NDArray[Any]:
    """An array of bytes objects, made by pyarrow: one by one in Python they would take most of a plan's time."""
    ends = unit[f"{name}_ends"]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(unit[f"{name}_bytes"])]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)
    keys: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return keys


def _storage(storage: Storage) -> NDArray[np.uint8]:
    """What storages are told apart by. Some have secrets in their names, so it is a digest, and one that has no
    collisions."""
    return _bytes(hashlib.sha256(str(storage.key).encode("utf-8", "surrogatepass")).digest())


def _bytes(raw: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(raw, np.uint8)


def _name(key: ColumnKey) -> str:
    return f"{key[0]}/{key[1]}"
