"""The index: building it, the first plan of a process, plans afterwards; and a million row groups.

A million row groups are made up: segments of files that do not exist, with random filters of 1 KiB. Plans of an index
read nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import bloomparquet as bp
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.commit import begin_build
from bloomparquet.indexing.segment import MOST_ROW_GROUPS, Target
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.bit_slices import SliceLayout, transpose
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Counts
from bloomparquet.planning.evidence.section_file import NewTile, serialise
from bloomparquet.planning.evidence.stored_arrays import column_name, tile_arrays
from bloomparquet.planning.index.listing import Listing
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import SEGMENT_SUFFIX, VERSION, WRITER, SegmentEntry, is_segment_name
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.parquet.column_arrays import ColumnArrays
from bloomparquet.planning.parquet.filter_facts import FilterFacts
from bloomparquet.planning.parquet.row_groups import GroupArrays, RowGroups
from bloomparquet.planning.parquet.serialized import column_section, table_section
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount
from tests.bench.data import Shape, base_directory
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns
from tests.bench.plans import Lookups

_FIRST_SECONDS, _WARM_SECONDS = 0.100, 0.005
_MILLION_COLD, _MILLION_WARM, _MILLION_MANY = 1.0, 0.050, 2.0
_REFRESHED_SHARE = 0.01
_PER_FILE = 4
_FILTER_BLOCKS = 32
_MANY = 1_000
_FIRST_PLAN = """
import json, resource, sys, time
import bloomparquet as bp
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
root, value, index = sys.argv[1:]
listed = bp.Dataset.open(root)
where = bp.Eq("id", int(value))
began, cpu = time.perf_counter(), time.process_time()
plan = plan_dataset(listed, where, PlanOptions(index=index))
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, plan.kept, plan.indexed]))
"""
_FIRST_DUCKDB = """
import json, sys, time
import duckdb
root, value = sys.argv[1:]
duckdb.sql("SET enable_progress_bar = false")
began, cpu = time.perf_counter(), time.process_time()
rows = duckdb.sql(f"SELECT * FROM read_parquet('{root}/**/*.parquet') WHERE id = {value}").fetchall()
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, len(rows), 0]))
"""


def index(rounds: int, shape: Shape, row_groups: int) -> Iterator[Row]:
    """Plans over real files, with and without an index; then over `row_groups` made-up row groups."""
    yield from _real(rounds, shape)
    yield from _made_up(rounds, row_groups)


def _real(rounds: int, shape: Shape) -> Iterator[Row]:
    lookups = Lookups(shape)
    root, to = str(lookups.root), str(base_directory() / "index")
    case = f"{shape.total_row_groups:,} row groups"
    built = take_turns([Contender("build", lambda _: bp.build_index(root, to=to))], 1)["build"]
    filters = pc.sum(bp.inspect(root)["bytes"]).as_py()
    info: bp.IndexInfo = built.result
    rate = filters / built.cpu_seconds[0] / 1e6
    yield milliseconds(
        "index", f"build, {case}", built,
        notes={"MB of filters per cpu second": round(rate), "index bytes": info.bytes, "filter bytes": filters},
    )  # fmt: skip
    ways = {"index": to, "no index": "off"}
    first = {
        name: _processes(name, _FIRST_PLAN, rounds, lambda number, at=at: [root, str(lookups.id(number, hit=True)), at])
        for name, at in ways.items()
    }
    first["duckdb"] = _processes(
        "duckdb", _FIRST_DUCKDB, rounds, lambda number: [root, str(lookups.id(number, hit=True))]
    )
    for timing in first.values():
        ratios = {other.name: timing.times_faster_than(other) for other in first.values() if other is not timing}
        aims = []
        if timing.name == "index":
            aims = [
                Aim(f"<= {1e3 * _FIRST_SECONDS:.0f} ms", timing.median <= _FIRST_SECONDS),
                Aim("<= 1/10 of duckdb", ratios["duckdb"] >= 10),
            ]
        yield milliseconds("index", f"first plan of a process, {case}", timing, ratios=ratios, aims=tuple(aims))
    listed = bp.Dataset.open(root)

    def plan(at: str, number: int) -> bp.ScanPlan:
        return plan_dataset(listed, bp.Eq("id", lookups.id(number, hit=True)), PlanOptions(index=at))

    warm = take_turns([Contender(name, partial(plan, at)) for name, at in ways.items()], rounds)
    for timing in warm.values():
        aims = [Aim(f"<= {1e3 * _WARM_SECONDS:.0f} ms", timing.median <= _WARM_SECONDS)]
        yield milliseconds(
            "index", f"warm, listed before, {case}", timing,
            ratios={other.name: timing.times_faster_than(other) for other in warm.values() if other is not timing},
            aims=tuple(aims) if timing.name == "index" else (),
        )  # fmt: skip
    yield _refreshed(rounds, listed, root, to, built, case)


def _refreshed(rounds: int, listed: Dataset, root: str, to: str, built: Timing, case: str) -> Row:
    """A refresh after some files have changed. Their listing is compared apart: a build does not list more of them."""

    def touch(_: int) -> None:
        for file in listed.files[:: round(1 / _REFRESHED_SHARE)]:
            os.utime(file.path)

    listing = Contender("listing", lambda _: Dataset.open(root))
    refresh = Contender("refresh", lambda _: bp.refresh_index(root, to=to), before=touch)
    timings = take_turns([listing, refresh], rounds)
    cpu = {name: float(np.median(timing.cpu_seconds)) for name, timing in timings.items()}
    whole = float(np.median(built.cpu_seconds))
    share = (cpu["refresh"] - cpu["listing"]) / (whole - cpu["listing"])
    return milliseconds(
        "index", f"refresh of {_REFRESHED_SHARE:.0%} of the files, {case}", timings["refresh"],
        notes={"cpu ms": round(1e3 * cpu["refresh"]), "listing cpu ms": round(1e3 * cpu["listing"])},
        aims=(Aim(f"<= 2 % of the build, without listing ({share:.1%})", share <= 0.02),),
    )  # fmt: skip


def _processes(name: str, script: str, rounds: int, arguments: Callable[[int], list[str]]) -> Timing:
    """Timings that new processes print of themselves, after a process that warms up the page cache."""
    seconds, cpu = [], []
    for number in range(-1 if rounds > 1 else 0, max(min(3, rounds), rounds // 2)):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments(number)], check=True, capture_output=True, text=True
        )
        took, processor, result, _ = json.loads(done.stdout)
        if result != 1:
            raise AssertionError(f"{name}: {result} instead of 1")
        if number >= 0:
            seconds.append(took)
            cpu.append(processor)
    return Timing(name, tuple(seconds), tuple(cpu), None)


def _made_up(rounds: int, row_groups: int) -> Iterator[Row]:
    listed, to = made_up_index(row_groups)
    case = f"{row_groups:,} made-up row groups"
    options = PlanOptions(index=to)
    values = list(range(-_MANY, 0))

    def plan(where: bp.Predicate) -> bp.ScanPlan:
        plan = plan_dataset(listed, where, options)
        if plan.indexed != len(listed.files):
            raise AssertionError(f"only {plan.indexed} of {len(listed.files)} files were found in the index")
        return plan

    def cold(number: int) -> bp.ScanPlan:
        return plan(bp.Eq("id", -1 - number))

    def agree(_: int, result: bp.ScanPlan) -> None:
        if result.kept > row_groups / 50:
            raise AssertionError(f"{result.kept} of {row_groups} row groups were kept for absent values")

    contenders = [
        Contender("one value, cold", cold, before=lambda _: _forget(to)),
        Contender("one value, warm", lambda number: plan(bp.Eq("id", -2 - number))),
        Contender(f"{_MANY:,} values, warm", lambda _: plan(bp.In("id", tuple(values)))),
    ]
    timings: dict[str, Timing] = {}
    for contender in contenders:  # one after the other: the cold plan drops the pages that the others have warm
        timings |= take_turns([contender], rounds, agree if contender is not contenders[-1] else None)
    aims = (_MILLION_COLD, _MILLION_WARM, _MILLION_MANY)
    for timing, aim in zip(timings.values(), aims, strict=True):
        reached = Aim(f"<= {1e3 * aim:.0f} ms", timing.median <= aim)
        yield milliseconds("index", case, timing, aims=(reached,) if row_groups >= 1_000_000 else ())


def _forget(to: str) -> None:
    """Drop what this process knows of the index, and its pages from the cache of the operating system."""
    forget_indexes()
    for file in Path(to).iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def made_up_index(row_groups: int) -> tuple[Dataset, str]:
    """An index of files that do not exist, and their listing. It is made once."""
    storage = LocalStorage()
    files = tuple(
        FileInfo(f"/made/up/part-{i:07}.parquet", 100_000, 10**18 + i, i + 1, 10**18)
        for i in range(row_groups // _PER_FILE)
    )
    listed = Dataset(storage, files, (), ((),) * len(files))
    home = base_directory() / f"made-up-{row_groups}-v{VERSION}"
    if not (home / "_manifest.json").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        target = Target(storage, str(home), "/made/up/")
        step = MOST_ROW_GROUPS // _PER_FILE
        segments = [_segment(storage, home, files[at : at + step], at) for at in range(0, len(files), step)]
        with begin_build(target) as build:
            build.commit(FileFormat.PARQUET, "/made/up/", IndexColumns(None), segments)
    return listed, str(home)


class _OneColumn:
    """The columns of a segment that has one."""

    keys = frozenset({(0, 0)})

    def __init__(self, column: ColumnArrays) -> None:
        self._column = column

    def load(self, key: tuple[int, int], reads: ReadCount) -> ColumnArrays:
        return self._column


def _row_groups(storage: LocalStorage, files: tuple[FileInfo, ...]) -> RowGroups:
    """A table of files with the schema of a real one."""
    with tempfile.TemporaryDirectory() as home:
        path = f"{home}/one.parquet"
        bp.write_table(pa.table({"id": pa.array([1], pa.int64())}), path, bloom=["id"])
        (footer,) = read_footers(storage, [FileInfo.of(path, os.stat(path))], ReadCount(), keys=None)
    assert footer is not None
    n = len(files) * _PER_FILE
    number = np.arange(n) % _PER_FILE
    extents = np.stack([4 + 20_000 * number, np.full(n, 20_000)], axis=1)
    every_file, every_chunk = np.ones(len(files), np.int64), np.ones(n, np.int64)
    arrays = GroupArrays(_PER_FILE * every_file, 0 * every_file, 99_000 * every_file, 1_000 * every_chunk, extents)
    table = RowGroups(storage, files, arrays, [footer.profile], [None] * len(files))
    bounds = Bounds(-(2**62) * every_chunk, 2**62 * every_chunk, every_chunk > 0)
    offset = 80_000 + 2_000 * number
    unread = FilterFacts.unread(offset)
    column = ColumnArrays(
        bounds=bounds,
        counts=Counts(0 * every_chunk, 1_000 * every_chunk),
        offset=offset,
        length=1_050 * every_chunk,
        filled=every_chunk > 0,
        filter_facts=unread,
    )
    table.stored = _OneColumn(column)
    return table


def _segment(storage: LocalStorage, home: Path, files: tuple[FileInfo, ...], number: int) -> SegmentEntry:
    """A segment of filters whose bits are set at random: a quarter of them."""
    n = len(files) * _PER_FILE
    random = np.random.default_rng(number)
    bits = [random.integers(0, 1 << 64, (n, _FILTER_BLOCKS * 4), np.uint64) for _ in range(2)]
    matrix = (bits[0] & bits[1]).view(np.uint8)
    table = _row_groups(storage, files)
    (profile,) = table.profiles
    chunks = table.chunks(0, profile.schema.leaves[0])
    name = column_name((0, 0))
    tile = NewTile(SliceLayout(n, matrix.shape[1] * 8), partial(transpose, matrix))
    arrays = tile_arrays("", np.zeros(n, np.int32), np.arange(n, dtype=np.int32), [f"{name}/0"])
    relative = [file._replace(path=file.path.removeprefix("/made/up/")) for file in files]
    sections = {**table_section(table, Listing(storage, relative)), name: {**column_section(chunks), **arrays}}
    pieces, size, start_bytes = serialise(sections, WRITER, {f"{name}/0": tile})
    path = home / f"_{number:016x}-00000000{SEGMENT_SUFFIX}"
    assert is_segment_name(path.name)
    with path.open("wb") as out:
        out.writelines(pieces)
    return SegmentEntry(path.name, size, len(files), n, start_bytes)
