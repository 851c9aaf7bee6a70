"""write_table and ParquetWriter: files are complete or absent, with filters of the size that their values need."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int64
from tests.support.encrypted_modules import bitsets, footer_of
from tests.support.stored import assert_filters_hold_all
from tests.writing.test_from_chunk import TABLE as EVERY_TYPE

ROWS = 3_000


def ids(rows: int = ROWS) -> pa.Table:
    texts = pa.array([f"value-{i}" for i in range(rows)], pa.string())
    return pa.table({"id": np.arange(rows) * 7919 % 1_000_003, "text": texts})


def filters(path: Path | str) -> list[dict[str, Any]]:
    return bp.inspect(str(path)).to_pylist()


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_rows_and_schema_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = ids().append_column("st", pa.array([{"x": i} for i in range(ROWS)])).replace_schema_metadata({"k": "v"})
    outcome = bp.write_table(table, path, bloom=["id"], row_group_size=1000)
    assert pq.read_table(path).equals(table, check_metadata=True)
    assert (outcome.action, outcome.filters, outcome.bytes_after) == ("written", 3, path.stat().st_size)
    assert names(tmp_path) == ["a.parquet"]


def test_filters_hold_the_values_of_every_type(tmp_path: Path) -> None:
    bp.write_table(EVERY_TYPE, tmp_path / "a.parquet", bloom=EVERY_TYPE.column_names, row_group_size=400)
    filters = assert_filters_hold_all(str(tmp_path / "a.parquet"))
    assert len(filters) == len(EVERY_TYPE.column_names) * -(-len(EVERY_TYPE) // 400)


@pytest.mark.parametrize("encryption", [None, bp.Keys(b"0123456789abcdef")])
def test_filters_hold_both_zeros_and_nan(tmp_path: Path, encryption: bp.Keys | None) -> None:
    bp.write_table(pa.table({"v": [-0.0, 5.0]}), tmp_path / "a.parquet", bloom="v", encryption=encryption)
    bloom = bp.SplitBlockBloomFilter.from_bytes(bitsets(tmp_path / "a.parquet", encryption)[0, 0])
    assert bloom.check(xxh64_int64(np.array([0.0, -0.0, 5.0, np.nan, -np.nan]))).all()
    assert not bloom.check(xxh64_int64(np.arange(100, 200) / 3)).any()


def test_every_column_means_columns_that_pay(tmp_path: Path) -> None:
    n, random = 20_000, np.random.default_rng(0)
    table = pa.table({
        "sorted": np.arange(n),
        "user": random.integers(0, 1 << 40, n),
        "country": random.choice(["de", "ch", "fr"], n),
        "flag": random.random(n) < 0.5,
        "st": [{"k": f"{i:x}"} for i in random.integers(0, 1 << 40, n)],
        "tags": [[1, 2]] * n,
    })  # fmt: skip
    for bloom, more in (("*", set()), (["*", "country"], {"country"})):
        bp.write_table(table, tmp_path / "a.parquet", bloom=bloom, row_group_size=2_000)
        assert {row["column"] for row in filters(tmp_path / "a.parquet")} == {"user", "st.k"} | more


def test_dotted_name_is_a_column_before_it_is_a_field(tmp_path: Path) -> None:
    table = pa.table({"a.b": [1, 2], "a": [{"b": 3}, {"b": 4}]})
    for leaf, column in enumerate(["a.b", ("a", "b")]):
        bp.write_table(table, tmp_path / "a.parquet", bloom=[column])
        assert assert_filters_hold_all(str(tmp_path / "a.parquet")).keys() == {(0, leaf)}


def test_warning_when_max_bytes_worsens_fpp(tmp_path: Path) -> None:
    message = r"max_bytes raises the false positive probability of the filters of id to up to [\d.]+%"
    with pytest.warns(UserWarning, match=message):
        outcome = bp.write_table(ids(), tmp_path / "a.parquet", bloom={"id": bp.Bloom(0.01, max_bytes=512)})
    assert outcome.limited == ("id",)
    assert [row["bytes"] for row in filters(tmp_path / "a.parquet")] == [512]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bp.write_table(ids(), tmp_path / "b.parquet", bloom={"id": bp.Bloom(0.01, max_bytes=4096)})


@pytest.mark.parametrize("encryption", [None, bp.Keys(b"0123456789abcdef")])
def test_batches_become_row_groups_of_the_given_size(tmp_path: Path, encryption: bp.Keys | None) -> None:
    batches, path = ids().to_batches(max_chunksize=70), tmp_path / "a.parquet"
    options: dict[str, Any] = {"row_group_size": 1_000, "key_values": {"mine": "kept"}, "encryption": encryption}
    with bp.ParquetWriter(path, ids().schema, bloom=["id"], **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    footer = footer_of(path, encryption)
    assert (footer.rows, footer.key_values["mine"]) == ((1_000, 1_000, 1_000), "kept")
    assert len(bp.inspect(path, keys=encryption)) == 3
    assert bp.read_table(path, keys=encryption).equals(ids())
    with bp.ParquetWriter(tmp_path / "b.parquet", ids().schema, row_group_bytes=5_000) as writer:
        for batch in batches:
            writer.write_batch(batch)
    assert pq.read_metadata(tmp_path / "b.parquet").num_row_groups > 10


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_table_keeps_its_schema(tmp_path: Path, rows: int) -> None:
    bp.write_table(ids(rows), tmp_path / "a.parquet", bloom=["id", "text"])
    assert pq.read_table(tmp_path / "a.parquet").equals(ids(rows))
    assert len(filters(tmp_path / "a.parquet")) == 2 * rows


def test_filter_of_nulls_proves_every_value_absent(tmp_path: Path) -> None:
    bp.write_table(pa.table({"v": pa.nulls(50, pa.int64())}), tmp_path / "a.parquet", bloom="v")
    assert bp.plan(str(tmp_path / "a.parquet"), "v = 1").kept == 0
    assert bp.plan(str(tmp_path / "a.parquet"), "v IS NULL").kept == 1


@pytest.mark.parametrize("there", [False, True])
def test_exception_in_with_block_keeps_the_old_file(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "a.parquet"
    if there:
        bp.write_table(ids(5), path)
    with pytest.raises(RuntimeError), bp.ParquetWriter(path, ids().schema, bloom="id") as writer:  # noqa: PT012
        writer.write_table(ids())
        raise RuntimeError
    assert names(tmp_path) == (["a.parquet"] if there else [])
    if there:
        assert pq.read_table(path).equals(ids(5))


def test_aborted_writer_never_writes_again(tmp_path: Path) -> None:
    writer = bp.ParquetWriter(tmp_path / "a.parquet", ids().schema, bloom="id")
    writer.write_table(ids())
    writer.abort()
    others = [open(tmp_path / f"other-{i}", "w+b") for i in range(8)]  # noqa: SIM115  # among them its descriptor's number
    del writer
    gc.collect()
    for other in others:
        other.seek(0)
        assert other.read() == b""
        other.close()


@pytest.mark.parametrize("end", ["close", "abort"])
def test_rows_after_close_are_an_error(tmp_path: Path, end: str) -> None:
    writer = bp.ParquetWriter(tmp_path / "a.parquet", ids().schema)
    getattr(writer, end)()
    for rows in (0, 5):
        with pytest.raises(ValueError, match="is closed or aborted"):
            writer.write_table(ids(rows))
    writer.close()
    assert names(tmp_path) == (["a.parquet"] if end == "close" else [])


@pytest.mark.parametrize("call", ["write_table", "close"])
def test_failed_write_aborts_the_file(tmp_path: Path, call: str) -> None:
    bp.write_table(ids(5), tmp_path / "a.parquet")
    writer = bp.ParquetWriter(tmp_path / "a.parquet", ids().schema, bloom="id", row_group_size=1_000)
    writer.write_table(ids(1_500))
    full = OSError(28, "No space left on device")
    with patch.object(os, "write", side_effect=full), pytest.raises(OSError, match="No space left"):
        writer.close() if call == "close" else writer.write_table(ids(1_500))
    writer.close()
    assert names(tmp_path) == ["a.parquet"]
    assert pq.read_table(tmp_path / "a.parquet").equals(ids(5))


def test_chance_collisions_are_not_reported_as_limited(tmp_path: Path) -> None:
    """A hundred values in four blocks may collide, whatever max_bytes is."""
    unlucky = pa.table({"id": [i * 7919 % 1_000_003 for i in range(200_100, 200_200)]})
    outcome = bp.write_table(unlucky, tmp_path / "a.parquet", bloom=["id"])
    assert outcome.fpp is not None
    assert outcome.fpp > 0.02
    assert outcome.limited == ()


@pytest.mark.filterwarnings("ignore:the Bloom filters of column")
def test_filters_of_lists_have_room_for_many_elements(tmp_path: Path) -> None:
    lists = pa.table({"l": [list(range(50 * i, 50 * i + 50)) for i in range(2_000)]})
    outcome = bp.write_table(lists, tmp_path / "a.parquet", bloom=["l.list.element"])
    assert outcome.limited == ()
    (row,) = filters(tmp_path / "a.parquet")
    assert row["estimated_fpp"] <= 0.0125
    assert row["estimated_ndv"] == pytest.approx(100_000, rel=0.02)


def test_shared_dictionary_does_not_split_row_groups(tmp_path: Path) -> None:
    words = pa.array([f"{i:0500d}" for i in range(2_000)])
    batch = pa.record_batch({"w": pa.DictionaryArray.from_arrays(pa.array(range(1_000), pa.int32()), words)})
    with bp.ParquetWriter(tmp_path / "a.parquet", batch.schema, row_group_bytes=1 << 20) as writer:
        for _ in range(10):
            writer.write_batch(batch)
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 1


def test_wrong_arguments_are_errors_with_a_remedy(tmp_path: Path) -> None:
    for arguments, message in (
        ({"bloom_filter_options": {"id": True}}, "use bloom="),
        ({"metadata_collector": []}, "differs from the file's"),
        ({"row_group_size": 0}, "expected 1 or more"),
        ({"bloom": True}, "bloom is True; expected columns"),
        ({"bloom": "tex"}, "there is no column 'tex'; did you mean 'text'"),
    ):
        with pytest.raises(bp.BloomParquetError, match=message):
            bp.ParquetWriter(tmp_path / "a", ids().schema, **arguments)
        with pytest.raises(bp.BloomParquetError, match=message):
            bp.write_table(ids(), tmp_path / "a", **arguments)
    for table in ("a", {"id": [1]}, None):
        with pytest.raises(bp.OptionError, match=f"table is a {type(table).__name__}; expected a pyarrow.Table"):
            bp.write_table(table, tmp_path / "a")
    for options in ({"fpp": 0.0}, {"fpp": 1.0}, {"ndv": 0}, {"max_bytes": 16}, {"max_bytes": 1 << 30}):
        with pytest.raises(bp.OptionError, match=str(next(iter(options)))):
            bp.Bloom(**options)
    writer = bp.ParquetWriter(tmp_path / "a", ids().schema)
    with pytest.raises(ValueError, match="the batch has the schema"):
        writer.write_table(pa.table({"other": [1]}))
    with pytest.raises(ValueError, match="is not closed"):
        _ = writer.outcome
    writer.abort()
    assert names(tmp_path) == []


def test_other_storages_get_whole_files() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    bp.write_table(ids(), "memory://written/a.parquet", bloom=["id"], row_group_size=1_000)
    assert bp.plan("memory://written/a.parquet", "id = 7919").total == 3
    with pytest.raises(RuntimeError), bp.ParquetWriter("memory://written/a.parquet", ids().schema) as writer:  # noqa: PT012
        writer.write_table(ids(5))
        raise RuntimeError
    assert bp.read_table("memory://written/a.parquet").num_rows == ROWS
    assert [os.path.basename(name) for name in memory.ls("/written", detail=False)] == ["a.parquet"]
    memory.rm("/written", recursive=True)


MANY = 120_000
NUMBERS = np.arange(MANY)
COLUMNS: dict[str, pa.Array] = {
    "unique": pa.array(NUMBERS * 7919),
    "unique or null": pa.array(NUMBERS, mask=NUMBERS % 4 != 0),
    "uuid": pa.array([UUID(int=i).bytes for i in range(MANY)], pa.uuid()),
    "pairs far apart": pa.array(NUMBERS % (MANY // 2)),
    "pairs side by side": pa.array(NUMBERS // 2),
    "10,000 words": pa.array([f"a long word {i % 10_000}" for i in range(MANY)]),
    "half one value": pa.array(np.where(NUMBERS % 2, NUMBERS, 0)),
    "nulls": pa.nulls(MANY, pa.int64()),
    "encoded": pa.array([f"{i}" for i in range(MANY)]).dictionary_encode(),
    "struct": pa.StructArray.from_arrays([pa.array(NUMBERS)], ["x"]),
    "list": pa.ListArray.from_arrays(np.arange(MANY + 1, dtype=np.int32), pa.array(NUMBERS)),
}


def test_only_columns_that_hardly_repeat_are_plain(tmp_path: Path) -> None:
    table, path = pa.table(COLUMNS), tmp_path / "a.parquet"
    bp.write_table(table, path, bloom="unique")
    assert bp.read_table(path).equals(table)
    row_group = pq.read_metadata(path).row_group(0)
    chunks = [row_group.column(i) for i in range(row_group.num_columns)]
    coded = {chunk.path_in_schema.partition(".")[0] for chunk in chunks if chunk.has_dictionary_page}
    assert coded == COLUMNS.keys() - {"unique", "unique or null", "uuid"}


@pytest.mark.parametrize(
    "options", [{"use_dictionary": True}, {"dictionary_pagesize_limit": 1 << 20}, {"use_dictionary": ["unique"]}]
)
def test_given_encodings_are_kept(tmp_path: Path, options: dict[str, Any]) -> None:
    table = pa.table({name: COLUMNS[name] for name in ("unique", "10,000 words")})
    bp.write_table(table, tmp_path / "ours", **options)
    pq.write_table(table, tmp_path / "theirs", write_page_index=True, **options)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_columns_of_one_name_are_written(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([COLUMNS["unique"], COLUMNS["10,000 words"]], ["a", "a"])
    bp.write_table(table, tmp_path / "a.parquet")
    assert pq.read_metadata(tmp_path / "a.parquet").num_columns == 2
