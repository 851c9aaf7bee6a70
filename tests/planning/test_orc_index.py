"""Plans over ORC files with an index are those without it, whatever happened to the files and to the index."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.indexing.orc import _folded
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import OrcBloomFilter, bit_positions, hash_longs
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.evidence.section_file import SectionFile
from bloomparquet.planning.evidence.section_source import OpenSource
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import WRITER
from tests.planning.test_orc import EVERY, LEAVES, ROWS, STRIDE, STRIPE, true_for, values_of
from tests.planning.test_orc_cases import JAVA
from tests.support.core import watch_reads
from tests.support.orc import forge
from tests.support.orc_forged import bounds, longs, with_filters, with_old_stream, with_statistics
from tests.support.orc_rewriting import drop_statistics, rewrite, write


def compare(path: Any, where: Any, *, indexed: int | None = None, **options: Any) -> bp.ScanPlan:
    """The plan with the index; it must be the plan without one."""
    plan, plain = bp.plan(path, where, **options), bp.plan(path, where, index="off", **options)
    assert plan == plain, (where, plan, plain)
    assert plan.row_group_counts == plain.row_group_counts
    assert sorted(map(str, plan.errors)) == sorted(map(str, plain.errors))
    assert plain.indexed == 0
    assert indexed is None or plan.indexed == indexed
    return plan


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> None:
    process_cache.clear()
    forget_indexes()


def folder(root: Path, name: str) -> Path:
    (root / name).mkdir()
    return root / name


@pytest.mark.parametrize("evidence", ["statistics", "filters only"])
def test_every_type_is_planned_alike_without_reading_files(
    tmp_path: Path, evidence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        path = write(tmp_path / f"{i}.orc", EVERY.slice(i * ROWS, ROWS), stripe=STRIPE, stride=STRIDE)
        if evidence != "statistics":
            drop_statistics(path, row_groups=evidence == "filters only")
    info = bp.build_index(tmp_path)
    assert (info.files, info.row_groups, info.segments, info.left_out) == (3, 15, 1, {})
    predicates = []
    for leaf in LEAVES:
        column, values = tuple(leaf.split(".")) if leaf == "inner.x" else (leaf,), values_of(leaf)
        present = [value for value in values if value is not None]
        predicates += [bp.IsNull(column), bp.IsNotNull(column), bp.EqNullSafe(column, None)]
        for i, value in enumerate(present[:: len(present) // 2]):
            predicates += [true_for(column, value, present[0], i % 6), bp.Lt(column, value), bp.NotEq(column, value)]
        predicates.append(bp.In(column, tuple(present[7::211])))
    reads = watch_reads(monkeypatch)
    plans = [bp.plan(tmp_path, predicate) for predicate in predicates]
    assert {plan.indexed for plan in plans} == {3}
    assert not [call for call in reads.calls if call[0].endswith(".orc")]
    assert sum(plan.requests for plan in plans) == 1  # the manifest
    skipped = sum((compare(tmp_path, predicate, indexed=3).skipped for predicate in predicates), plans[0].skipped)
    assert skipped["bloom" if evidence == "filters only" else "statistics"] > 50


def test_filters_of_every_writer_prove_the_same_in_an_index(tmp_path: Path) -> None:
    cases: list[tuple[Path, list[Any]]] = []
    for name, (kind, attributes, values, hashes, absent) in JAVA.items():
        path = with_filters(folder(tmp_path, name) / "x.orc", kind, *hashes, **attributes)
        cases.append((path, [*values, absent]))
    for kind in (Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.DECIMAL, Kind.TIMESTAMP, Kind.LONG):
        value: Any = {Kind.DECIMAL: Decimal(1), Kind.LONG: 7, Kind.TIMESTAMP: np.datetime64(7, "s")}.get(kind, "a")
        cases.append((with_old_stream(folder(tmp_path, f"old {kind.name}") / "x.orc", kind, longs(1)), [value]))
    for zone in ("UTC", "Europe/Berlin", "No/Where"):
        path = with_filters(
            folder(tmp_path, zone.replace("/", " ")) / "x.orc", Kind.TIMESTAMP, longs(10**12), zone=zone
        )
        cases.append((path, [np.datetime64(10**12, "ms"), np.datetime64(10**12 + 3_600_000, "ms")]))
    wide = with_statistics(folder(tmp_path, "wide") / "x.orc", Kind.SHORT, bounds(1, 70_000), bounds(3, 4))
    cases.append((wide, [2, 4, 70_000, 99_999]))
    skipped = 0
    for path, values in cases:
        assert bp.build_index(path).files == 1
        for value in values:
            for predicate in (bp.Eq("c0", value), bp.NotEq("c0", value), bp.LtEq("c0", value)):
                skipped += compare(path, predicate, indexed=1, timezone="Europe/Berlin").kept == 0
    assert skipped > len(JAVA)


def test_filters_that_cannot_be_used_leave_their_file_out(tmp_path: Path) -> None:
    good = with_filters(folder(tmp_path, "good") / "x.orc", Kind.LONG, longs(1), longs(2))
    empty = messages.BloomFilterIndex(bloom_filter=[messages.BloomFilter(num_hash_functions=4, utf8bitset=bytes(64))])
    write(good.parent / "never filled.orc", pa.table({"c0": [5] * 100}), bloom_filter_fpp=1e-6)
    rewrite(
        good.parent / "never filled.orc",
        stream=lambda kind, column, data: (
            empty.SerializeToString() if kind in (BLOOM_FILTER, BLOOM_FILTER_UTF8) and column == 1 else data
        ),
        statistics=lambda data: b"",
    )
    forge(good.parent / "damaged.orc", {(BLOOM_FILTER_UTF8, 1): b"\xff" * 40}, kinds=[Kind.LONG])
    info = bp.build_index(good.parent)
    assert info.files == 1
    assert "it was never filled" in info.left_out[str(good.parent / "never filled.orc")]
    assert "is no Elements message" in info.left_out[str(good.parent / "damaged.orc")]
    for value, expected in ((1, 2), (5, 2), (6, 1)):  # the damaged file is always kept
        assert compare(good.parent, bp.Eq("c0", value), indexed=1).kept == expected


def data_set(root: Path, files: int = 4) -> Path:
    """Files of even numbers that hold 31 once, and no bounds."""
    root.mkdir(exist_ok=True)
    for i in range(files):
        values = [j * 2 for j in range(600)]
        if i == 2:
            values[-1] = 31
        text = [f"t{j % 7}" for j in range(600)]
        drop_statistics(write(root / f"{i}.orc", pa.table({"x": values, "s": text}), bloom_filter_fpp=1e-6))
    return root


def test_files_that_changed_are_planned_without_the_index(tmp_path: Path) -> None:
    data_set(tmp_path)
    bp.build_index(tmp_path)
    assert compare(tmp_path, "x = 31", indexed=4).kept == 1
    old = os.stat(tmp_path / "1.orc")
    changed = pa.table({"x": [j * 2 + 1 for j in range(600)], "s": [f"t{j % 7}" for j in range(600)]})
    drop_statistics(write(tmp_path / "1.orc", changed, bloom_filter_fpp=1e-6))
    os.utime(tmp_path / "1.orc", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert os.stat(tmp_path / "1.orc").st_size == old.st_size
    assert compare(tmp_path, "x = 31", indexed=3).kept == 2
    (tmp_path / "2.orc").unlink()
    write(tmp_path / "5.orc", pa.table({"s": ["a"] * 300, "x": pa.array([31] * 300, pa.int32())}))
    plan = compare(tmp_path, "x = 31", indexed=2)
    assert (plan.kept, plan.total) == (2, 7)
    assert bp.read_table(tmp_path, "x = 31 AND s = 'a'").num_rows == 300
    bp.refresh_index(tmp_path)
    assert compare(tmp_path, "x = 31", indexed=4).kept == 2
    compare([str(tmp_path / "5.orc"), str(tmp_path / "0.orc")], "x = 31", indexed=2)


def test_only_named_columns_are_indexed(tmp_path: Path) -> None:
    data_set(tmp_path)
    bp.build_index(tmp_path, ["x"])
    for where in ("x = 31", "s = 'x'", "s = 't1' AND x = 31", "s IS NULL OR x = 31"):
        compare(tmp_path, where, indexed=4)
    with pytest.raises(bp.PlanError, match=r"no file below .* has the columns y"):
        bp.build_index(tmp_path, ["y"])
    for columns in ({"x": bp.Bloom()}, ["lower(s)"]):
        with pytest.raises(bp.UnsupportedError, match="filters cannot be made of ORC files"):
            bp.build_index(tmp_path, columns)
    assert bp.plan(tmp_path, "x = 31").indexed == 4


@pytest.mark.parametrize("part", ["table", "tails", "0/0", "0/1", "tile"])
def test_damage_to_a_segment_changes_no_answer(
    tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = data_set(tmp_path / "data")
    bp.build_index(root)
    (segment,) = (root / "_bloomparquet_index").glob("*.segment")
    raw = bytearray(segment.read_bytes())
    opened = SectionFile(OpenSource(str(segment)), WRITER)
    tile = next(name for name in opened.tiles if name.startswith("0/0/"))
    first = opened._tiles[tile][0] if part == "tile" else opened._sections[part][0]
    for at in range(first, first + (opened.tiles[tile].num_bytes if part == "tile" else 2)):
        raw[at] ^= 16
    segment.write_bytes(raw)
    forget_indexes()
    process_cache.clear()
    reads = watch_reads(monkeypatch)
    plan = bp.plan(root, "x IN (31, 33)")
    data_reads = [call for call in reads.calls if call[0].endswith(".orc")]
    assert (plan.kept, plan.indexed) == (1, 0 if part == "table" else 4)
    assert bool(data_reads) == (part not in ("tails", "0/1"))
    for where in ("x IN (31, 33)", "x = 35", "s = 't1'", "s = 'x'", "s IS NULL"):
        compare(root, where)
    assert bp.read_table(root, "x = 31")["x"].to_pylist() == [31]
    assert len([each for each in caplog.records if "_bloomparquet_index" in each.getMessage()]) == 1


@pytest.mark.parametrize("words", [1, 2, 30, 64, 975, 1001, 1498])
def test_a_folded_filter_holds_every_value(words: int) -> None:
    for count in (1, 3, 40):
        hashes = hash_longs(np.random.default_rng(words + count).integers(-(2**62), 2**62, count))
        bits = np.zeros(words * 64, np.bool_)
        bits[bit_positions(hashes, 5, len(bits))] = True
        bloom = OrcBloomFilter(5, np.packbits(bits, bitorder="little").view("<u8"))
        before, folded = bloom.check(hash_longs(np.arange(10_000))).sum(), _folded(bloom)
        assert words % len(folded) == 0
        assert OrcBloomFilter(5, folded).check(hashes).all()
        assert OrcBloomFilter(5, folded).check(hash_longs(np.arange(10_000))).sum() <= before + 2
        assert len(folded) < words or words < 100 or words == 1001
