"""Targets: plans with changed files of an index and of the planner's cache, and the parsers of an index.

An input says what to change in sound files: values of their JSON, bytes of their arrays, and whether the checksums are
made right again. With wrong checksums a plan must be the same as without the file. With right ones the file may lie:
no promise covers that, but a plan must end, with an error of ours at worst.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
import xxhash

import bloomparquet as bp
from bloomparquet.planning.evidence.section_file import UNUSABLE, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError, RecordsInMemory
from bloomparquet.planning.index.cache import PlanCache
from bloomparquet.planning.index.listing import StoredFiles
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import WRITER, Manifest, _digest
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.parquet.serialized import read_segment
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.storage.files import LocalStorage, ReadCount
from tests.fuzz.folder import folder
from tests.fuzz.mutate import change_bytes, change_json, join, split
from tests.fuzz.target import Target
from tests.support.files import write
from tests.support.index import outcome, segments

T = TypeVar("T")

_HEAD = 24
_SLICES = 256  # of a tile with eight filters of one block
_TILE_BYTES = 320  # 256 slices of one byte, a checksum, and padding
_SEAL_INDEX, _SEAL_SECTIONS = 1, 2
_MANIFEST = 16  # `_run_segment` parses the manifest if this flag is set, else the segment
_WHERES = [parse_where(text) for text in ("x IN (4, 7, 51) OR y = 'v12'", "x = 1", "y >= 'v4'")]


@cache
def _root() -> Path:
    """A data set with an index."""
    root = folder() / "indexed"
    for i in range(2):
        numbers = list(range(30 * i, 30 * i + 30, 2))
        table = {"x": np.random.default_rng(i).permutation(numbers), "y": [f"v{number:02}" for number in numbers]}
        write(root / f"{i}.parquet", table, ["x", "y"], rows_per_group=4, compression="none", use_dictionary=False)
    bp.build_index(root)
    return root


@cache
def _dataset() -> bp.Dataset:
    return bp.Dataset.open(_root())


@cache
def _sound() -> tuple[Path, bytes, Path, bytes]:
    (segment,) = segments(_root())
    manifest = segment.with_name("_manifest.json")
    return manifest, manifest.read_bytes(), segment, segment.read_bytes()


@cache
def _expected(number: int) -> tuple[Any, ...]:
    return outcome("off", _dataset(), _WHERES[number])


def _edited(tree: Any, raw: bytes) -> Any:
    """`tree` after the edits in `raw`: JSON ``[[[number, …], value], …]``. The numbers lead to a place: they count the
    children. A value ``"="`` repeats the child before."""
    try:
        edits = json.loads(raw)
    except (ValueError, RecursionError):
        return tree
    for edit in edits if isinstance(edits, list) else ():
        if not (isinstance(edit, list) and len(edit) == 2 and isinstance(edit[0], list)):
            continue
        node = tree
        for i, number in enumerate(edit[0]):
            keys = list(node if isinstance(node, dict) else range(len(node)))
            if not (keys and isinstance(number, int)):
                break
            key = keys[number % len(keys)]
            if i + 1 == len(edit[0]) or not isinstance(node[key], (dict, list)):
                node[key] = node[keys[keys.index(key) - 1]] if edit[1] == "=" else edit[1]
                break
            node = node[key]
    return tree


def _patched(data: bytes, changes: bytes) -> bytes:
    patched = bytearray(data)
    for i in range(0, len(changes) - 3, 4):
        patched[int.from_bytes(changes[i : i + 3], "big") % len(patched)] = changes[i + 3]
    return bytes(patched)


def _edited_file(raw: bytes, flags: int, edits: bytes, changes: bytes) -> bytes:
    """A file of sections after edits of its index and changes of its bytes."""
    size = int.from_bytes(raw[12:16], "little")
    body = _patched(raw[_HEAD + size :], changes)
    tree = json.loads(raw[_HEAD : _HEAD + size])
    if flags & _SEAL_SECTIONS:
        for section in tree["sections"].values():
            start = section[0] - _HEAD - size
            section[2] = xxhash.xxh3_64_intdigest(body[start : start + section[1]])
    index = json.dumps(_edited(tree, edits)).encode()
    head = raw[:12] + max(size, len(index)).to_bytes(4, "little")
    index = index.ljust(size)
    checksum = raw[16:24]
    if flags & (_SEAL_INDEX | _SEAL_SECTIONS):
        checksum = xxhash.xxh3_64_intdigest(head + index).to_bytes(8, "little")
    return head + checksum + index + body


def _predicates(flag: int) -> list[tuple[int, Any]]:
    """The predicates of an input, with their numbers: all, or one, which takes a third of the time."""
    every = list(enumerate(_WHERES))
    number = flag >> 2 & 3
    return every[number - 1 : number] if number else every


def _edited_manifest(raw: bytes, flags: int, edits: bytes) -> bytes:
    content = json.loads(raw)
    checksum = content.pop("checksum")
    content = _edited(content, edits)
    checksum = _digest(content) if flags & _SEAL_INDEX else checksum
    return json.dumps({"checksum": checksum, **content}).encode()


def _run_index(data: bytes) -> None:
    """Flags, edits of the manifest, edits of the segment's index, changes of its bytes."""
    flags, of_manifest, of_segment, changes = split(data, 4)
    flag = flags[0] if flags else 0
    manifest, manifest_raw, segment, segment_raw = _sound()
    manifest.write_bytes(_edited_manifest(manifest_raw, flag, of_manifest))
    segment.write_bytes(_edited_file(segment_raw, flag, of_segment, changes))
    forget_indexes()
    for number, where in _predicates(flag):
        actual = outcome("auto", _dataset(), where)
        if flag & _SEAL_SECTIONS:  # it may lie, also about names and row counts
            assert not isinstance(actual[0], type) or issubclass(actual[0], bp.BloomParquetError), actual
        elif flag & _SEAL_INDEX:  # sound arrays may be exchanged
            assert actual[0] is bp.FileChangedError or not isinstance(actual[0], type), actual
        else:
            assert actual == _expected(number)


class _Bytes:
    """The source of a file in memory."""

    def __init__(self, data: bytes) -> None:
        self.path, self.size, self._data = "x.segment", len(data), memoryview(data)

    def read_start(self, reads: ReadCount) -> memoryview:
        return self._data

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        return self._data[offset : offset + size]

    def records(self, offset: int, record_bytes: int, count: int) -> RecordsInMemory:
        return RecordsInMemory(np.frombuffer(self._data, np.uint8, record_bytes * count, offset).reshape(count, -1))


def _run_segment(data: bytes) -> None:
    """Flags, edits of the manifest, edits of the segment's index, changes of its bytes; parsed without a plan."""
    flags, of_manifest, of_segment, changes = split(data, 4)
    flag = flags[0] if flags else 0
    _, manifest_raw, _, segment_raw = _sound()
    with suppress(*UNUSABLE):
        if flag & _MANIFEST:
            manifest = Manifest.from_bytes("x", _edited_manifest(manifest_raw, flag, of_manifest))
            assert flag & _SEAL_INDEX or manifest == Manifest.from_bytes("x", manifest_raw)
        else:
            actual = _contents(_edited_file(segment_raw, flag, of_segment, changes), flag >> 2 & 3)
            if not flag & (_SEAL_INDEX | _SEAL_SECTIONS):
                sound = _sound_contents(flag >> 2 & 3)
                assert all(content == sound[name] for name, content in actual.items())


def _contents(raw: bytes, number: int) -> dict[str, Any]:
    """What can be read of a segment: its files and row groups, one of its columns, and answers of one of its tiles."""
    file = SectionFile(_Bytes(raw), WRITER, level=logging.DEBUG)
    table = read_segment(file, LocalStorage(), "/", ReadCount())
    assert isinstance(table.files, StoredFiles)
    arrays = {f"table {name}": array for name, array in {**table.files.arrays, "rows": table.arrays.rows}.items()}
    for key, column in _one_of(sorted(table.known_columns().items()), number):
        if column.bounds is not None:
            arrays[f"lower {key}"], arrays[f"upper {key}"] = column.bounds.lower, column.bounds.upper
            arrays[f"nulls {key}"], arrays[f"offset {key}"] = column.counts.nulls, column.filters.offset
    for name in _one_of(list(file.tiles), number):
        slices = file.tile(name)
        with suppress(DamagedFileError):
            for _, answers in slices.ask(np.arange(_SLICES)[:, np.newaxis] % slices.layout.n_slices, ReadCount()):
                arrays[f"tile {name}"] = answers
    return {name: array.tolist() for name, array in arrays.items()}


def _one_of(items: list[T], number: int) -> list[T]:
    return items[number % len(items) :][:1] if items else []


@cache
def _sound_contents(number: int) -> dict[str, Any]:
    return _contents(_sound()[3], number)


@cache
def _cache_file() -> tuple[Path, Path, bytes]:
    """A directory for caches, the file in it, and its contents."""
    directory = folder() / "cache"
    cached = PlanCache().on_disk(directory, 1 << 30)
    for where in _WHERES:
        plan_dataset(_dataset(), where, PlanOptions(cache=cached, index="off"))
    cached.persist()
    (path,) = directory.glob("*/*.columns")
    return directory, path, path.read_bytes()


def _run_cache(data: bytes) -> None:
    """Flags, edits of the file's index, changes of its bytes."""
    flags, edits, changes = split(data, 3)
    flag = flags[0] if flags else 0
    directory, path, raw = _cache_file()
    path.write_bytes(_edited_file(raw, flag, edits, changes))
    for number, where in _predicates(flag):
        cached = PlanCache().on_disk(directory, 1 << 30)
        try:
            plan = plan_dataset(_dataset(), where, PlanOptions(cache=cached, index="off"))
        except bp.BloomParquetError as error:
            if not (flag & _SEAL_SECTIONS or (flag & _SEAL_INDEX and isinstance(error, bp.FileChangedError))):
                raise
        else:
            assert flag & (_SEAL_INDEX | _SEAL_SECTIONS) or plan.row_groups == _expected(number)[0]


def _seeds(parts: int) -> list[bytes]:
    edits = (
        b"[]",
        b"[[[3,0,0],0],[[3,1,1],-1]]",
        b'[[[3,1,3,0,1],"<i8"],[[3,1,3,0,2,0],7]]',
        b'[[[4,0,1],1],[[4,0,0],"="]]',
        b'[[[3,2,3,1],"="],[[1],5]]',
        b"[[[4,0,1],4],[[4,0,2],64],[[0],null]]",
    )
    changes = (b"", b"\0\1\2\3", b"\0\0\x40\xff\0\1\0\x80", bytes(range(40)))
    return [
        join([bytes([flags + 4 * (i % 4)]), *([edits[(i + j) % 6] for j in range(parts - 2)]), changes[i % 4]])
        for flags in range(4)
        for i in range(6)
    ]


def _segment_seeds() -> list[bytes]:
    _, _, _, raw = _sound()
    in_tile = len(raw) - _HEAD - int.from_bytes(raw[12:16], "little") - _TILE_BYTES
    in_last_tile = join([bytes([1 << 2]), b"[]", b"[]", in_tile.to_bytes(3, "big") + b"\xff"])
    of_plans = _seeds(4)
    return [in_last_tile, *of_plans, *(bytes([*seed[:2], seed[2] | _MANIFEST, *seed[3:]]) for seed in of_plans)]


def _change(parts: int) -> Any:
    def change(data: bytes, random: Random) -> bytes:
        pieces = split(data, parts)
        at = random.randrange(parts)
        if at == 0:
            pieces[0] = bytes([random.randrange(32)])
        elif at == parts - 1:
            pieces[at] = change_bytes(pieces[at], random) + random.randbytes(random.choice((0, 4)))
        else:
            pieces[at] = change_json(pieces[at], random)
            if random.random() < 0.2:
                path = [random.randrange(8) for _ in range(random.randrange(1, 6))]
                pieces[at] = pieces[at][:-1] + b", [%s, %d]]" % (json.dumps(path).encode(), random.randrange(1 << 20))
        return join(pieces)

    return change


TARGETS = [
    Target("index", lambda: _seeds(4), _run_index, _change(4), seconds=4.0, max_bytes=2048),
    Target("segment", _segment_seeds, _run_segment, _change(4), max_bytes=1024),
    Target("cache", lambda: _seeds(3), _run_cache, _change(3), seconds=4.0, max_bytes=2048),
]
logging.getLogger("bloomparquet").addHandler(logging.NullHandler())
