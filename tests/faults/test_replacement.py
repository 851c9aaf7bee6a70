"""A file that is replaced at any call of a reader or a writer gives the rows of one version, or an error.

Its writer loses nothing: the new file stays, with or without the change that was under way.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.faults.injector import IS_REPEATED, Injector, keyword, repeat, seeds
from tests.faults.local_calls import faulty
from tests.faults.work import ERRORS, WORKS, LocalPlace, Work, forget, parquet, random_of, unlogged
from tests.support import changes
from tests.support.disk_cache import restart, use_disk

pytestmark = pytest.mark.slow

ONE = changes.FIRST + 100
WHERES = {changes.WHERE: lambda row: True, f"id = {ONE}": lambda row: row[0] == ONE - changes.BASE}
TICK_SECONDS = 0.01
"""Longer than the kernel's clock of files stands still: within that, two versions in one inode look alike."""


class Replacing(Injector):
    """Replaces a file before the call of that number."""

    def __init__(self, at: int = 0, replace: object = None) -> None:
        super().__init__()
        self._at_call, self._replace = at, replace
        self.done = False

    def choose(self, name: str, kinds: Sequence[str]) -> str | None:
        if self._replace is None:
            self.calls += 1
        elif not self.done:
            self.calls += 1
            # Nothing can be done about a file that is replaced between the last look at it and the rename.
            if self.calls >= self._at_call and name not in ("rename", "unlink"):
                self.done = True
                self._replace()  # type: ignore[operator]
        return None


def read(path: Path, where: str) -> list[changes.Row]:
    table = bp.read_table(path, where, columns=["id", "v"])
    return changes.shown(zip(*table.to_pydict().values(), strict=True))


@pytest.mark.parametrize("file_format", changes.FORMATS, ids=lambda each: f"replace-{each}")
def test_a_file_replaced_at_any_call_gives_one_version(file_format: str, tmp_path: Path) -> None:
    ends = Counter[str]()
    for seed in seeds(0.05, few=12):
        random = random_of(f"replace {file_format}", seed)
        root = tmp_path / str(seed)
        root.mkdir()
        path = root / f"x.{file_format}"
        units = random.choice((changes.KEPT, changes.SKIPPED))
        where, matches = random.choice(list(WHERES.items()))
        kind = random.choice(changes.CHANGES)
        changes.write(root / f"other.{file_format}", (0,), "a")
        changes.write(path, units, "a")
        if random.random() < 0.3:
            bp.build_index(root)
        forget()
        is_warm = random.random() < 0.3
        time.sleep(TICK_SECONDS)
        counted = Replacing()
        with faulty(root, counted):
            read(root, where)
        if not is_warm:
            forget()
        replacing = Replacing(random.randint(1, counted.calls), lambda: changes.change(path, kind, units))  # noqa: B023
        allowed = [
            [row for row in rows if matches(row)] for rows in (changes.matching(units, "a"), changes.after(kind, units))
        ]
        try:
            with unlogged(), faulty(root, replacing):
                ends[outcome(root, where, allowed)] += 1
            forget()
            if not replacing.done:
                changes.change(path, kind, units)
            assert read(root, where) == allowed[1]
        except BaseException:
            print(f"{where}, {kind} at call {replacing.calls}; {repeat(seed, f'replace-{file_format}')}")
            raise
        for each in root.rglob("*"):
            if each.is_file():
                each.unlink()
    print(f"\n{file_format}: {dict(ends)}")
    assert IS_REPEATED or (ends["error"] and ends["old rows"] + ends["new rows"])
    process_cache.clear()


@pytest.mark.parametrize("after", ["the same process", "another process"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("file_format", changes.FORMATS)
def test_a_link_that_leads_back_loses_nothing(file_format: str, is_warm: bool, after: str, tmp_path: Path) -> None:
    """If a link leads to another file while evidence is read, it is evidence of that file. No later plan may use it,
    when the link leads to the listed file again."""
    use_disk(tmp_path / "cache" if after == "another process" else None)
    root, link = tmp_path / "t", tmp_path / "t" / f"x.{file_format}"
    root.mkdir()
    for name, units in (("first", changes.KEPT), ("second", (0, 1, 3))):
        changes.write(tmp_path / f"{name}.{file_format}", units, "a")

    def lead_to(name: str) -> None:
        new = tmp_path / "link"
        new.symlink_to(tmp_path / f"{name}.{file_format}")
        os.replace(new, link)

    ids = [changes.BASE + 2000 + i for i in range(3)]
    call = 0
    while True:
        call += 1
        lead_to("first")
        forget()
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        if is_warm:
            bp.plan(root, f"id = {changes.BASE + 5000}")
        replacing = Replacing(call, lambda: lead_to("second"))
        with faulty(root, replacing):
            try:
                bp.plan(root, f"id = {changes.BASE + 2000}")
            except ERRORS as error:
                require_named(error, "/x.")
        lead_to("first")
        if after == "another process":
            restart()
        for each in ids:
            assert bp.read_table(root, f"id = {each}", columns=["id"])["id"].to_pylist() == [each], call
        if not replacing.done:
            break
    assert call > 4
    use_disk(None)
    process_cache.clear()


def outcome(root: Path, where: str, allowed: Sequence[list[changes.Row]]) -> str:
    try:
        rows = read(root, where)
    except ERRORS as error:
        require_named(error, "/x.")
        return "error"
    assert rows in allowed, f"{len(rows)} rows; expected one of {[len(each) for each in allowed]}"
    return "old rows" if rows == allowed[0] else "new rows"


def require_named(error: BaseException, name: str) -> None:
    assert name in str(error), f"the error does not name the file: {error!r}"


WRITERS = ("add", "shrink", "add to another file")


@pytest.mark.parametrize("name", WRITERS, ids=lambda name: keyword(f"replace-{name}"))
def test_a_writer_keeps_a_file_that_replaced_its_own(name: str, tmp_path: Path) -> None:
    work, place, ends = WORKS[name], LocalPlace(tmp_path), Counter[str]()
    new = parquet(0, 2 * GROUPS)
    (target,) = work.after()
    for seed in seeds(0.05 / len(WRITERS), few=12):
        random = random_of(f"replace {name}", seed)
        (tmp_path / target).unlink(missing_ok=True)
        work.prepare(place)
        old_result, new_result = work.after()[target], result_of(work, place, new)
        calls = count(work, place)
        in_place = random.random() < 0.3
        replacing = Replacing(random.randint(1, calls), lambda: put(tmp_path / "a.parquet", new, in_place))  # noqa: B023
        time.sleep(TICK_SECONDS)
        try:
            try:
                with unlogged(), faulty(tmp_path, replacing):
                    work.run(place)
                end = "done"
            except ERRORS as error:
                require_named(error, "a.parquet")
                end = "error"
            now = place.read(target) if target in place.names() else None
            if not replacing.done:
                assert now == old_result
            elif target == "a.parquet":
                assert now in (new, new_result), f"the new file is lost; {end}"
                assert end == "error" or now == new_result or replacing.calls > calls // 2
            else:
                assert place.read("a.parquet") == new
                assert now in (old_result, new_result) or (now is None and end == "error"), end
            assert not [each for each in place.names() if each.endswith("-tmp")]
            assert not place.open_files()
        except BaseException:
            print(f"{end} at call {replacing.calls}; {repeat(seed, f'replace-{name}')}")
            raise
        ends[end] += 1
    print(f"\n{name}: {dict(ends)}")
    assert IS_REPEATED or ends["error"]


GROUPS = 20


def result_of(work: Work, place: LocalPlace, new: bytes) -> bytes:
    """The result of the work on the new file, in a copy."""
    (target,) = work.after()
    before = place.read("a.parquet")
    place.put("a.parquet", new)
    work.run(place)
    result = place.read(target)
    place.put("a.parquet", before)
    if target != "a.parquet":
        place.remove(target)
    forget()
    return result


def count(work: Work, place: LocalPlace) -> int:
    before, counted = place.read("a.parquet"), Replacing()
    with faulty(Path(place.root), counted):
        work.run(place)
    (target,) = work.after()
    if target != "a.parquet":
        place.remove(target)
    place.put("a.parquet", before)
    forget()
    return counted.calls


def put(path: Path, data: bytes, in_place: bool) -> None:
    other = path.with_name(".new")
    other.write_bytes(data)
    if in_place:
        path.write_bytes(data)
        other.unlink()
    else:
        os.replace(other, path)
