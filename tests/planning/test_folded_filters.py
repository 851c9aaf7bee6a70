"""Folded copies of filters answer lookups without a read, and exclude no value that a filter holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.parquet import folded_filters
from bloomparquet.planning.parquet.folded_filters import FoldedFilters
from bloomparquet.storage.files import LocalStorage, ReadCount
from bloomparquet.storage.ranges import Ranges
from tests.support.files import write

N = 30_000  # values of a file: its filter of 32 KiB is not kept as it is
LOOKUPS = 40
HASHES = np.random.default_rng(0).integers(0, 2**64, 4_000, np.uint64)


def folded_copies(values: list[int], sizes: list[int]) -> FoldedFilters:
    """Copies of filters of ``sizes[i]`` blocks. Filter i holds ``values[i]`` hashes, from HASHES[500 * i] on."""
    blooms = [SplitBlockBloomFilter.empty(size) for size in sizes]
    for i, bloom in enumerate(blooms):
        bloom.insert(HASHES[500 * i :][: values[i]])
    num_bytes = np.array([bloom.num_bytes for bloom in blooms])
    starts = 3 + np.cumsum(num_bytes) - num_bytes  # unaligned, as in a file
    buffer = np.frombuffer(b"abc" + b"".join(bloom.to_bytes() for bloom in blooms), np.uint8)
    return FoldedFilters.none(len(blooms)).added(np.arange(len(blooms)), Ranges(buffer, starts), num_bytes)


def question(chunks: list[int], first: list[int], last: list[int]) -> Question:
    which, begin, end = (np.array(each, np.int64) for each in (chunks, first, last))
    return Question(LocalStorage(), which, begin, end, HASHES, ReadCount())


SHAPES = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 70)), min_size=1, max_size=6)


@given(SHAPES, st.data())
def test_no_value_of_a_filter_is_excluded(shapes: list[tuple[int, int]], data: st.DataObject) -> None:
    values, sizes = map(list, zip(*shapes, strict=True))
    copies = folded_copies(values, sizes)
    chunks = data.draw(st.permutations(range(len(shapes))))
    wanted = [500 * chunk + data.draw(st.integers(0, values[chunk] - 1)) for chunk in chunks]
    extra = data.draw(st.integers(1, 200))  # also more values than a copy is asked for
    asked = question(chunks, [max(0, value - extra) for value in wanted], [value + 1 for value in wanted])
    assert not copies.excluded(asked).any()


def test_a_copy_is_half_full_and_excludes_most_absent_values() -> None:
    copies = folded_copies([500] * 4, [1024, 512, 63, 1])
    others = [question([chunk], [3_000 + i], [3_001 + i]) for chunk in range(4) for i in range(500)]
    excluded = np.array([copies.excluded(each)[0] for each in others]).reshape(4, 500).mean(axis=1)
    assert (excluded[:3] > 0.98).all()
    assert excluded[3] == 0  # one block cannot be folded, and all of its bits are set
    assert copies.cached_bytes == 32 * (32 + 32 + 63 + 1)


def test_copies_are_asked_for_few_values() -> None:
    copies = folded_copies([1], [8])
    answers = [copies.excluded(question([0], [3_000], [3_000 + n])) for n in (1, 128, 129)]
    assert [answer.tolist() for answer in answers] == [[True], [True], [False]]
    assert {answer.dtype for answer in answers} == {np.dtype(np.bool_)}


def test_nothing_is_added_after_a_copy_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it would fit: such filters need not be read whole any more. 63 blocks cannot be folded, 64 can."""
    monkeypatch.setattr(folded_filters, "FOLDED_BYTES", 32 * 40)
    copies = folded_copies([1, 1], [63, 64])
    assert (copies.is_full, copies.present.tolist()) == (True, [False, True])
    one = FoldedFilters.none(2)
    for chunk, n_blocks in ((0, 63), (1, 1)):
        one = one.added(
            np.array([chunk]), Ranges(np.full(32 * n_blocks, 1, np.uint8), np.array([0])), np.array([32 * n_blocks])
        )
    assert (one.is_full, one.present.tolist(), one.cached_bytes) == (True, [False, False], 0)
    exact = one = FoldedFilters.none(3)
    for chunk, n_blocks in ((0, 39), (1, 1), (2, 1)):  # 39 blocks cannot be folded
        bitsets = Ranges(np.full(32 * n_blocks, 1, np.uint8), np.array([0]))
        exact, one = one, one.added(np.array([chunk]), bitsets, np.array([32 * n_blocks]))
    assert (exact.is_full, exact.cached_bytes) == (False, 32 * 40)
    assert (one.is_full, one.cached_bytes) == (True, 32 * 40)


def test_chunks_without_a_copy_or_a_value_are_not_excluded() -> None:
    bitset = Ranges(np.full(256, 1, np.uint8), np.array([0]))
    copies = FoldedFilters.none(2).added(np.array([0]), bitset, np.array([256]))
    assert copies.present.tolist() == [True, False]
    assert not copies.excluded(question([1], [3_000], [3_001])).any()
    assert not copies.excluded(question([0, 1], [3_000, 3_000], [3_000, 3_000])).any()


def many(path: Path, start: int) -> str:
    return write(path, {"x": list(range(start, start + 2 * N, 2))}, ["x"])


def kept_files(path: Path, value: int) -> list[str]:
    return [Path(group.path).stem for group in bp.plan(path, f"x = {value}").row_groups if group.kept]


def bytes_of_lookups(path: Path, values: range) -> list[int]:
    plans = [bp.plan(path, f"x = {value}") for value in values]
    assert [plan.kept for plan in plans].count(0) > 0.9 * len(plans)
    return [plan.bloom_bytes_read for plan in plans]


def test_filters_that_are_asked_often_are_read_once_more(tmp_path: Path) -> None:
    process_cache.clear()
    for i in range(3):
        many(tmp_path / f"{i}.parquet", 0)
    read = bytes_of_lookups(tmp_path, range(10_001, 10_001 + 2 * LOOKUPS, 2))
    whole = 3 * 32 * 1024
    assert sum(each >= whole for each in read) == 1
    assert sum(read[-LOOKUPS // 2 :]) < 20 * 32, "only what the copies let pass"
    assert sum(read) < 2 * whole + 3 * 6_000
    for value in (10_000, 2 * N - 2, 0):
        assert bp.plan(tmp_path, f"x = {value}").kept == 3


def test_copies_survive_other_files_and_not_a_changed_one(tmp_path: Path) -> None:
    process_cache.clear()
    for i in range(3):
        many(tmp_path / f"{i}.parquet", 0)
    bytes_of_lookups(tmp_path, range(10_001, 10_001 + 2 * LOOKUPS, 2))
    many(tmp_path / "3.parquet", 1)  # holds what the others do not
    assert kept_files(tmp_path, 20_001) == ["3"]
    many(tmp_path / "1.parquet", 1)
    assert kept_files(tmp_path, 20_003) == ["1", "3"]
    assert kept_files(tmp_path, 20_000) == ["0", "2"]
