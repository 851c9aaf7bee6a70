"""`advise`: its estimates compared with plans, its report and commands, and its reads."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.cli.advice import advice_report
from bloomparquet.parquet.bloom_filter.sizes import smallest_num_bytes
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.parquet.open import open_row_groups
from bloomparquet.storage.files import ReadCount
from bloomparquet.writing.advice import advise as advice
from bloomparquet.writing.advice.advise import advise, right_sizes
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.advice import by_column, only, printed
from tests.support.core import graft_filters, set_filter_location, watch_reads
from tests.support.files import write

FILES, GROUPS, ROWS = 6, 4, 2_000
I64 = 6


def events(i: int) -> pa.Table:
    """One file of a table that has every kind of column that gets different advice."""
    n, rng = GROUPS * ROWS, np.random.default_rng(i)
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + (i * n + np.arange(n)) * 1000, pa.timestamp("us", "UTC")),
            "user_id": rng.integers(0, 20_000, n),
            "session": [f"{value:016x}" for value in rng.integers(0, 2**60, n)],
            "country": rng.choice(["DE", "FR", "US", "CN"], n),
            "shop": np.repeat(rng.integers(0, 100_000, n // 100), 100),
            "active": rng.random(n) < 0.5,
            "price": pa.array(rng.integers(1, 10**7, n)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(14, 2)),
            "weight": rng.normal(size=n),
            "address": pa.array([{"zip": int(value)} for value in rng.integers(0, 10**9, n)]),
            "tags": pa.array([[1, 2]] * n),
            "a.b": rng.integers(0, 10**12, n),
            "sparse": pa.array(rng.integers(0, 10**9, n), mask=rng.random(n) < 0.9),
            "nothing": pa.nulls(n, pa.string()),
        }
    )


def write_events(folder: Path, bloom: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    for i in range(FILES):
        write(folder / f"{i}.parquet", events(i), bloom or {}, rows_per_group=ROWS)
    return str(folder)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_events(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def advised(table: str) -> dict[str, dict[str, Any]]:
    return by_column(advise(table))


def test_every_leaf_column_has_a_row_in_schema_order(table: str, advised: dict[str, Any]) -> None:
    assert list(advised) == [
        "ts", "user_id", "session", "country", "shop", "active", "price", "weight", "address.zip",
        "tags.list.element", "a.b", "sparse", "nothing",
    ]  # fmt: skip
    for row in advised.values():
        assert row["row_groups"] == FILES * GROUPS
        assert row["filters"] == row["filter_bytes_now"] == 0
        assert row["reason"]
    assert advised["session"]["values"] == FILES * GROUPS * ROWS
    nulls = sum(events(i)["sparse"].null_count for i in range(FILES))
    assert advised["sparse"]["values"] == FILES * GROUPS * ROWS - nulls
    assert advised["price"]["type"] == "FIXED_LEN_BYTE_ARRAY (DECIMAL)"


def test_each_kind_of_column_gets_its_advice(advised: dict[str, dict[str, Any]]) -> None:
    assert {name for name, row in advised.items() if row["advice"] == "add"} == {
        "user_id", "session", "shop", "price", "address.zip", "a.b", "sparse",
    }  # fmt: skip
    assert {row["advice"] for row in advised.values()} == {"add", "maybe", "none"}
    assert {advised[name]["advice"] for name in ("weight", "tags.list.element")} == {"maybe"}
    assert "min/max" in advised["ts"]["reason"]
    assert "distinct values" in advised["country"]["reason"]
    assert "two values" in advised["active"]["reason"]
    assert "fractions" in advised["weight"]["reason"]
    assert "list" in advised["tags.list.element"]["reason"]
    assert advised["nothing"]["reason"] == "every value is null"


def measured_shares(path: str, column: str, values: list[Any]) -> tuple[float, float]:
    """The shares of row groups that statistics and filters skip, for lookups of all `values`."""
    plans = [bp.plan(path, bp.Eq(tuple(column.split(".")) if column != "a.b" else column, value)) for value in values]
    total = sum(plan.total for plan in plans)
    shares = [sum(plan.skipped[reason] for plan in plans) / total for reason in ("statistics", "bloom")]
    return shares[0], shares[1]


LOOKUPS = ["user_id", "session", "country", "shop", "price", "address.zip", "a.b", "sparse", "weight"]


def test_estimated_shares_equal_those_of_plans(table: str, advised: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Lookups of stored values, in the same files with the recommended filters."""
    ndv = {name: max(1, round(row["ndv_per_row_group"])) for name, row in advised.items() if name in LOOKUPS}
    filtered = write_events(tmp_path / "filtered", {name: {"ndv": ndv[name], "fpp": 0.01} for name in LOOKUPS})
    whole = pa.concat_tables([events(i) for i in range(FILES)])
    positions = np.random.default_rng(0).integers(0, len(whole), 60)
    for name in LOOKUPS:
        column = pc.struct_field(whole["address"], "zip") if name == "address.zip" else whole[name]
        values = column.take(positions).drop_null().to_pylist()
        by_statistics, by_filters = measured_shares(filtered, name, values)
        assert advised[name]["min_max_skip"] == pytest.approx(by_statistics, abs=0.06), name
        assert advised[name]["skip_rate"] == pytest.approx(by_filters, abs=0.06), name
        if advised[name]["advice"] == "add":
            assert by_filters > 0.6, name


@pytest.mark.parametrize("fpp", [0.3, 0.01, 0.00005])
def test_right_sizes_agree_with_smallest_num_bytes(fpp: float) -> None:
    ndv = np.unique(np.geomspace(1, 3e7, 300).astype(np.int64))
    sizes = right_sizes(ndv.astype(np.float64), fpp) - 20
    expected = np.array([smallest_num_bytes(int(n), fpp) for n in ndv])
    near_a_step = expected != [smallest_num_bytes(int(n * 1.001) + 1, fpp) for n in ndv]
    assert (sizes[~near_a_step] == expected[~near_a_step]).all()
    assert set((sizes / expected).tolist()) <= {1.0, 2.0}
    assert near_a_step.mean() < 0.2


def test_existing_filters_are_read_instead_of_data(
    advised: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name, row in advised.items() if row["advice"] == "add" or name in ("country", "weight", "ts")]
    path = write_events(tmp_path, {name: {"ndv": ROWS, "fpp": 0.01} for name in names})
    reads = watch_reads(monkeypatch)
    again, filter_bytes = by_column(advise(path)), 0
    for file in Path(path).iterdir():
        metadata = pq.read_metadata(file)
        chunks = [metadata.row_group(i).column(j) for i in range(GROUPS) for j in range(metadata.num_columns)]
        for chunk in chunks:
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            middle = start + chunk.total_compressed_size // 2
            assert not reads.touching(str(file), middle, middle + 1), chunk.path_in_schema
            filter_bytes += chunk.bloom_filter_length or 0
    assert sum(row["filter_bytes_now"] for row in again.values()) == filter_bytes
    for name in names:
        assert again[name]["filters"] == FILES * GROUPS
        ndv = advised[name]["ndv_per_row_group"] or ROWS
        assert again[name]["ndv_per_row_group"] == pytest.approx(ndv, rel=0.05, abs=1)
        assert again[name]["advice"] in ("keep", "shrink"), name  # some versions of pyarrow fold what they write
        if advised[name]["skip_rate"] is not None:
            assert again[name]["skip_rate"] == pytest.approx(advised[name]["skip_rate"], abs=0.06), name
    assert again["session"]["advice"] == again["ts"]["advice"] == "keep"


SHAPES = {
    "sorted in each file": lambda i, rng: np.sort(rng.integers(0, 10**6, 4000)),
    "sorted in each file, and often the same": lambda i, rng: np.sort(rng.integers(0, 3000, 4000)),
    "nearly in order": lambda i, rng: i * 4000 + np.arange(4000) + rng.normal(0, 8000, 4000).astype(np.int64),
    "windows that move on": lambda i, rng: i * 300 + rng.integers(0, 1500, 4000),
    "few customers in each file": lambda i, rng: rng.integers(0, 10**6, 40)[rng.integers(0, 40, 4000)],
    "frequent and rare": lambda i, rng: rng.zipf(1.3, 4000) % 10**6,
    "one in each row group": lambda i, rng: np.repeat(rng.permutation(10**6)[:4], 1000),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_skewed_distributions_are_estimated(shape: str, tmp_path: Path) -> None:
    """Lookups are drawn from the distinct values of a row group: a frequent value counts as much as a rare one."""
    drawn = [SHAPES[shape](i, np.random.default_rng(i)) for i in range(10)]
    rng, values = np.random.default_rng(7), []
    for i, column in enumerate(drawn):
        write(tmp_path / f"{i}.parquet", {"x": column}, ["x"], rows_per_group=1000)
        groups = [np.unique(column[at : at + 1000]) for at in range(0, 4000, 1000)]
        values += [int(value) for group in groups for value in rng.choice(group, 3)]
    by_statistics, by_filters = measured_shares(str(tmp_path), "x", values)
    row = only(tmp_path)
    assert row["min_max_skip"] == pytest.approx(by_statistics, abs=0.1)
    assert row["skip_rate"] == pytest.approx(by_filters, abs=0.1)


@pytest.mark.parametrize("sample", [0, 5_000, 50_000, 300_000])
def test_reads_stay_within_the_sample(
    sample: int, table: str, advised: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = bp.Dataset.open(table)
    groups = open_row_groups(dataset.storage, dataset.files, ReadCount(), cache=process_cache, keys=dataset.keys)
    assert len(groups.footers) == FILES  # reads the footers, if they were not read
    reads, count = watch_reads(monkeypatch), ReadCount()
    answer = by_column(advice.advise_on(dataset, groups, 0.01, sample, count))
    assert sum(size for _, _, size in reads.calls) == count.bytes <= sample
    assert count.bytes >= 0.5 * min(sample, 100_000)
    known = [name for name, row in answer.items() if row["ndv"] is not None]
    assert {name for name, row in answer.items() if row["advice"] == "add"} <= set(known)
    if sample == 0:
        assert not known
        assert "larger than the sample" in answer["session"]["reason"]
    for name in known:
        assert answer[name]["advice"] == advised[name]["advice"], name


@pytest.mark.parametrize("sample", [0, 30_000, 200_000])
def test_filters_are_part_of_the_sample(sample: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(4):
        values = np.random.default_rng(i).integers(0, 10**9, 1000)
        path = graft_filters(write(tmp_path / f"{i}.parquet", {"x": values}), 128 * 1024)
        set_filter_location(path, length=-1)  # older writers do not store the length
    dataset = bp.Dataset.open(tmp_path)
    groups = open_row_groups(dataset.storage, dataset.files, ReadCount(), cache=process_cache, keys=dataset.keys)
    reads, count = watch_reads(monkeypatch), ReadCount()
    (row,) = advice.advise_on(dataset, groups, 0.01, sample, count).to_pylist()
    headers = 4 * (4096 + 64)
    assert sum(size for _, _, size in reads.calls) == count.bytes <= sample + headers
    assert row["filter_bytes_now"] == pytest.approx(4 * 128 * 1024, rel=0.01)
    assert row["advice"] == {0: "keep", 30_000: "shrink", 200_000: "shrink"}[sample]


def test_followed_advice_becomes_keep(table: str, advised: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    path = str(shutil.copytree(table, tmp_path / "t"))
    names = [name for name, row in advised.items() if row["advice"] == "add"]
    add_filters(path, bloom=names)
    again = by_column(advise(path))
    for name in names:
        assert (again[name]["advice"], again[name]["filters"]) == ("keep", FILES * GROUPS), name
        assert again[name]["filter_bytes_now"] == pytest.approx(advised[name]["filter_bytes"], rel=0.3), name
    assert {row["advice"] for row in again.values()} == {"keep", "maybe", "none"}
    values = pa.concat_tables([events(i) for i in range(FILES)])["session"].to_pylist()[:: FILES * GROUPS * ROWS // 40]
    _, by_filters = measured_shares(path, "session", values)
    assert by_filters == pytest.approx(advised["session"]["skip_rate"], abs=0.02)
    graft = {"x": np.concatenate([np.random.default_rng(i).integers(0, 10**9, 1000) for i in range(4)])}
    oversized = graft_filters(write(tmp_path / "x.parquet", graft, rows_per_group=1000), 1 << 20)
    needed = only(oversized)["filter_bytes"]
    shrink_filters(oversized)
    assert only(oversized)["advice"] == "keep"
    assert only(oversized)["filter_bytes_now"] == pytest.approx(needed, rel=0.3)


@pytest.mark.parametrize("width", [80, 120, 400])
def test_the_report_fits_the_terminal_and_has_reasons(width: int, table: str) -> None:
    answer = advise(table)
    lines = printed(advice_report(answer), width).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for row in answer.to_pylist():
        assert row["column"][:12] in text
        if width == 400:
            assert row["reason"] in text
    assert "min/max alone skips" in text
    assert lines[-1].startswith("Size of the filters that change: 0 B now, ")
