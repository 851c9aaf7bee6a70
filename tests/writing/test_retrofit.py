"""Adding and shrinking filters: files, columns, reads, outcomes and errors."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.sizes import expected_fpp
from bloomparquet.writing.filters.spec import Bloom
from bloomparquet.writing.outcome import FileOutcome
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.core import graft_filters, read_footer, watch_reads
from tests.support.files import write
from tests.support.layout import assert_only_filters_changed
from tests.support.stored import assert_filters_hold_all, bitsets

TABLE = pa.table({
    "id": np.arange(4_000) * 3,
    "text": [f"text {i}" for i in range(4_000)],
    "flag": [i % 2 == 0 for i in range(4_000)],
    "s": [{"x": i, "y": f"{i}"} for i in range(4_000)],
    "l": [[i] for i in range(4_000)],
})  # fmt: skip


def make(path: Path, **options: Any) -> str:
    return write(path, TABLE, rows_per_group=1_000, **options)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make(tmp_path / "a.parquet")


def columns_of(path: str) -> set[str]:
    schema = pq.ParquetFile(path).schema
    return {schema.column(leaf).path for _, leaf in bitsets(path)}


@pytest.mark.filterwarnings("ignore:the Bloom filters of column")
@pytest.mark.parametrize(
    ("bloom", "expected"),
    [
        ("id", {"id"}),
        ("s.x", {"s.x"}),
        (("s", "x"), {"s.x"}),
        (["id", "text"], {"id", "text"}),
        ({"id": Bloom(0.1), ("s", "y"): Bloom()}, {"id", "s.y"}),
        ([("l", "list", "element")], {"l.list.element"}),
    ],
)
def test_columns_are_named_in_many_ways(path: str, bloom: Any, expected: set[str]) -> None:
    if isinstance(bloom, tuple):
        bloom = [bloom]
    add_filters(path, bloom=bloom)
    assert columns_of(path) == expected
    assert_filters_hold_all(path)


@pytest.mark.parametrize(
    ("bloom", "error", "message"),
    [
        ("idd", bp.PlanError, "no column 'idd'.*id"),
        ("s", bp.PlanError, r"s is a group; name one of its leaf columns: s\.x, s\.y"),
        ("flag", bp.UnsupportedError, r"column flag \(BOOLEAN\) has two values"),
        ([], bp.OptionError, "names no column"),
        ({"id": 0.01}, bp.OptionError, "Bloom"),
        ([3], bp.OptionError, "expected columns"),
    ],
)
def test_unsuitable_column_is_an_error_before_any_change(
    path: str, bloom: Any, error: type[Exception], message: str
) -> None:
    before = Path(path).read_bytes()
    with pytest.raises(error, match=message):
        add_filters(path, bloom=bloom)
    assert Path(path).read_bytes() == before


def test_binary_decimal_is_an_error(parquet_testing_dir: Path, tmp_path: Path) -> None:
    source = parquet_testing_dir / "byte_array_decimal.parquet"
    with pytest.raises(bp.UnsupportedError, match="values have several encodings"):
        add_filters(source, tmp_path / "a.parquet", bloom="value")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("keywords", [{"fpp": 0.0}, {"fpp": 1.0}, {"drop_above": 0.0}, {"drop_above": 1.5}])
def test_invalid_fpp_of_shrinking_is_an_error(path: str, keywords: dict[str, float]) -> None:
    with pytest.raises(bp.OptionError):
        shrink_filters(path, **keywords)


def test_existing_filters_are_kept_unless_replace(path: str) -> None:
    add_filters(path, bloom={"id": Bloom(0.2)})
    first = bitsets(path)
    (outcome,) = add_filters(path, bloom=["id", "text"])
    assert [column.column for column in outcome.columns] == ["text"]
    assert {chunk_id: bits for chunk_id, bits in bitsets(path).items() if chunk_id[1] == 0} == first
    (outcome,) = add_filters(path, bloom="id", replace=True)
    assert [column.column for column in outcome.columns] == ["id"]
    assert all(len(bits) > len(first[chunk_id]) for chunk_id, bits in bitsets(path).items() if chunk_id[1] == 0)
    assert_filters_hold_all(path, {0, 1})


def test_second_run_changes_nothing(path: str) -> None:
    add_filters(path, bloom=["id", "text"])
    before = os.stat(path)
    for change in (
        lambda: add_filters(path, bloom=["id", "text"]),
        lambda: add_filters(path, bloom=["id"], replace=True),
        lambda: shrink_filters(path),
    ):
        (outcome,) = change()
        assert (outcome.action, outcome.filters, outcome.columns) == ("unchanged", 0, ())
        assert outcome.bytes_before == outcome.bytes_after == before.st_size
        now = os.stat(path)
        assert (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_existing_filters_keep_their_bits_beside_new_ones(tmp_path: Path) -> None:
    path = make(tmp_path / "a.parquet")
    graft_filters(path, 1 << 12)
    grafted = bitsets(path)
    before = str(tmp_path / "before")
    Path(before).write_bytes(Path(path).read_bytes())
    add_filters(path, bloom=["id", "text"])
    assert_only_filters_changed(before, path)
    assert {chunk_id: bits for chunk_id, bits in bitsets(path).items() if chunk_id[1] == 0} == grafted


def test_each_chunk_is_read_once_and_no_other_data(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = pq.read_metadata(path)
    reads = watch_reads(monkeypatch)
    add_filters(path, bloom="text")
    data_end = Path(path).stat().st_size
    for group in range(4):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            stop = start + chunk.total_compressed_size
            touching = [each for _, *each in _of(reads) if each[0] < stop and sum(each) > start + 4]
            tail = [each for each in touching if sum(each) >= data_end - 20_000 and each[1] >= 16_000]
            if chunk.path_in_schema == "text":
                assert [each for each in touching if each not in tail] == [[start - 4, stop - start + 4]]
            else:
                others = [each for each in touching if each not in tail]
                assert all(each[0] + 4 >= stop or sum(each) <= start + 4 for each in others)


@pytest.mark.parametrize("bloom", ["id", "*", {"*": Bloom(), "text": Bloom(0.1)}])
def test_each_footer_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bloom: Any) -> None:
    sizes = {make(tmp_path / name): (tmp_path / name).stat().st_size for name in ("a.parquet", "b.parquet")}
    reads = watch_reads(monkeypatch)
    add_filters(tmp_path, bloom=bloom)
    footers = [path for path, offset, size in _of(reads) if offset + size == sizes[path]]
    assert sorted(footers) == sorted(sizes)


def _of(reads: Any) -> list[tuple[str, int, int]]:
    return [call for call in reads.calls if ".parquet" in call[0]]


def test_shrinking_reads_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "a.parquet", use_dictionary=False, compression="none")
    graft_filters(path, 1 << 16)
    metadata = pq.read_metadata(path)
    end = max(
        metadata.row_group(3).column(leaf).data_page_offset + metadata.row_group(3).column(leaf).total_compressed_size
        for leaf in range(metadata.num_columns)
    )
    reads = watch_reads(monkeypatch)
    shrink_filters(path)
    assert all(offset >= end for _, offset, _ in _of(reads))
    assert sum(size for _, _, size in _of(reads)) < 4 * (1 << 16) + 80_000


def test_dry_run_has_the_same_outcome_and_writes_nothing(path: str, tmp_path: Path) -> None:
    before = Path(path).read_bytes()
    told = add_filters(path, bloom=["id", "text"], dry_run=True)
    assert Path(path).read_bytes() == before
    add_filters(path, tmp_path / "new" / "b.parquet", bloom="id", dry_run=True)
    assert os.listdir(tmp_path) == ["a.parquet"]
    assert add_filters(path, bloom=["id", "text"]) == told
    assert told[0].bytes_after == Path(path).stat().st_size
    graft_filters(path, 1 << 15)
    before = Path(path).read_bytes()
    told = shrink_filters(path, dry_run=True)
    assert Path(path).read_bytes() == before
    assert shrink_filters(path) == told


def test_outcome_describes_the_file(path: str) -> None:
    size = Path(path).stat().st_size
    (outcome,) = add_filters(path, bloom={"id": Bloom(0.05), "text": Bloom(0.001)})
    filters = bitsets(path)
    assert (outcome.path, outcome.action, outcome.bytes_before) == (path, "added", size)
    assert outcome.filters == len(filters) == 8
    assert outcome.filter_bytes == sum(map(len, filters.values()))
    for column, leaf, fpp in zip(outcome.columns, (0, 1), (0.05, 0.001), strict=True):
        blooms = [
            bp.SplitBlockBloomFilter.from_bytes(bits) for chunk_id, bits in filters.items() if chunk_id[1] == leaf
        ]
        assert column.fpp == max(bloom.estimated_fpp for bloom in blooms)
        assert column.fpp <= 1.5 * fpp
        assert expected_fpp(1_000, blooms[0].n_blocks // 2) > fpp
    assert outcome.fpp == outcome.columns[0].fpp
    assert outcome.error is None


def test_max_bytes_that_worsens_fpp_is_reported(path: str) -> None:
    with pytest.warns(UserWarning, match="max_bytes raises the false positive probability of the filters of text"):
        (outcome,) = add_filters(path, bloom={"id": Bloom(), "text": Bloom(max_bytes=512)})
    assert outcome.limited == ("text",)
    assert_filters_hold_all(path, {0, 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_filters(path, bloom="s.x")


def test_full_filters_and_empty_ones_over_values_are_dropped(tmp_path: Path) -> None:
    table = pa.table({"a": np.arange(1_000), "n": pa.array([None] * 1_000, pa.int64())})
    path = write(tmp_path / "a.parquet", table, ["n"], rows_per_group=500)
    graft_filters(path, 32)  # 500 values in one block
    (outcome,) = shrink_filters(path)
    assert outcome.dropped == 2
    assert {leaf for _, leaf in bitsets(path)} == {1}, "empty as it is, it is right: all values are null"
    assert bp.plan(path, "n = 1").kept == 0
    graft_filters(path, 1 << 12)
    assert shrink_filters(path, drop_above=1e-9)[0].dropped == 2


def test_directory_is_changed_file_by_file(tmp_path: Path) -> None:
    for name in ("day=1/a", "day=1/b", "day=2/c"):
        make(tmp_path / "t" / f"{name}.parquet")
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / "day=1" / ".a.parquet.crc").write_bytes(b"hidden")
    seen: list[tuple[FileOutcome, int]] = []
    outcomes = add_filters(tmp_path / "t", bloom="id", progress=lambda outcome, total: seen.append((outcome, total)))
    assert [Path(each.path).name for each in outcomes] == ["a.parquet", "b.parquet", "c.parquet"]
    assert seen == [(each, 3) for each in outcomes]
    assert bp.plan(str(tmp_path / "t"), "id = 4").skipped == {"bloom": 3, "statistics": 9}


def test_failed_file_does_not_stop_the_others(tmp_path: Path) -> None:
    for name in "abc":
        make(tmp_path / f"{name}.parquet")
    content = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(content[:-20])
    outcomes = add_filters(tmp_path, bloom="id", on_error="report")
    assert [each.action for each in outcomes] == ["added", "failed", "added"]
    assert "b.parquet" in str(outcomes[1].error)
    assert (tmp_path / "b.parquet").read_bytes() == content[:-20]
    with pytest.raises(bp.FormatError, match=r"b\.parquet"):
        add_filters(tmp_path, bloom="text")
    (tmp_path / "b.parquet").write_bytes(content)
    assert [each.action for each in add_filters(tmp_path, bloom="id")] == ["unchanged", "added", "unchanged"]


def test_column_missing_in_some_files(tmp_path: Path) -> None:
    make(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", {"other": [1, 2]})
    outcomes = add_filters(tmp_path, bloom="id")
    assert [each.action for each in outcomes] == ["added", "unchanged"]
    with pytest.raises(bp.PlanError, match="no column 'nowhere'"):
        add_filters(tmp_path, bloom=["id", "nowhere"])


def test_every_value_is_found_and_few_absent_ones(path: str) -> None:
    add_filters(path, bloom=["id", "text", "s.y"])
    for where in ("id = {}", "text = 'text {}'", "s.y = '{}'"):
        number = 3 if where.startswith("id") else 1
        for key in (0, 999, 1_000, 2_500, 3_999):
            plan = bp.plan(path, where.format(number * key))
            assert key // 1_000 in {group.index for group in plan.row_groups if group.kept}
            assert bp.read_table(path, where.format(number * key)).num_rows == 1
    kept = sum(bp.plan(path, f"text = 'text {i}x'").kept for i in range(1_000, 1_100))
    assert kept <= 40


def test_footer_does_not_depend_on_the_order_of_adding(tmp_path: Path) -> None:
    one, other = make(tmp_path / "a.parquet"), make(tmp_path / "b.parquet")
    add_filters(one, bloom=["id", "text"])
    add_filters(other, bloom=["text", "id"])
    assert read_footer(one) == read_footer(other)
    assert Path(one).read_bytes() == Path(other).read_bytes()


def test_unreadable_file_does_not_change_what_pays(tmp_path: Path, parquet_testing_dir: Path) -> None:
    make(tmp_path / "t" / "a.parquet")
    make(tmp_path / "t" / "day=1" / "b.parquet")  # one that lies beside a partition is a file as well
    encrypted = parquet_testing_dir / "uniform_encryption.parquet.encrypted"
    (tmp_path / "t" / "c.parquet").write_bytes(encrypted.read_bytes())
    (tmp_path / "t" / "d.parquet").write_bytes(b"no Parquet file at all")
    outcomes = add_filters(tmp_path / "t", bloom=["*", "id"], on_error="report")
    assert [outcome.action for outcome in outcomes] == ["added", "failed", "failed", "added"]
    assert "the file is unchanged: encrypted, but the footer key is not given" in str(outcomes[1].error)
    assert (tmp_path / "t" / "c.parquet").read_bytes() == encrypted.read_bytes()
    with pytest.raises(bp.EncryptionError, match=r"c\.parquet: the file is unchanged"):
        add_filters(tmp_path / "t")


@pytest.mark.parametrize("linked", [False, True])
def test_hadoop_checksum_is_removed_with_the_old_bytes(tmp_path: Path, linked: bool) -> None:
    def checksummed() -> str:
        path = make(tmp_path / "a.parquet")
        (tmp_path / ".a.parquet.crc").write_bytes(b"crc\0")
        if not linked:
            return path
        link = tmp_path / "link.parquet"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        (tmp_path / ".link.parquet.crc").write_bytes(b"crc\0")
        return str(link)

    def graft() -> str:
        path = checksummed()
        graft_filters(str(tmp_path / "a.parquet"), 1 << 15)
        return path

    changes = [
        lambda: add_filters(checksummed(), bloom="id"),
        lambda: shrink_filters(graft()),
        lambda: [bp.write_table(TABLE, checksummed())],
    ]
    for change in changes:
        (outcome,) = change()
        assert outcome.action in ("added", "shrunk", "written")
        assert list(tmp_path.glob(".*.crc")) == []
