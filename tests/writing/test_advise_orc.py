"""Advice on ORC files: its figures against what plans then do, what is said of filters that are there, and the ways to
write others; and what is told to those who want filters added to files that are there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import OrcBloomFilter, hash_longs, optimal_size
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER_UTF8
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.storage.files import ReadCount
from bloomparquet.writing.advice import advise as advice
from bloomparquet.writing.advice.advise import advise
from bloomparquet.writing.advice.sampling import columns_of, source_of
from bloomparquet.writing.advice.sampling_orc import filter_ndvs
from tests.support.advice import by_column, only
from tests.support.commands import Run
from tests.support.orc import OrcFile, bloom_message, forge

FILES, GROUPS, ROWS = 4, 6, 1_000


def write(path: Path, table: pa.Table | dict[str, Any], filters: list[int] | None = None, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    given = {"row_index_stride": ROWS, "bloom_filter_columns": filters or [], "bloom_filter_fpp": 0.01, **options}
    orc.write_table(table if isinstance(table, pa.Table) else pa.table(table), str(path), **given)
    return str(path)


def events(i: int) -> pa.Table:
    """A file of a table in which every kind of column is that advice tells apart; its columns are numbered from 1."""
    n, rng = GROUPS * ROWS, np.random.default_rng(i)
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + (i * n + np.arange(n)) * 1000, pa.timestamp("us", "UTC")),
            "user_id": pa.array(rng.integers(0, 20_000, n)),
            "session": [f"{value:016x}" for value in rng.integers(0, 2**60, n)],
            "country": rng.choice(["DE", "FR", "US", "CN"], n),
            "active": rng.random(n) < 0.5,
            "price": pa.array(rng.integers(1, 10**7, n)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(14, 2)),
            "weight": rng.normal(size=n),
            "address": pa.array([{"zip": int(value)} for value in rng.integers(0, 10**9, n)]),
            "tags": pa.array([[1, 2]] * n),
            "sparse": pa.array(rng.integers(0, 10**9, n), mask=rng.random(n) < 0.9),
            "nothing": pa.nulls(n, pa.string()),
        }
    )


NUMBERS = {"ts": 1, "user_id": 2, "session": 3, "country": 4, "active": 5, "price": 6, "weight": 7, "address.zip": 9,
           "tags": 10, "sparse": 12, "nothing": 13}  # fmt: skip
ADDED = ["user_id", "session", "price", "address.zip", "sparse"]


def write_events(folder: Path, filters: list[str] | None = None, **options: Any) -> str:
    for i in range(FILES):
        write(folder / f"{i}.orc", events(i), [NUMBERS[name] for name in filters or ()], **options)
    return str(folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_events(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_events(tmp_path_factory.mktemp("filtered"), [*ADDED, "country", "weight", "ts"])


@pytest.fixture(scope="module")
def found(plain: str) -> dict[str, dict[str, Any]]:
    return by_column(advise(plain))


def test_columns_are_told_apart_as_those_of_parquet_are(found: dict[str, dict[str, Any]]) -> None:
    assert list(found) == ["ts", "user_id", "session", "country", "active", "price", "weight", "address.zip",
                           "tags._elem", "sparse", "nothing"]  # fmt: skip
    assert [name for name, row in found.items() if row["advice"] == "add"] == ADDED
    assert {row["advice"] for row in found.values()} == {"add", "none"}
    for row in found.values():
        assert row["row_groups"] == FILES * GROUPS
        assert row["filters"] == row["filter_bytes_now"] == 0
    assert found["session"]["type"] == "STRING"
    assert found["price"]["type"] == "DECIMAL"
    assert found["session"]["values"] == FILES * GROUPS * ROWS
    nulls = sum(events(i)["sparse"].null_count for i in range(FILES))
    assert found["sparse"]["values"] == FILES * GROUPS * ROWS - nulls
    assert "min/max" in found["ts"]["reason"]
    assert "different ones in each" in found["country"]["reason"]
    assert "two values" in found["active"]["reason"]
    assert "fractions" in found["weight"]["reason"]
    assert "list" in found["tags._elem"]["reason"]
    assert found["nothing"]["reason"] == "every value is null"


def test_distinct_values_are_counted_of_data_and_of_filters(
    found: dict[str, dict[str, Any]], filtered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_stripe(*_: Any, **__: Any) -> None:
        raise AssertionError("no data need be read")

    whole = pa.concat_tables([events(i) for i in range(FILES)])
    names = ["user_id", "session", "country", "price", "weight", "sparse"]
    monkeypatch.setattr(orc.ORCFile, "read_stripe", read_stripe)
    again = by_column(advise(filtered))
    for name in names:
        column = whole[name].combine_chunks()
        groups = [column.slice(at, ROWS).drop_null() for at in range(0, len(column), ROWS)]
        each = np.mean([len(group.unique()) for group in groups])
        for told in (found, again):
            assert told[name]["ndv_per_row_group"] == pytest.approx(each, rel=0.06, abs=1), name
            assert told[name]["ndv"] == pytest.approx(len(column.drop_null().unique()), rel=0.3), name
        assert again[name]["skip_rate"] == pytest.approx(found[name]["skip_rate"], abs=0.06), name


def test_what_is_advised_brings_what_was_said(found: dict[str, dict[str, Any]], filtered: str) -> None:
    whole = pa.concat_tables([events(i) for i in range(FILES)])
    places = np.random.default_rng(0).integers(0, len(whole), 40)
    for name in (*ADDED, "country", "weight"):
        column = whole[name.partition(".")[0]]
        values = [column[int(i)].as_py() for i in places]
        values = [value["zip"] if isinstance(value, dict) else value for value in values if value is not None]
        plans = [bp.plan(filtered, bp.Eq(tuple(name.split(".")), value)).inside for value in values]
        total = sum(inside.total for inside in plans if inside is not None)
        by_statistics = sum(inside.by_statistics for inside in plans if inside is not None) / total
        by_filters = sum(inside.by_bloom for inside in plans if inside is not None) / total
        assert found[name]["min_max_skip"] == pytest.approx(by_statistics, abs=0.06), name
        assert found[name]["skip_rate"] == pytest.approx(by_filters, abs=0.06), name
        if found[name]["advice"] == "add":
            assert by_filters > 0.6, name


def test_sizes_are_those_of_writers_whatever_the_values_are(found: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    bits, _ = optimal_size(ROWS, 0.01)
    for row in found.values():
        assert row["filter_bytes"] == pytest.approx(FILES * GROUPS * bits / 8, rel=0.02)
    stored = by_column(advise(write_events(tmp_path, ADDED, compression="uncompressed")))
    for name in ADDED:
        assert stored[name]["filter_bytes_now"] == pytest.approx(found[name]["filter_bytes"], rel=0.02)
        assert stored[name]["filters"] == FILES * GROUPS


def test_advice_that_was_followed_is_followed(filtered: str) -> None:
    again = by_column(advise(filtered))
    assert {name for name, row in again.items() if row["advice"] == "keep"} == {*ADDED, "country", "weight", "ts"}
    assert {row["advice"] for row in again.values()} == {"keep", "none"}
    assert advice.commands(advise(filtered), filtered) == []


def test_commands_write_what_was_advised_and_keep_what_is_there(plain: str, tmp_path: Path) -> None:
    spark, pyarrow = advice.commands(advise(plain), "s3://bucket/events", fpp=0.05)
    names = ",".join(ADDED)
    assert spark == (
        'spark.read.format("bloomorc").load("s3://bucket/events").write.format("bloomorc")'
        f'.option("bloomColumns", "{names}").option("bloomFpp", "0.05").save("…")'
    )
    numbers = [NUMBERS[name] for name in ADDED]
    assert pyarrow == (
        f'pyarrow.orc.write_table(table, "….orc", bloom_filter_columns={numbers}, bloom_filter_fpp=0.05)'
    )
    some = advise(write_events(tmp_path, ["session", "weight"]))
    assert [row["advice"] for row in some.to_pylist() if row["column"] in ("session", "weight")] == ["keep"] * 2
    spark, _ = advice.commands(some, [tmp_path, "b"])
    assert f'.load(["{tmp_path}", "b"])' in spark
    assert '"user_id,session,price,weight,address.zip,sparse"' in spark


def test_filters_that_say_maybe_too_often_are_replaced(tmp_path: Path) -> None:
    for i in range(4):
        values = np.random.default_rng(i).integers(0, 10**9, 4 * ROWS)
        write(tmp_path / f"{i}.orc", {"x": values}, [1], bloom_filter_fpp=0.5)
    row = only(tmp_path)
    assert row["advice"] == "replace"
    assert re.search(r"say maybe to (4|5)\d % of absent values", row["reason"])
    assert only(tmp_path, fpp=0.3)["advice"] == "keep"


def test_files_without_filters_among_others_are_told(tmp_path: Path) -> None:
    for i in range(4):
        values = np.random.default_rng(i).integers(0, 10**9, 4 * ROWS)
        write(tmp_path / f"{i}.orc", {"x": values}, [1] if i else [])
    row = only(tmp_path)
    assert (row["advice"], row["filters"]) == ("add", 12)
    assert row["reason"].endswith("4 of 16 have no filter")


def test_filters_that_prove_nothing_are_told(tmp_path: Path, orc_examples_dir: Path) -> None:
    for i in range(8):
        rng = np.random.default_rng(i)
        columns = {
            "tiny": pa.array(rng.choice(rng.permutation(np.arange(-128, 127, dtype=np.int8))[:8], 2 * ROWS)),
            "real": pa.array(rng.normal(size=2 * ROWS), pa.float32()),
        }
        write(tmp_path / f"{i}.orc", columns, [1, 2])
    told = by_column(advise(tmp_path))
    assert told["tiny"]["advice"] == "replace"
    assert told["tiny"]["reason"].endswith(
        "prove nothing: ORC C++ hashes BYTE columns, but not the values that it stores"
    )
    assert told["real"]["advice"] == "none"
    assert "prove nothing" in told["real"]["reason"]
    bad = by_column(advise(orc_examples_dir / "bad_bloom_filter_1.6.0.orc"))
    assert all("ORC-1024" in row["reason"] and row["filters"] for row in bad.values())
    of_hive = by_column(advise(orc_examples_dir / "over1k_bloom.orc"))
    assert sum(row["filters"] for row in of_hive.values()) > 0


@pytest.mark.parametrize("sample", [0, 20_000, 200_000])
def test_no_more_is_read_than_the_sample_may_have(
    sample: int, plain: str, found: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_stripe, stripes = orc.ORCFile.read_stripe, []

    def counted(file: orc.ORCFile, number: int, columns: Any = None) -> pa.RecordBatch:
        stripes.append(columns)
        return read_stripe(file, number, columns)

    monkeypatch.setattr(orc.ORCFile, "read_stripe", counted)
    dataset = bp.Dataset.open(plain)
    count = ReadCount()
    answer = by_column(advice.advise_on(dataset, bp.plan(plain).table, 0.01, sample, count))
    assert count.bytes <= sample
    assert bool(stripes) == bool(sample)
    assert all(columns is not None and len(columns) == 1 for columns in stripes)
    known = [name for name, row in answer.items() if row["ndv"] is not None]
    assert {name for name, row in answer.items() if row["advice"] == "add"} <= set(known)
    if not sample:
        assert "larger than all that the sample" in answer["session"]["reason"]
    for name in known:
        assert answer[name]["advice"] == found[name]["advice"], name


def test_files_of_different_types_and_columns_are_one_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    write(tmp_path / "1.orc", {"x": rng.integers(0, 10**9, 3000), "only": rng.integers(0, 10**9, 3000)})
    write(tmp_path / "2.orc", {"x": pa.array(rng.integers(0, 10**9, 5000), pa.int32())})
    write(tmp_path / "3.orc", {"x": [f"{value}" for value in rng.integers(0, 10**9, 3000)]})
    write(tmp_path / "4.orc", {"x": pa.array([], pa.int64())})
    told = by_column(advise(tmp_path))
    assert list(told) == ["x", "only"]
    assert told["x"]["type"] == "LONG, INT, STRING"
    assert (told["x"]["row_groups"], told["only"]["row_groups"]) == (11, 3)
    assert told["x"]["advice"] == "add"


def test_a_column_that_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    for i in range(4):
        moments = np.random.default_rng(i).integers(-(10**10), 10**11, 3 * ROWS)
        write(tmp_path / f"{i}.orc", {"t": pa.array(moments, pa.timestamp("s"))})
    row = only(tmp_path)
    assert row["advice"] == "none"
    assert "could not be read" in row["reason"]


def test_a_sample_of_a_row_group_is_of_its_rows_and_no_others(tmp_path: Path) -> None:
    """Row groups of several stripes and files, each with a number of different values of its own."""
    different = [1, 7, 40, 333, 90, 2, 500, 12, 1000, 3, 60, 21]
    rng = np.random.default_rng(8)
    columns = [np.concatenate([rng.integers(0, 10**9, n)[np.arange(ROWS) % n] for n in different]) for _ in range(2)]
    for i, column in enumerate(columns):
        write(
            tmp_path / f"{i}.orc", {"s": pa.array([{"x": int(x)} for x in column])}, stripe_size=9_000, batch_size=ROWS
        )
    table = bp.plan(tmp_path).table
    assert len(table) > 4
    source = source_of(table)
    (column,) = columns_of(table, source)
    found = [source.read(column, chunk, stored=False, count=ReadCount()) for chunk in range(2 * len(different))]
    assert [each.ndv for each in found if each is not None] == different * 2


def test_what_a_sample_of_data_costs_is_what_lies_in_the_stripe(filtered: str) -> None:
    table = bp.plan(filtered).table
    source = source_of(table)
    tops = {column.path[0]: column for column in columns_of(table, source)}
    costs = {name: source.cost(column, 0, None) for name, column in tops.items()}
    stripe = OrcFile.open(Path(filtered) / "0.orc").tail.stripes[0]
    assert sum(costs.values()) == stripe.data_length < 5 * stripe.index_length
    assert costs["session"] > 5 * costs["active"] > 0


@pytest.mark.parametrize(("blocks", "others"), [(4, 4), (4, 8), (30, 10), (3, 2), (7, 8)])
def test_filters_are_compared_where_one_folds_to_the_size_of_the_other(blocks: int, others: int) -> None:
    left, right = (OrcBloomFilter(4, np.zeros(size * 10, np.uint64)) for size in (blocks, others))
    left.insert(hash_longs(np.arange(200)))
    right.insert(hash_longs(np.arange(100, 250)))
    found, mirrored = filter_ndvs(left, right), filter_ndvs(right, left)
    if max(blocks, others) % min(blocks, others):
        assert found is mirrored is None
        return
    assert found is not None
    assert mirrored is not None
    assert found[2] == mirrored[2] == pytest.approx(250, rel=0.1)
    assert sorted(found[:2]) == pytest.approx([150, 200], rel=0.1)
    assert filter_ndvs(left, OrcBloomFilter(5, left.words)) is None
    assert filter_ndvs(left, SplitBlockBloomFilter.for_ndv(10)) is None


def test_filters_that_nobody_filled_are_told(tmp_path: Path) -> None:
    for i in range(4):
        empty = messages.BloomFilterIndex(bloom_filter=[bloom_message(OrcBloomFilter.for_ndv(10, 0.01))] * 3)
        forge(tmp_path / f"{i}.orc", {(BLOOM_FILTER_UTF8, 1): empty.SerializeToString()}, rows=30)
    row = only(tmp_path)
    assert row["filters"] == row["row_groups"] == 12
    assert row["advice"] == "none"
    assert "empty over values" in row["reason"]


def test_of_filters_that_are_damaged_the_data_tells(filtered: str, tmp_path: Path) -> None:
    target = tmp_path / "t"
    shutil.copytree(filtered, target)
    for path in target.iterdir():
        data = bytearray(path.read_bytes())
        stream = OrcFile.open(path).stripes[0].streams[BLOOM_FILTER_UTF8, NUMBERS["session"]]
        data[stream.offset : stream.offset + stream.length] = b"\xff" * stream.length
        path.write_bytes(data)
    told, before = by_column(advise(target)), by_column(advise(filtered))
    assert told["session"]["ndv_per_row_group"] == ROWS
    assert told["session"]["skip_rate"] == pytest.approx(before["session"]["skip_rate"], abs=0.06)
    assert {name: row for name, row in told.items() if name != "session"} == {
        name: row for name, row in before.items() if name != "session"
    }


def test_partition_columns_and_fields_with_dots_are_known_as_what_they_are(tmp_path: Path) -> None:
    for i in range(4):
        rng = np.random.default_rng(i)
        inner = pa.array([{"b": int(value)} for value in rng.integers(0, 10**9, 3 * ROWS)])
        columns = {"a.b": rng.integers(0, 4, 3 * ROWS), "a": inner, "p": rng.integers(0, 10**9, 3 * ROWS)}
        write(tmp_path / f"p={i}" / "x.orc", columns)
    rows = advise(tmp_path).to_pylist()
    assert [(row["column"], row["advice"]) for row in rows] == [("a.b", "none"), ("a.b", "add"), ("p", "none")]
    assert "partition" in rows[2]["reason"]


def test_the_command_line_prints_the_table_and_how_to_write(run: Run, plain: str) -> None:
    lines = run("advise", plain, "--json").lines()
    assert [row["column"] for row in lines if row["advice"] == "add"] == ADDED
    out = run("advise", plain).out.splitlines()
    assert out[-2].startswith('spark.read.format("bloomorc").load(')
    assert out[-1].startswith("pyarrow.orc.write_table(")
    assert json.dumps(plain) in out[-2]


# --- what cannot be done to files that are there


def test_filters_cannot_be_added_to_files_that_are_there(plain: str, run: Run, tmp_path: Path) -> None:
    for call in (bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.UnsupportedError, match=r"0\.orc is an ORC file.*bloomColumns"):
            call(plain)
    for command in ("add", "shrink"):
        result = run(command, plain)
        assert result.code == 1
        assert "bloomColumns" in result.err
    before = {path: path.read_bytes() for path in Path(plain).iterdir()}
    (outcome,) = bp.add_filters(Path(plain) / "0.orc", bloom="session", on_error="report")
    assert outcome.error is not None
    assert "bloomColumns" in outcome.error
    assert before == {path: path.read_bytes() for path in Path(plain).iterdir()}
    with pytest.raises(bp.UnsupportedError, match=r"new\.orc: this writes Parquet"):
        bp.write_table(pa.table({"x": [1]}), tmp_path / "new.orc")
    assert not list(tmp_path.iterdir())
    (tmp_path / "x.orc").write_bytes(b"neither of them" * 10)
    with pytest.raises(bp.FormatError, match="not a Parquet file"):
        bp.add_filters(tmp_path / "x.orc")
