"""Tails and indexes of ORC files are cached, and shared by all sets of files that hold them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.orc.cache import StripeCache
from bloomparquet.planning.orc.cache import process_cache as stripes
from tests.support.orc_rewriting import write

WHERE = "a = 500000000001"
FILES, STRIPES = 8, 3


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    stripes.clear()
    values = random.Random(1)
    for number in range(FILES):
        rows = pa.table({"a": pa.array([values.randrange(10**12) * 2 for _ in range(600)], pa.int64())})
        write(tmp_path / f"{number}.orc", rows, stripe=200, stride=50)
    return sorted(map(str, tmp_path.glob("*.orc")))


def kept(plan: bp.ScanPlan) -> set[tuple[str, int | None]]:
    return {(group.path, group.index) for group in plan.row_groups if group.kept}


def test_subsets_and_supersets_read_only_what_is_new(files: list[str], tmp_path: Path) -> None:
    everything = bp.plan(files, WHERE)
    assert everything.requests > FILES * 2
    for some in (files[: FILES // 2], files[1:], files[::-1]):
        plan = bp.plan(some, WHERE)
        assert plan.requests == 0
        assert kept(plan) == {each for each in kept(everything) if each[0] in some}
    write(tmp_path / "new.orc", pa.table({"a": pa.array([500000000001] * 600, pa.int64())}), stripe=200, stride=50)
    plan = bp.plan([*files, str(tmp_path / "new.orc")], WHERE)
    assert 0 < plan.requests <= 2 * STRIPES + 2
    assert kept(plan) == kept(everything) | {(str(tmp_path / "new.orc"), stripe) for stripe in range(STRIPES)}


def test_a_replaced_file_is_read_anew(files: list[str]) -> None:
    before = bp.plan(files, WHERE)
    write(Path(files[3]), pa.table({"a": pa.array([500000000001] * 600, pa.int64())}), stripe=200, stride=50)
    after = bp.plan(files, WHERE)
    changed = {(files[3], stripe) for stripe in range(STRIPES)}
    assert kept(after) == {each for each in kept(before) if each[0] != files[3]} | changed


def test_skipped_files_do_not_empty_the_cache(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.orc").write_bytes(b"ORC" + b"x" * 500)
    first = bp.plan(tmp_path, WHERE, skip_corrupt=True)
    second = bp.plan(tmp_path, WHERE, skip_corrupt=True)
    assert (first.requests > 0, second.requests) == (True, 0)
    assert kept(first) == kept(second)
    with pytest.raises(bp.FormatError, match=r"bad\.orc"):
        bp.plan(tmp_path, WHERE)


def test_large_tables_are_evicted(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    small = StripeCache(max_bytes=1)
    monkeypatch.setattr("bloomparquet.planning.orc.cache.process_cache", small)
    assert bp.plan(files, WHERE).requests > 0
    assert bp.plan(files, WHERE).requests == 0
    some = kept(bp.plan(files[:1], WHERE))
    assert len(small._tables) == 1
    assert some == {each for each in kept(bp.plan(files, WHERE)) if each[0] == files[0]}


@pytest.mark.parametrize("skip_corrupt", [False, True])
def test_files_of_two_formats_are_an_error_even_if_cached(files: list[str], tmp_path: Path, skip_corrupt: bool) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "z.parquet")
    for _ in range(2):
        for some in (tmp_path, [str(tmp_path / "z.parquet"), *files]):
            with pytest.raises(bp.PlanError, match="expected files of one format"):
                bp.plan(some, WHERE, skip_corrupt=skip_corrupt)
        bp.plan(files, WHERE)
    declared = replace(Dataset.open(tmp_path), format=FileFormat.ORC)
    if skip_corrupt:
        assert kept(bp.plan(declared, WHERE, skip_corrupt=True)) == kept(bp.plan(files, WHERE))
    else:
        with pytest.raises(bp.FormatError, match=r"z\.parquet: not an ORC file"):
            bp.plan(declared, WHERE)


def test_keys_without_plaintext_files_refuse_cached_files(files: list[str]) -> None:
    keys = bp.Keys(footer=bytes(16), allow_plaintext_files=False)
    for _ in range(2):
        with pytest.raises(bp.EncryptionError, match=r"0\.orc: the file is not encrypted, but the keys have"):
            bp.plan(files, WHERE, keys=keys)
        bp.plan(files, WHERE)
