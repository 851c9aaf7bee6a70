"""Values that filters proved to be absent are not looked up again, whatever happens to other files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import bloomparquet as bp
from bloomparquet.planning.evidence.absences import Absences
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.index.cache import process_cache
from bloomparquet.storage.files import LocalStorage, ReadCount
from tests.support.files import write

N = 30_000  # values: filters too large to be kept in memory
ABSENT = 2 * N + 1


def many(path: Path, start: int) -> None:
    write(path, {"x": list(range(start, start + 2 * N, 2))}, ["x"])


def bytes_read(path: Path, value: int) -> tuple[int, int]:
    plan = bp.plan(path, f"x = {value}")
    return plan.bloom_bytes_read, plan.kept


def test_an_absent_value_is_read_once(tmp_path: Path) -> None:
    process_cache.clear()
    for i in range(3):
        many(tmp_path / f"{i}.parquet", 0)
    first, kept = bytes_read(tmp_path, 10_001)
    assert (first > 0, kept) == (True, 0)
    assert bytes_read(tmp_path, 10_001) == (0, 0)
    assert bytes_read(tmp_path, 10_002)[1] == 3  # another value
    many(tmp_path / "3.parquet", 1)  # holds the value that the others do not
    read, kept = bytes_read(tmp_path, 10_001)
    assert (0 < read <= first, kept) == (True, 1)
    many(tmp_path / "0.parquet", 1)  # a file that did not hold it is replaced
    assert bytes_read(tmp_path, 10_001)[1] == 2
    (tmp_path / "3.parquet").unlink()
    assert bytes_read(tmp_path, 10_001)[1] == 1


def question(chunks: list[int], *hashes: int) -> Question:
    first = np.zeros(len(chunks), np.int64)
    every = np.array(hashes, np.uint64)
    return Question(LocalStorage(), np.array(chunks), first, first + len(hashes), every, ReadCount())


def test_absences_move_with_their_chunks() -> None:
    one, other = Absences(4), Absences(3)
    one.add(question([0, 2, 3], 7), np.array([False, True, False]))
    other.add(question([1], 7), np.array([False]))
    other.add(question([0], 8), np.array([False]))
    joined = Absences.concatenate([one, other]).take(np.array([6, 5, 3, 2, 1, 0]))
    assert joined.known(question(list(range(6)), 7)).tolist() == [False, True, True, False, False, True]
    assert not joined.known(question(list(range(6)), 8)).any()
    assert not joined.known(question(list(range(6)), 7, 8)).any()


def test_absences_are_bounded() -> None:
    absences = Absences(8 << 20)
    for value in range(40):
        absences.add(question([5], value), np.array([False]))
    known = [bool(absences.known(question([5], value))[0]) for value in range(40)]
    assert known == [False] * 24 + [True] * 16
