"""Plans over files of several parts of the cache are the plans without a cache, and read only what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import orc

import bloomparquet as bp
from bloomparquet.errors import FormatError
from bloomparquet.parquet.metadata import file_profile
from bloomparquet.planning.cache import parts
from bloomparquet.planning.cache import plan_cache as cache
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.evidence.filter_store import FilterStore
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.joined import JoinedFilters, join_bounds
from bloomparquet.planning.evidence.selection import Selection
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import LocalStorage, ReadCount
from tests.support.disk_cache import restart, summary, uncached
from tests.support.files import write


def require_same(path: Any, *wheres: Any) -> list[bp.ScanPlan]:
    """The plans, which must be those without a cache."""
    plans = [bp.plan(path, where) for where in wheres]
    assert [summary(plan) for plan in plans] == [uncached(path, where) for where in wheres]
    return plans


def test_a_profile_with_two_numbers_in_a_part_has_the_evidence_of_both(tmp_path: Path, directory: Path) -> None:
    """A process that forgot the first profile makes another of the same schema. Restored, both are one object."""
    for i in range(4):
        write(tmp_path / "data" / f"{i}.parquet", {"x": [100 * i, 100 * i + 50]}, ["x"])
    first = bp.Dataset.open([tmp_path / "data" / f"{i}.parquet" for i in range(2)])
    bp.plan(first, "x = 1")
    file_profile._profiles.clear()
    file_profile._tails.clear()
    others = bp.Dataset.open([tmp_path / "data" / f"{i}.parquet" for i in (2, 3)])
    bp.plan(others, "x = 1")
    one, two = (kept.part for kept in process_cache._parts)
    assert one.profiles[0] is not two.profiles[0]
    two.profiles = one.profiles  # as two segments of one process are restored
    for order in ((0, 1, 2, 3), (3, 0, 2, 1), (2, 1), (3, 3, 0)):
        paths = [tmp_path / "data" / f"{i}.parquet" for i in order]
        plans = require_same(paths, "x = 0", "x = 150", "x = 250", "x = 300 OR x = 50", "x > 220", "x = 7")
        assert isinstance(plans[0].table, Selection)
        assert len(plans[0].table.schemas) == 1


def test_equal_profiles_within_a_restored_part_keep_their_own_evidence(tmp_path: Path, directory: Path) -> None:
    for i in range(4):
        write(tmp_path / "data" / f"{i}.parquet", {"x": [100 * i, 100 * i + 50]}, ["x"])
    bp.plan(tmp_path / "data", "x = 1")
    (kept,) = process_cache._parts
    (profile,) = kept.part.profiles
    kept.part.profiles, kept.part.schemas = [profile, profile], [profile.schema, profile.schema]
    kept.part.arrays.profile[2:] = 1
    kept.part._members = [np.array([0, 1]), np.array([2, 3])]
    kept.part._chunks.clear()
    for order in ((2, 0, 1), (3, 1), (1, 2)):
        paths = [tmp_path / "data" / f"{i}.parquet" for i in order]
        plan, *_ = require_same(paths, "x = 0", "x = 150", "x = 250", "x >= 300", "x IN (50, 350)")
        assert len(plan.table.schemas) == 1


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
def test_files_of_a_part_that_are_gone_are_not_read(tmp_path: Path, directory: Path, suffix: str) -> None:
    """The part is restored without the column that is asked for, and one of its files was deleted."""
    write_file = write if suffix == "parquet" else _write_orc
    for i in range(6):
        times = pa.array([i, i + 1], pa.timestamp("us"))
        write_file(tmp_path / "data" / f"{i}.{suffix}", {"x": [2 * i, 2 * i + 100], "y": [i, i + 1], "t": times}, ["x"])
    bp.plan(tmp_path / "data", "x = 4")
    restart()
    (tmp_path / "data" / f"3.{suffix}").unlink()
    (plan,) = require_same(tmp_path / "data", "y = 2")
    assert (plan.kept, len(plan.table.files)) == (2, 5)
    assert plan.footer_reads.requests == (5 if suffix == "parquet" else 4)
    require_same(tmp_path / "data", "x = 8", "t IS NULL", "t > TIMESTAMP '2001-01-01 00:00:00'")


def _write_orc(path: Path, columns: dict[str, Any], blooms: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    orc.write_table(pa.table(columns), path, bloom_filter_columns=[list(columns).index(name) for name in blooms])


def test_a_data_set_that_grows_file_by_file_is_read_once_and_a_little_more(tmp_path: Path, directory: Path) -> None:
    requests, files = 0, 3 * parts.MOST_PARTS
    for i in range(files):
        write(tmp_path / "data" / f"{i:03}.parquet", {"x": [2 * i, 2 * i + 1000]}, ["x"])
        if i:
            plan, _ = require_same(tmp_path / "data", f"x = {2 * i}", "x = 1 OR x > 1040")
            requests += plan.footer_reads.requests
            assert len(getattr(plan.table, "parts", [])) <= parts.MOST_PARTS + 1
    assert files <= requests < 3 * files
    restart()
    assert bp.plan(tmp_path / "data", "x = 4").requests < files


def test_a_part_reads_and_reports_only_what_a_plan_selects(tmp_path: Path) -> None:
    """A key is refused for one file. Plans over the other files of its part have no error."""
    process_cache.clear()
    keys = bp.Keys(b"f" * 16, {"x": b"x" * 16})
    for i in range(3):
        own = bp.Keys(b"f" * 16, {"x": b"y" * 16}) if i == 1 else keys
        bp.write_table(pa.table({"x": [i, i + 10]}), tmp_path / f"{i}.parquet", bloom=["x"], encryption=own)
    whole = bp.plan(tmp_path, "x = 2", keys=keys)
    assert (whole.kept, len(whole.errors)) == (2, 1)
    paths = [tmp_path / "2.parquet", tmp_path / "0.parquet"]
    some = bp.plan(paths, "x = 2", keys=keys, on_filter_error="fail")
    assert (some.kept, some.errors) == (1, ())
    with pytest.raises(bp.EncryptionError, match=r"1\.parquet"):
        bp.plan([tmp_path / "1.parquet", tmp_path / "2.parquet"], "x = 2", keys=keys, on_filter_error="fail")


def test_an_index_and_the_cache_make_one_plan(data: Path, directory: Path) -> None:
    bp.build_index(data)
    write(data / "new.parquet", {"x": [2, 31], "name": ["n2", "z"], "y": [1.0, 15.5]}, ["x"])
    for forget in (list, restart):
        forget()
        for where in ("x = 31", "x = 30", "name = 'z' OR y < 2", "y = 15.5 AND x = 31"):
            plan, plain = bp.plan(data, where), bp.plan(data, where, index="off")
            assert (plan, plan.indexed, plain.indexed) == (plain, 10, 0)
    paths = [str(data / "new.parquet"), str(data / "3.parquet"), str(data / "3.parquet")]
    assert bp.plan(paths, "x = 31") == bp.plan(paths, "x = 31", index="off")


class _Filters:
    """Filters of n chunks: chunk i holds the hash i alone. `bad` cannot be used."""

    def __init__(self, n: int, bad: int) -> None:
        self.present, self.in_index = np.arange(n) != 1, np.arange(n) == 2
        self.errors = {bad: FormatError(f"chunk {bad}")}

    def check(self, question: Question) -> NDArray[np.bool_]:
        pairs = zip(question.chunks.tolist(), question.first.tolist(), question.last.tolist(), strict=True)
        answers = [chunk in self.errors or chunk in question.hashes[i:j].tolist() for chunk, i, j in pairs]
        question.reads.requests += len(answers)
        return np.array(answers, np.bool_)


def test_joined_filters_ask_each_piece_for_its_own_chunks() -> None:
    at = [np.array([3, 0]), np.array([1]), np.array([2, 2, 1])]
    joined = JoinedFilters([_Filters(4, 0), FilterStore(TiledFilters.none(2)), _Filters(3, 2)], at)
    assert joined.present.tolist() == [True, True, False, True, True, False]
    assert joined.in_index.tolist() == [False, False, False, True, True, False]
    assert {chunk: str(error) for chunk, error in joined.errors.items()} == {1: "chunk 0", 3: "chunk 2", 4: "chunk 2"}
    chunks, reads = np.array([5, 0, 2, 1, 3]), ReadCount()
    hashes = np.array([3, 1], np.uint64)
    for first, last, expected in ((0, 1, [False, True, True, True, True]), (1, 2, [True, False, True, True, True])):
        span = (np.full(5, first), np.full(5, last))
        assert joined.check(Question(LocalStorage(), chunks, *span, hashes, reads)).tolist() == expected
    assert reads.requests == 8


@pytest.mark.parametrize("keys", [[1, 5], [1.5, float("inf")], [b"a", b"b\0"]])
def test_joined_bounds_are_unknown_where_a_piece_has_none(keys: list[Any]) -> None:
    lower, upper = (np.array(keys[:1] * 2, object if isinstance(keys[0], bytes) else None) for _ in range(2))
    upper[:] = keys[1]
    some = Bounds(lower, upper, np.array([True, False]), np.array([False, True]))
    at = [np.array([1, 0]), np.array([0, 3]), np.array([0])]
    joined = join_bounds([some, None, some], at)
    assert joined.known.tolist() == [False, True, False, False, True]
    assert (joined.lower[1], joined.upper[4], joined.lower.dtype) == (keys[0], keys[1], lower.dtype)
    assert joined.may_hold_nan.tolist() == [False, True, True, True, True]
    assert join_bounds([None, None], at[:2]) is None


def test_footers_of_indexed_files_are_bounded(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process_cache.clear()
    bp.build_index(data)
    expected = bp.read_table(data, "x < 40", index="off")
    for most in (1 << 20, 0):
        monkeypatch.setattr("bloomparquet.planning.parquet.row_groups._INDEXED_FOOTER_BYTES", most)
        assert bp.read_table(data, "x < 40").equals(expected)
        (part,) = getattr(bp.plan(data, "x = 2").table, "parts")  # noqa: B009 - a part alone has none
        assert (part._footer_bytes > 0) == (most > 0)
        process_cache.clear()
        monkeypatch.setattr(part, "_footers", [None] * len(part.files))


def test_the_parts_of_the_last_plan_stay_whatever_their_size(data: Path) -> None:
    small = cache.PlanCache(memory_bytes=1)
    some, every = bp.Dataset.open([data / "0.parquet", data / "1.parquet"]), bp.Dataset.open(data)
    options = PlanOptions(cache=small)
    requests = [plan_dataset(dataset, "y < 3", options).requests for dataset in (some, every, every, every)]
    assert (requests[0], requests[1]) == (2, 8)
    assert requests[2:] == [0, 0]
