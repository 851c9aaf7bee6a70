"""Adding and shrinking filters: files, columns, reads, destinations, outcomes and errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.sizes import expected_fpp
from bloomparquet.writing.filters.spec import Bloom
from bloomparquet.writing.outcome import FileOutcome
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.commands import Run
from tests.support.core import empty_filters, graft_filters, watch_reads
from tests.support.files import write
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


def test_existing_filters_are_kept_unless_replace(path: str) -> None:
    seen: list[tuple[FileOutcome, int]] = []
    outcomes = add_filters(path, bloom={"id": Bloom(0.2)}, progress=lambda *each: seen.append(each))
    assert seen == [(outcomes[0], 1)]
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
        blooms = [bp.SplitBlockBloomFilter.from_bytes(filters[i, leaf]) for i in range(4)]
        assert column.fpp == max(bloom.estimated_fpp for bloom in blooms)
        assert column.fpp <= 1.5 * fpp
        assert expected_fpp(1_000, blooms[0].n_blocks // 2) > fpp
    assert outcome.fpp == outcome.columns[0].fpp
    assert outcome.error is None


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
    empty_filters(graft_filters(path, 1 << 12))
    assert shrink_filters(path)[0].dropped == 2


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
    path = link = graft_filters(make(tmp_path / "a.parquet"), 1 << 15)
    if linked:
        link = str(tmp_path / "link.parquet")
        Path(link).symlink_to(path)
    changes = {
        "shrunk": lambda: shrink_filters(link),
        "added": lambda: add_filters(link, bloom="text"),
        "written": lambda: [bp.write_table(TABLE, link)],
    }
    for action, change in changes.items():
        for each in {path, link}:
            Path(each).with_name(f".{Path(each).name}.crc").write_bytes(b"crc\0")
        (outcome,) = change()
        assert outcome.action == action
        assert list(tmp_path.glob(".*.crc")) == []


@pytest.mark.parametrize("glob", [False, True])
def test_directory_is_copied_with_its_structure(tmp_path: Path, glob: bool) -> None:
    names = ["day=1/a.parquet", "day=1/b.parquet", "day=2/c.parquet"]
    for name in names:
        make(tmp_path / "t" / name)
    add_filters(tmp_path / "t" / "day=1" / "b.parquet", bloom="id")
    before = {name: (tmp_path / "t" / name).read_bytes() for name in names}
    source = tmp_path / "t" / "day=*" / "*.parquet" if glob else tmp_path / "t"
    outcomes = add_filters(source, tmp_path / "copy", bloom="id")
    assert [each.action for each in outcomes] == ["added", "copied", "added"]
    assert {name: (tmp_path / "t" / name).read_bytes() for name in names} == before
    copies = sorted(str(each.relative_to(tmp_path / "copy")) for each in (tmp_path / "copy").rglob("*.parquet"))
    assert copies == names
    for name in names:
        assert_filters_hold_all(str(tmp_path / "copy" / name), {0})


def test_dst_is_a_file_name_or_a_directory(path: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for target, expected in [
        (tmp_path / "b.parquet", "b.parquet"),
        (tmp_path / "there", "there/a.parquet"),
        (f"{tmp_path}/new/", "new/a.parquet"),
        (tmp_path / "deep" / "er" / "c.parquet", "deep/er/c.parquet"),
        (f"file://{tmp_path}/d.parquet", "d.parquet"),
    ]:
        (outcome,) = add_filters(path, target, bloom="id")
        assert outcome.path == str(tmp_path / expected)
        assert_filters_hold_all(outcome.path, {0})
    with pytest.raises(bp.OptionError, match="dst needs a single src"):
        add_filters([path, path], tmp_path / "x", bloom="id")


@pytest.mark.parametrize(("src", "dst"), [("a.parquet", "a.parquet"), (".", "."), ("a.parquet", ".")])
def test_dst_that_is_src_is_an_error(path: str, tmp_path: Path, src: str, dst: str) -> None:
    """With dst, the old files stay as they are."""
    before = Path(path).read_bytes()
    for change in (add_filters, shrink_filters):
        with pytest.raises(bp.OptionError, match=r"would replace .*a\.parquet, .* leave out dst"):
            change(tmp_path / src, tmp_path / dst)
    assert Path(path).read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


@pytest.mark.parametrize("how", ["below src", "link to src", "link in dst"])
def test_dst_does_not_replace_another_file_of_src(tmp_path: Path, how: str) -> None:
    """The rows of the replaced file would be lost."""
    src, dst = tmp_path / "src", tmp_path / "src" / "sub"
    make(src / "a.parquet")
    write(src / "sub" / "a.parquet", {"id": range(1_000, 1_010)}, [])
    if how != "below src":
        dst = tmp_path / "dst"
        dst.mkdir()
        (dst / "a.parquet").symlink_to(src / "sub" / "a.parquet")
    if how == "link in dst":
        (dst / "sub").mkdir()
        (dst / "a.parquet").unlink()
        (dst / "a.parquet").symlink_to(dst / "sub" / "a.parquet")
    before = {each: each.read_bytes() for each in src.rglob("*.parquet")}
    with pytest.raises(bp.OptionError, match=r"would replace .*a\.parquet, which is .* expected a directory outside"):
        add_filters(src, dst, bloom="id")
    assert {each: each.read_bytes() for each in src.rglob("*.parquet")} == before


def test_dst_that_is_no_path_is_an_error(path: str, tmp_path: Path) -> None:
    """Columns or an fpp as the second positional argument, which is dst here."""
    for change in (lambda: add_filters(path, ["id"]), lambda: shrink_filters(path, 0.05)):
        with pytest.raises(bp.OptionError, match=r"dst is a (list|float); expected a path"):
            change()
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_orc_files_are_refused_and_unchanged(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "0.orc"
    orc.write_table(pa.table({"id": [1, 2]}), path)
    before = path.read_bytes()
    for call in (bp.advise, bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.UnsupportedError, match=r"0\.orc is an ORC file.*bloomColumns.*bloom_filter_columns"):
            call(tmp_path)
    for command in (("advise",), ("add", "--yes"), ("shrink",)):
        result = run(*command, tmp_path)
        assert (result.code, "bloomColumns" in result.err) == (1, True)
    assert path.read_bytes() == before


def test_other_files_and_new_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "x.orc").write_bytes(b"neither of them" * 10)
    with pytest.raises(bp.FormatError, match="not a Parquet file"):
        bp.add_filters(tmp_path / "x.orc")
    with pytest.raises(bp.UnsupportedError, match=r"new\.orc: only Parquet files"):
        bp.write_table(pa.table({"x": [1]}), tmp_path / "new.orc")
