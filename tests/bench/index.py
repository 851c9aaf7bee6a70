"""The index: building it, refreshing it, the first plan of a process, and plans afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow.compute as pc

import bloomparquet as bp
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from tests.bench.data import Lookups, Shape, base_directory
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns

_FIRST_SECONDS, _WARM_SECONDS = 0.100, 0.005
_REFRESHED_SHARE = 0.01
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


def index(rounds: int, shape: Shape) -> Iterator[Row]:
    """Plans with and without an index."""
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
