"""The planner process, driven by frames as the jar does, without Spark."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloomparquet.storage.staleness import local_versions
from pyspark_bloomparquet.jar import listing, planner_worker
from pyspark_bloomparquet.jar.planner_worker import Worker
from pyspark_bloomparquet.jar.protocol import read_frame, to_predicate, write_frame
from tests.support import files
from tests.support.expression_filters import with_filters
from tests.support.planner_process import Planner, equals, listing_of, request_of, started


def test_answers_hold_the_row_groups_of_the_value(planner: Planner, five_files: list[Path]) -> None:
    planner.send(7, five_files, equals(3))
    head, ranges = planner.receive()
    plan = head["plan"]
    assert (head["id"], plan["numRowGroupsTotal"], plan["numRowGroupsRead"]) == (7, 10, 1)
    assert plan["numRowGroupsSkippedByStatistics"] + plan["numRowGroupsSkippedByBloomFilter"] == 9
    assert [file for file, _, _ in ranges] == [3]


def test_lower_is_planned_only_if_something_else_skips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[Any] = [["Ann", "BOB"], ["carl"], ["dora", "\u212a"]]
    path = Path(files.write_groups(tmp_path / "x.parquet", [{"c": cells} for cells in groups]))
    leaf = {"op": "=", "case": "lower", "column": ["c"], "type": "string", "value": "bob"}

    def answer(predicate: Any) -> dict[str, Any]:
        return Worker(BytesIO())._plan(request_of([path], predicate, tmp_path), listing_of([path]))[0]

    not_null, other = {"op": "is not null", "column": ["c"]}, leaf | {"value": "dora"}
    for predicate in (leaf, {"and": [leaf, not_null]}, {"or": [leaf, other]}):
        assert answer(predicate) == {"unplanned": "the files have no filters of lower(column) and upper(column)"}
    del other["case"]
    plan = answer({"and": [leaf, other]})["plan"]
    assert (plan["numRowGroupsRead"], plan["numRowGroupsSkippedByStatistics"]) == (1, 2)
    monkeypatch.setattr(planner_worker, "has_expression_filters", lambda dataset, index: True)
    with_filters(monkeypatch, groups)
    plan = answer(leaf)["plan"]
    assert (plan["numRowGroupsRead"], plan["numRowGroupsSkippedByBloomFilter"]) == (2, 1)


def test_concurrent_requests_are_all_answered(planner: Planner, five_files: list[Path]) -> None:
    for i in range(60):
        planner.send(i, five_files[: 1 + i % 5], equals(i))
    for i, ranges in sorted((head["id"], ranges) for head, ranges in (planner.receive() for _ in range(60))):
        assert [file for file, _, _ in ranges] == [i % 5], i


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"listing": "0" * 64}, "expected 0000"),
        ({"version": None}, "has version None"),
        ({"predicate": None}, ""),
        ({"format": "csv"}, "'csv'"),
        ({"predicate": {"op": "like", "column": ["id"]}}, "does not know"),
        ({"options": {"onFilterError": "perhaps"}}, "onFilterError is 'perhaps'"),
        ({"options": {"cacheMaxBytes": "many"}}, "cacheMaxBytes"),
    ],
    ids=str,
)
def test_a_bad_request_gets_an_error_answer(
    planner: Planner, five_files: list[Path], change: dict[str, Any], error: str
) -> None:
    head = planner.ask(five_files, **{"predicate": equals(1), **change})
    assert "plan" not in head
    assert error in head["error"]
    assert planner.ask(five_files, equals(1))["plan"]["numRowGroupsRead"] == 1


def test_a_known_listing_is_not_sent_again(planner: Planner, tmp_path: Path) -> None:
    """The versions of its files are sent unless the jar names them, and each plan is one of the present versions."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for i, path in enumerate(paths):
        files.write(path, {"id": [i]}, ["id"])
    frame = request_of(paths, None, planner.cache), listing_of(paths)

    def ask(value: int, revision: int, data: bytes = b"") -> tuple[dict[str, Any], list[int], list[int]]:
        write_frame(planner.requests, {**frame[0], "predicate": equals(value), "revision": revision}, data)
        head, ranges, versions = planner.receive_all()
        return head, [file for file, _, _ in ranges], versions

    def present() -> list[int]:
        stats = [path.stat() for path in paths]
        columns = [[each.st_size, each.st_mtime_ns // 1_000_000, each.st_ino, each.st_ctime_ns] for each in stats]
        return [number for column in zip(*columns, strict=True) for number in column]

    assert ask(1, 0) == ({"id": 1, "unknown": "listing"}, [], [])
    head, kept, versions = ask(1, 0, frame[1])
    assert (kept, versions) == ([1], present())
    revision = head["revision"]
    assert ask(0, revision)[1:] == ([0], [])
    assert ask(0, revision + 1)[1:] == ([0], present())
    files.write(paths[0], {"id": [7, 8]}, ["id"])
    head, kept, versions = ask(7, revision)
    assert (kept, versions) == ([0], present())
    assert head["revision"] != revision
    assert ask(0, head["revision"])[1:] == ([], [])


def test_the_least_recent_listing_is_forgotten(planner: Planner, five_files: list[Path]) -> None:
    for i in range(2 * planner_worker._CACHED_LISTINGS):
        paths = five_files[:1] * (i + 1)
        for used in (paths, five_files):
            planner.send(i, used, equals(3))
            assert planner.receive()[0]["plan"]["numRowGroupsTotal"] == 2 * len(used)
    planner.send(1, five_files, equals(3), sends_files=False)
    assert planner.receive()[1] != []
    planner.send(1, five_files[:1], equals(3), sends_files=False)
    assert planner.receive()[0]["unknown"] == "listing"


def test_printed_text_does_not_mix_with_frames(tmp_path: Path, five_files: list[Path]) -> None:
    noisy = """
import os
from pyspark_bloomparquet.jar import planner_worker
plan = planner_worker.planner.plan_dataset
def loud(*args, **kwargs):
    print("a line", flush=True)
    os.write(1, b"and bytes")
    return plan(*args, **kwargs)
planner_worker.planner.plan_dataset = loud
planner_worker.main()
"""
    with started(tmp_path, noisy) as planner:
        assert planner.ask(five_files, equals(1))["plan"]["numRowGroupsRead"] == 1
        assert planner.ask(five_files, equals(2))["plan"]["numRowGroupsRead"] == 1


def test_it_ends_with_its_input(tmp_path: Path, five_files: list[Path]) -> None:
    with started(tmp_path) as planner:
        planner.send(1, five_files, equals(1))
        planner.requests.close()
        assert planner.receive()[0]["id"] == 1  # the pending request is still answered
        assert read_frame(planner.answers) is None
        assert planner.process.wait(30) == 0


def test_processes_with_a_shared_disk_cache_agree(tmp_path: Path, five_files: list[Path]) -> None:
    with started(tmp_path) as one, started(tmp_path) as other:
        for i in range(20):
            for planner in (one, other):
                planner.send(i, five_files, equals(i))
        for planner in (one, other):
            answers = [planner.receive() for _ in range(20)]
            answers_by_id = {head["id"]: [file for file, _, _ in ranges] for head, ranges in answers}
            assert answers_by_id == {i: [i % 5] for i in range(20)}
    with started(tmp_path) as third:  # the disk cache of the others is enough
        assert third.ask(five_files, equals(1))["plan"]["numRowGroupsRead"] == 1


def test_cache_false_stores_nothing_beside_other_loads(
    tmp_path: Path, five_files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load with ``cache=false`` stores nothing, even if a load that may store is planned at the same time."""
    worker = Worker(BytesIO())
    private, public = (request_of([path], equals(1), tmp_path) for path in five_files[:2])
    private["options"]["cache"] = "false"

    def plan_the_other_first(predicate: Any) -> Any:
        monkeypatch.undo()
        worker._answer(public, listing_of(five_files[1:2]))
        return to_predicate(predicate)

    monkeypatch.setattr(planner_worker, "to_predicate", plan_the_other_first)
    worker._answer(private, listing_of(five_files[:1]))
    (stored,) = tmp_path.rglob("*.columns")
    assert five_files[0].name.encode() not in stored.read_bytes()


def test_a_plan_goes_by_a_look_of_its_own_query(
    five_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jar has the planner look at files when a query begins. Only the plans of that query go by the look, and only
    for a second."""
    looks: list[int] = []
    monkeypatch.setattr(listing, "local_versions", lambda paths: looks.append(1) or local_versions(paths))
    worker, paths = Worker(BytesIO()), [Path(shutil.copy(path, tmp_path)) for path in five_files]
    request = request_of(paths, equals(103), tmp_path / "cache")

    def look(query: str) -> None:
        with ThreadPoolExecutor() as threads:
            worker._look(threads, {"look": request["listing"], "execution": query})

    def plan(query: str | None, data: bytes = b"") -> tuple[int, int, list[int]]:
        before = len(looks)
        head, body, _ = worker._plan({**request, "execution": query}, data)
        numbers = np.frombuffer(body, ">i8")[3 * head["ranges"] :]
        return len(looks) - before, head["plan"]["numRowGroupsRead"], numbers[: len(paths)].tolist()

    def sizes() -> list[int]:
        return [path.stat().st_size for path in paths]

    plan(None, listing_of(paths))
    look("12")
    assert plan("12") == (0, 1, sizes())
    assert plan("12") == (1, 1, sizes()), "a look serves one plan"
    files.write(paths[4], {"id": [103] * 60}, {"id": {"ndv": 20, "fpp": 1e-4}}, rows_per_group=20)
    for query in ("13", None):
        assert plan(query) == (1, 4, sizes())
    look("14")
    assert plan("14") == (0, 4, sizes())
    look("15")
    monkeypatch.setattr(planner_worker, "_LOOK_SECONDS", 0.0)
    assert plan("15") == (1, 4, sizes())
