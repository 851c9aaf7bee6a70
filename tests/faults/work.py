"""The work into which faults are injected: reads, retrofits, writes and indexes; and the checks afterwards."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import DIRECTORY
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.storage import atomic
from bloomparquet.storage.files import ArrowStorage
from tests.faults import local_calls
from tests.faults.injector import Injector
from tests.faults.object_store import ObjectStore

ERRORS = (bp.BloomParquetError, OSError, pa.ArrowException)
WHERE = "s IN ('v007', 'v061', 'v113')"
ROWS = [7, 61, 113]
GROUP = 20


@cache
def table(first: int, count: int = 60) -> pa.Table:
    """Row groups of :data:`GROUP` rows whose values only filters tell apart."""
    ids = first + np.random.default_rng(first).permutation(count)
    return pa.table({"id": ids, "s": [f"v{i:03}" for i in ids.tolist()], "t": [f"{i * 7919:09}" for i in ids.tolist()]})


@cache
def parquet(first: int, ndv: int | None) -> bytes:
    """A file with a filter on s for that many values, or none."""
    out = BytesIO()
    filters = None if ndv is None else {"s": {"ndv": ndv, "fpp": 0.01}}
    pq.write_table(table(first), out, row_group_size=GROUP, bloom_filter_options=filters)
    return out.getvalue()


@cache
def oversized() -> bytes:
    """The first file with filters that are far too large."""
    place = RemotePlace(ObjectStore())
    path = f"{place.root}/a.parquet"
    bp.write_table(table(0), path, bloom={"s": bp.Bloom(ndv=5000)}, row_group_size=GROUP, filesystem=place.filesystem)
    return place.read("a.parquet")


@cache
def changed(change: str) -> bytes:
    """The file ``a.parquet`` after a retrofit."""
    store = ObjectStore()
    place = RemotePlace(store)
    work = WORKS[change]
    work.prepare(place)
    work.run(place)
    return place.read("a.parquet")


class LocalPlace:
    def __init__(self, root: Path) -> None:
        self.root, self.filesystem = str(root), None
        self._directory = root

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        (self._directory / name).parent.mkdir(exist_ok=True)
        (self._directory / name).write_bytes(data)

    def names(self) -> set[str]:
        return {str(path.relative_to(self._directory)) for path in self._directory.rglob("*") if path.is_file()}

    def remove(self, name: str) -> None:
        (self._directory / name).unlink()

    def faulty(self, injector: Injector, lies: bool) -> AbstractContextManager[None]:
        return local_calls.faulty(self._directory, injector, lies=lies)

    def open_files(self) -> list[str]:
        return local_calls.open_files(self._directory)


class RemotePlace:
    root = "bucket/t"

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.filesystem: Any = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(store))

    def read(self, name: str) -> bytes:
        return self._store.objects[f"{self.root}/{name}"][0]

    def put(self, name: str, data: bytes) -> None:
        self._store.put_object(f"{self.root}/{name}", data)

    def names(self) -> set[str]:
        return {path.removeprefix(f"{self.root}/") for path in self._store.objects}

    def remove(self, name: str) -> None:
        del self._store.objects[f"{self.root}/{name}"]

    @contextmanager
    def faulty(self, injector: Injector, lies: bool) -> Iterator[None]:
        self._store.injector, self._store.lies = injector, lies
        try:
            # With one thread, calls have the same order in each run.
            with patch.object(ArrowStorage, "threads", 1), patch.object(atomic, "COPY_SECONDS", 0.05):
                yield
        finally:
            self._store.injector = None

    def open_files(self) -> list[str]:
        return []


Place = LocalPlace | RemotePlace
Prepare = Callable[[Place], None]


@dataclass(frozen=True)
class Work:
    """`prepare` makes the state before. `after` has the files that the work changes, as they are when it is done; the
    others never change. `lies`: whether it may be lied to about where files end. `index`: files in the index before
    and after."""

    prepare: Prepare
    run: Callable[[Place], Any]
    after: Callable[[], dict[str, bytes | None]] = dict
    lies: bool = True
    index: tuple[int, int] | None = None
    local_only: bool = False


def put(place: Place, files: dict[str, bytes]) -> None:
    """Make `files` the only data files. The index stays, and so do files that are right already: they are in it."""
    for name in place.names():
        if name not in files and not name.startswith(DIRECTORY):
            place.remove(name)
    for name, data in files.items():
        if name not in place.names() or place.read(name) != data:
            place.put(name, data)


def data(a: bytes | None = None) -> dict[str, bytes]:
    return {"a.parquet": a or parquet(0, GROUP), "b.parquet": parquet(60, GROUP)}


def prepare(place: Place, a: bytes | None = None) -> None:
    for name in place.names():
        if name.startswith((DIRECTORY, "_cache")):
            place.remove(name)
    put(place, data(a))


def with_index(place: Place) -> None:
    put(place, data())
    forget()
    if indexed(place) != 2:
        bp.build_index(place.root, filesystem=place.filesystem)


def with_old_index(place: Place) -> None:
    with_index(place)
    put(place, {**data(), "c.parquet": parquet(120, GROUP)})


def indexed(place: Place) -> int:
    try:
        return bp.read_index_info(place.root, filesystem=place.filesystem).files
    except bp.PlanError:
        return 0


def forget() -> None:
    process_cache.clear()
    forget_indexes()


def read(place: Place, **options: Any) -> None:
    rows = bp.read_table(place.root, WHERE, ["id"], filesystem=place.filesystem, **options)["id"].to_pylist()
    assert sorted(rows) == ROWS, f"the rows {sorted(rows)}; expected {ROWS}"


def plan_with_disk_cache(place: Place) -> None:
    """Plan twice with a cache in the directory, by two processes."""
    for _ in range(2):
        cache = PlanCache().on_disk(f"{place.root}/_cache", 1 << 20)
        plan = plan_dataset(Dataset.open(place.root), WHERE, PlanOptions(cache=cache, index="off"))
        kept = {(os.path.basename(group.path), group.index) for group in plan.kept_row_groups()}
        assert matching() <= kept, f"{matching()} match, and {kept} are kept"
        cache.persist()


@cache
def matching() -> frozenset[tuple[str, int]]:
    groups = set()
    for name, first in (("a.parquet", 0), ("b.parquet", 60)):
        ids = table(first)["id"].to_pylist()
        groups |= {(name, ids.index(i) // GROUP) for i in ROWS if i in ids}
    return frozenset(groups)


def write(place: Place) -> None:
    bp.write_table(
        table(120), f"{place.root}/c.parquet", bloom={"s": bp.Bloom(ndv=GROUP)}, row_group_size=GROUP,
        filesystem=place.filesystem,
    )  # fmt: skip


@cache
def written() -> bytes:
    place = RemotePlace(ObjectStore())
    write(place)
    return place.read("c.parquet")


def add(place: Place) -> None:
    bp.add_filters(f"{place.root}/a.parquet", bloom=["s", "t"], filesystem=place.filesystem)


def add_to(place: Place) -> None:
    bp.add_filters(
        f"{place.root}/a.parquet", f"{place.root}/_copy/a.parquet", bloom=["s", "t"], filesystem=place.filesystem
    )


def shrink(place: Place) -> None:
    bp.shrink_filters(f"{place.root}/a.parquet", filesystem=place.filesystem)


def build(place: Place) -> bp.IndexInfo:
    return bp.build_index(place.root, filesystem=place.filesystem)


def refresh(place: Place) -> bp.IndexInfo:
    return bp.refresh_index(place.root, filesystem=place.filesystem)


def drop(place: Place) -> None:
    bp.drop_index(place.root, filesystem=place.filesystem)


WORKS: dict[str, Work] = {
    "read": Work(prepare, read),
    "read, leaving out corrupt files": Work(prepare, lambda place: read(place, skip_corrupt=True), lies=False),
    "read with an index": Work(with_index, read),
    "plan with a cache": Work(prepare, plan_with_disk_cache, local_only=True),
    "add": Work(lambda p: prepare(p, parquet(0, None)), add, lambda: {"a.parquet": changed("add")}),
    "add to another file": Work(
        lambda p: prepare(p, parquet(0, None)), add_to, lambda: {"_copy/a.parquet": changed("add")}
    ),
    "shrink": Work(lambda p: prepare(p, oversized()), shrink, lambda: {"a.parquet": changed("shrink")}),
    "write": Work(prepare, write, lambda: {"c.parquet": written()}),
    "write over": Work(
        lambda p: put(p, {**data(), "c.parquet": parquet(120, None)}), write, lambda: {"c.parquet": written()}
    ),
    "build": Work(prepare, build, index=(0, 2)),
    "refresh": Work(with_old_index, refresh, index=(2, 3)),
    "drop": Work(with_index, drop, index=(2, 0)),
}  # fmt: skip


def try_with_faults(work: Work, place: Place, injector: Injector) -> str:
    """Do `work` with faults. Returns ``"done"`` or the name of the error's class; any other end fails the test."""
    work.prepare(place)
    before = {name: place.read(name) for name in place.names()}
    forget()
    error: BaseException | None = None
    result: Any = None
    try:
        with warnings.catch_warnings(), unlogged(), place.faulty(injector, work.lies):
            warnings.simplefilter("ignore")
            result = work.run(place)
    except ERRORS as raised:
        error = raised
    finally:
        forget()
    text = f"{type(error).__name__}: {error}" if error is not None else "done"
    error = None  # its traceback holds open files
    if text == "done":
        is_partial = bool(getattr(result, "left_out", ()))
    else:  # the build may have failed after it left out files that seemed to have changed
        is_partial = any(kind in ("size", "empty", "short") or name == "stat" for name, kind in injector.made)
    note = f"{dict(injector.made)}; {text}"
    require_right(work, place, before, is_done=text == "done", is_partial=is_partial, note=note)
    return text.partition(":")[0]


@contextmanager
def unlogged() -> Iterator[None]:
    """Log nothing: a record holds the error, and that all that was open."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def require_right(
    work: Work, place: Place, before: dict[str, bytes], *, is_done: bool, is_partial: bool, note: str
) -> None:
    """Assert that each file is an old or a new one, that rows are right, and that the work can be done again.

    `is_partial`: a build may have left out files that seemed to have changed, and has said so."""
    after = work.after()
    for name, old in before.items():
        if name not in after and not name.startswith((DIRECTORY, "_cache")):
            assert place.read(name) == old, f"{name} was changed; {note}"
    names = place.names()
    for name, new in after.items():
        now = place.read(name) if name in names else None
        is_right = now == new or (now == before.get(name) and not is_done)
        assert is_right, f"{name} is neither the old nor the new one; {note}"
    if work.index is not None:
        allowed = range(max(work.index) + 1) if is_partial else work.index[1:] if is_done else work.index
        assert indexed(place) in allowed, f"{indexed(place)} files are in the index; {note}"
    assert not place.open_files(), f"{place.open_files()} are open; {note}"
    expected = data_names(before, after)
    others = {name for name in names - expected if not name.startswith((DIRECTORY, "_cache"))}
    assert all(name.endswith(".bloomparquet-tmp") for name in others), f"{others}; {note}"
    read(place)
    work.run(place)
    names = {name for name in place.names() if not name.startswith("_cache")}
    if work.index is None or not work.index[1]:
        assert {name for name in names if work.index is not None or not name.startswith(DIRECTORY)} == expected, note
    else:
        in_index = {name for name in names if name.startswith(DIRECTORY)}
        segments = bp.read_index_info(place.root, filesystem=place.filesystem).segments
        assert names - in_index == expected, note
        assert len(in_index) == segments + 1 or not isinstance(place, LocalPlace), f"{in_index}; {note}"
    forget()
    read(place)


def data_names(before: dict[str, bytes], after: dict[str, bytes | None]) -> set[str]:
    others = (DIRECTORY, "_cache")
    return {name for name in before if not name.startswith(others) and not name.endswith("-tmp")} | set(after)


def random_of(name: str, seed: int) -> Random:
    return Random(f"{name} {seed}")
