"""An index while files change, while it is rebuilt or dropped, and in other places: exactly the matching rows."""

from __future__ import annotations

import logging
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.indexing import build, commit
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.parquet.row_groups import RowGroups
from tests.reading.test_file_changes import ERRORS, changing_when_planned
from tests.support import changes
from tests.support.files import write
from tests.support.index import assert_same_plans, outcome, plan_by

READS: dict[str, Any] = {
    "table": lambda dataset, where: bp.read_table(dataset, where, columns=["id", "v"]),
    "batches": lambda dataset, where: bp.scan_batches(dataset, where, columns=["id", "v"]).read_all(),
}


def shown(table: Any) -> list[changes.Row]:
    return changes.shown(zip(*table.to_pydict().values(), strict=True))


@pytest.mark.parametrize("units", [changes.KEPT, changes.SKIPPED], ids=["kept", "skipped"])
@pytest.mark.parametrize("kind", changes.CHANGES)
def test_a_file_that_changes_after_the_build(kind: str, units: tuple[int, ...], tmp_path: Path) -> None:
    """The file is planned as without an index; and after a refresh from the index."""
    path = tmp_path / "x.parquet"
    changes.write(path, units, "a")
    changes.write(tmp_path / "y.parquet", (0, 1), "a")
    bp.build_index(tmp_path)
    before = shown(bp.read_table(tmp_path, changes.WHERE, columns=["id", "v"]))
    assert before == changes.matching(units, "a")
    changes.change(path, kind, units)
    after = changes.after(kind, units)
    left = 1 if kind == "deleted" else 2
    for indexed in (1, left):
        assert_same_plans(tmp_path, changes.WHERE, f"id = {changes.FIRST}", indexed=indexed)
        assert shown(bp.read_table(tmp_path, changes.WHERE, columns=["id", "v"])) == after
        assert bp.refresh_index(tmp_path).files >= left


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", changes.CHANGES)
def test_a_file_that_changes_between_plan_and_read(
    kind: str, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that says so, although the plan did not open the file."""
    path = tmp_path / "x.parquet"
    changes.write(path, changes.KEPT, "a")
    changes.write(tmp_path / "y.parquet", (0, 1), "a")
    bp.build_index(tmp_path)
    changing_when_planned(monkeypatch, path, kind, changes.KEPT)
    with pytest.raises(ERRORS, match=rf"(?=.*x\.parquet).*({changes.CHANGED}|No such file)"):
        READS[read](tmp_path, changes.WHERE)
    assert shown(READS[read](tmp_path, changes.WHERE)) == changes.after(kind, changes.KEPT)


def numbers(path: Path, first: int) -> str:
    table = {"x": list(range(first, first + 12, 2)), "y": list(range(first, first + 12, 2))}
    return write(path, table, ["x", "y"], rows_per_group=2, compression="none", use_dictionary=False)


@pytest.mark.parametrize("told", [True, False])
def test_each_plan_uses_the_index_as_it_is_then(told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new index is used by the next plan, a dropped one is not, and nor are what plans remember of them; also where
    another process replaces the index, of which nobody tells this one."""
    if not told:
        monkeypatch.setattr(commit, "forget_indexes", lambda: None)
    numbers(tmp_path / "0.parquet", 0)
    steps: list[tuple[Any, int]] = [
        (lambda: None, 0),
        (lambda: bp.build_index(tmp_path, columns=["x"]), 1),
        (lambda: numbers(tmp_path / "1.parquet", 100), 1),
        (lambda: bp.refresh_index(tmp_path), 2),
        (lambda: numbers(tmp_path / "0.parquet", 1), 1),
        (lambda: bp.build_index(tmp_path), 2),
        ((tmp_path / "1.parquet").unlink, 1),
        (lambda: bp.build_index(tmp_path, columns={"x": bp.Bloom(), "y": bp.Bloom()}), 1),
        (lambda: bp.drop_index(tmp_path), 0),
        (lambda: bp.build_index(tmp_path), 1),
        (lambda: shutil.rmtree(tmp_path / "_bloomparquet_index"), 0),
    ]
    for number, (step, indexed) in enumerate(steps):
        step()
        for where in ("x = 4", "x = 5", "y = 104", "x = 5 AND y = 7"):
            for _ in range(2):
                plan = bp.plan(tmp_path, where)
                assert plan == bp.plan(tmp_path, where, index="off"), (number, where)
                assert plan.indexed == indexed, (number, where)


def test_a_file_that_was_short_while_it_was_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that writes in place: the other files are indexed."""
    for number in range(3):
        numbers(tmp_path / f"{number}.parquet", 100 * number)
    path = tmp_path / "1.parquet"
    contents = iter((path.read_bytes()[:20], path.read_bytes()))
    of_footers = RowGroups.of_footers

    def of_footers_while_it_is_written(*arguments: Any) -> RowGroups:
        path.write_bytes(next(contents, path.read_bytes()))
        return of_footers(*arguments)

    monkeypatch.setattr(RowGroups, "of_footers", of_footers_while_it_is_written)
    info = bp.build_index(tmp_path)
    assert (info.files, dict(info.left_out)) == (2, {str(path): "changed while it was read"})


def test_links_lead_to_the_file_that_is_read(tmp_path: Path) -> None:
    numbers(tmp_path / "a" / "0.parquet", 0)
    numbers(tmp_path / "b" / "0.parquet", 1)
    (tmp_path / "data").mkdir()
    link = tmp_path / "data" / "x.parquet"
    link.symlink_to(tmp_path / "a" / "0.parquet")
    bp.build_index(tmp_path / "data")
    assert_same_plans(tmp_path / "data", "x = 4", "x = 5", indexed=1)
    link.unlink()
    link.symlink_to(tmp_path / "b" / "0.parquet")
    assert_same_plans(tmp_path / "data", "x = 4", "x = 5", indexed=0)


def test_plans_in_threads_while_the_index_is_rebuilt(tmp_path: Path) -> None:
    for i in range(6):
        numbers(tmp_path / f"{i}.parquet", 100 * i)
    bp.build_index(tmp_path)
    wheres = [f"x = {100 * i + 5}" for i in range(6)] + [f"y IN ({100 * i + 4}, 7)" for i in range(6)]
    expected = {where: outcome("off", tmp_path, where) for where in wheres}
    paths = [tmp_path, [tmp_path / f"{i}.parquet" for i in range(6)]]

    def ask(number: int) -> bool:
        where = wheres[number % len(wheres)]
        return outcome("auto", paths[number % 2], where) == expected[where]

    with ThreadPoolExecutor(6) as pool:
        answers = pool.map(ask, range(240))
        for columns in (["x"], None, ["y"], None):
            bp.build_index(tmp_path, columns=columns)
        bp.drop_index(tmp_path)
        assert all(answers)


def with_time(path: str, info: dict[str, Any]) -> pyarrow.fs.FileInfo:
    """The listing of a file system that has modification times."""
    if info["type"] == "directory":
        return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.Directory)
    return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.File, size=info["size"], mtime=info["created"])


@pytest.mark.parametrize("step", ["refresh", "drop"])
def test_a_remote_index_that_is_replaced_while_it_is_believed(
    step: str, memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For some time a remote index is not looked for again: its segments may be gone by then."""
    forget_indexes()
    monkeypatch.setattr(pyarrow.fs.FSSpecHandler, "_create_file_info", staticmethod(with_time))
    for i in range(3):
        memory.pipe(f"/data/{i}.parquet", Path(numbers(tmp_path / f"{i}.parquet", 100 * i)).read_bytes())
    monkeypatch.setattr(commit, "forget_indexes", lambda: None)
    bp.build_index("memory://data")
    assert_same_plans("memory://data", "x = 4", "x = 5", indexed=3)
    memory.pipe("/data/2.parquet", Path(numbers(tmp_path / "2.parquet", 205)).read_bytes())
    bp.refresh_index("memory://data") if step == "refresh" else bp.drop_index("memory://data")
    with caplog.at_level(logging.WARNING):
        for where in ("x = 5", "y = 4", "x = 207", "y = 204 OR x = 4", "y IN (7, 207)"):
            assert_same_plans("memory://data", where)
            assert_same_plans("memory://data/2.parquet", where)
    assert plan_by("auto", "memory://data", "x = 4").indexed == 2
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == len(set(logged))


def random_file(random: Random, path: Path) -> None:
    values = [random.choice([None, *range(60)]) for _ in range(random.choice([0, 1, 3, 8, 20]))]
    table = {"x": pa.array(values, random.choice([pa.int64(), pa.int32()])), "y": pa.array(map(str, values))}
    columns = [name for name in table if random.random() < 0.9]
    bloom = [name for name in columns if random.random() < 0.8]
    rows = random.choice([1, 2, 5])
    kept = {name: table[name] for name in columns} or table
    write(path, kept, bloom, rows_per_group=rows, write_statistics=random.random() < 0.5)


def test_random_steps_of_files_and_index_lose_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come, change and go between builds, refreshes and plans of some of the files, in any order."""
    random = Random(3)
    indexed = 0
    random_file(random, tmp_path / "p=0" / "0.parquet")
    for _ in range(25):
        monkeypatch.setattr(build, "MOST_ROW_GROUPS", random.choice([1, 3, 9, 8192]))
        number = random.randrange(9)
        path = tmp_path / f"p={number % 2}" / f"{number}.parquet"
        step = random.choice(["build", "refresh", "refresh", "change", "change", "change", "delete", "touch"])
        if step == "build":
            bp.build_index(tmp_path)
        elif step == "refresh" and (tmp_path / "_bloomparquet_index").exists():
            bp.refresh_index(tmp_path)
        elif step == "change" or not path.exists():
            random_file(random, path)
        elif step == "touch":
            os.utime(path)
        elif len(list(tmp_path.rglob("*.parquet"))) > 1:
            path.unlink()
        files = [str(file) for file in sorted(tmp_path.rglob("*.parquet"))]
        some = random.choices(files, k=random.randrange(1, 6))
        value, other = random.randrange(62), random.randrange(62)
        wheres = (f"x = {value}", f"x IN ({value}, {other}) OR y = '{other}'", f"NOT (x <> {value}) AND y IS NOT NULL")
        assert_same_plans(tmp_path, *wheres, strict=False)
        assert_same_plans(some, *wheres, strict=False)
        indexed += plan_by("auto", tmp_path, wheres[0], strict=False).indexed
    assert indexed > 25
