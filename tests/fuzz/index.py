"""Targets: plans with changed files of an index and of the planner's cache, and the parsers of an index.

An input says what to change in sound files: values of their JSON, bytes of their arrays, and whether the checksums are
made right again. With wrong checksums a plan must be the same as without the file. With right ones the file may lie:
no promise covers that, but a plan must end, with an error of ours at worst.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import xxhash

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import _digest
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.sql.parse import parse_where
from tests.fuzz.folder import folder
from tests.fuzz.mutate import change_bytes, change_json, join, split
from tests.fuzz.target import Target
from tests.support.files import write
from tests.support.index import outcome, segments

_HEAD = 24
_SEAL_INDEX, _SEAL_SECTIONS = 1, 2
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


def _change(parts: int) -> Any:
    def change(data: bytes, random: Random) -> bytes:
        pieces = split(data, parts)
        at = random.randrange(parts)
        if at == 0:
            pieces[0] = bytes([random.randrange(16)])
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
    Target("cache", lambda: _seeds(3), _run_cache, _change(3), seconds=4.0, max_bytes=2048),
]
logging.getLogger("bloomparquet").addHandler(logging.NullHandler())
