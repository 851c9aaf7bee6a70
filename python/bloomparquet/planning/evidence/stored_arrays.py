"""Stores bounds of columns, and where their filters are in tiles, as the arrays of a section; and restores them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.section_file import Section, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.tiles import BitPositions, Tile, TiledFilters

MALFORMED = (KeyError, TypeError, ValueError, IndexError, OverflowError, BloomParquetError, DamagedFileError, OSError)
"""Errors of arrays that are not what their reader expects."""

ColumnKey = tuple[int, int]
"""A column of a table: the index of the file profile, and of the leaf column in its schema."""

TILE = "/tile"
_AT, _TILES = "/at", "/tiles"


def column_name(key: ColumnKey) -> str:
    """The name of a column's section."""
    return f"{key[0]}/{key[1]}"


def column_keys(names: Iterable[str], leaves: Sequence[int]) -> frozenset[ColumnKey]:
    """The columns that sections `names` are about. ValueError if one is not of a profile with ``leaves[profile]``."""
    keys = frozenset((int(profile), int(leaf)) for profile, leaf in (name.split("/") for name in names))
    if any(not (0 <= profile < len(leaves) and 0 <= leaf < leaves[profile]) for profile, leaf in keys):
        raise ValueError("it has a column that its files lack")
    return keys


def as_bytes(raw: bytes) -> NDArray[np.uint8]:
    """`raw` as an array."""
    return np.frombuffer(raw, np.uint8)


def pack(pieces: Sequence[bytes], name: str) -> Section:
    """Byte strings as two arrays: all bytes, and the end of each string; see :func:`unpack`."""
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return {f"{name}_ends": ends, f"{name}_bytes": as_bytes(b"".join(pieces))}


def unpack(section: Section, name: str) -> NDArray[Any]:
    """The byte strings of :func:`pack`, as an array of objects. Not made by pyarrow, which would import pandas: that
    takes longer than the rest of a plan."""
    ends, text = section[f"{name}_ends"], section[f"{name}_bytes"]
    if ends.dtype != np.int64 or ends[0] != 0 or bool((ends[1:] < ends[:-1]).any()) or ends[-1] > text.nbytes:
        raise ValueError("its texts do not lie in its bytes")
    at, raw = ends.tolist(), text.tobytes()
    keys = np.empty(len(at) - 1, object)
    keys[:] = list(map(raw.__getitem__, map(slice, at, at[1:])))
    return keys


def flat_keys(keys: NDArray[Any], side: str) -> Section:
    """Order keys as arrays of numbers, by names that say how :func:`keys_of` restores them."""
    if keys.dtype != object:
        return {side: keys}
    if keys.size and isinstance(keys[0], int):  # decimals: unscaled integers of any size
        try:
            return {f"{side}_numbers": keys.astype(np.int64)}
        except OverflowError:
            texts = [key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True) for key in keys.tolist()]
            return pack(texts, f"{side}_wide")
    return pack(keys.tolist(), side)


def keys_of(section: Section, side: str) -> NDArray[Any]:
    """The order keys that :func:`flat_keys` stored."""
    if side in section:
        return section[side]
    if f"{side}_numbers" in section:
        return section[f"{side}_numbers"].astype(object)
    if f"{side}_ends" in section:
        return unpack(section, side)
    keys = unpack(section, f"{side}_wide")
    keys[:] = [int.from_bytes(text, "big", signed=True) for text in keys.tolist()]
    return keys


def tile_arrays(expression: str, tile: NDArray[np.int32], at: NDArray[np.int32], names: Sequence[str]) -> Section:
    """The arrays that say where the filters of a column are: for each chunk, the tile and the position in it.

    `expression` is ``""`` for the filters of the column itself.
    """
    return {
        expression + TILE: tile,
        expression + _AT: at,
        expression + _TILES: as_bytes(json.dumps(list(names)).encode()),
    }


def tiled_of(
    section: Section, expression: str, file: SectionFile, chunks: int, positions: Callable[[str], BitPositions]
) -> TiledFilters:
    """The filters that :func:`tile_arrays` described, for this number of `chunks`. ``positions(name)`` is the
    :data:`BitPositions` of a tile. Raises KeyError, ValueError or DamagedFileError."""
    if expression + TILE not in section:
        return TiledFilters.none(chunks)
    names = json.loads(section[expression + _TILES].tobytes())
    tiles = tuple(Tile(file, file.tile(name), positions(name)) for name in names)
    tile, at = section[expression + TILE], section[expression + _AT]
    if not len(tile) == len(at) == chunks or (len(tile) and int(tile.max()) >= len(tiles)):
        raise ValueError("its tiles do not fit its chunks")
    filters = np.array([each.slices.layout.filters for each in tiles] or [0])
    if bool((at >= filters[tile])[tile >= 0].any()) or bool((at < 0).any()):
        raise ValueError("its tiles have fewer filters than it says")
    return TiledFilters(tile, at, tiles)
