"""Which files an index describes, if there are others with the same names, and which it leaves alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import _digest
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from tests.support.files import write
from tests.support.s3 import S3Server

REMOTE = pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs.LocalFileSystem())
TIME = 1_700_000_000 * 10**9
FAR = 10_400_000_000 * 10**9  # in the year 2299, beyond 64 bits of nanoseconds


def numbers(path: Path, first: int) -> Path:
    """A file of a size and a time that do not depend on its values."""
    values = list(range(first, first + 12, 2))
    write(path, {"x": values, "y": values}, ["x"], rows_per_group=2, compression="none", use_dictionary=False)
    os.utime(path, ns=(TIME, TIME))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(3):
        numbers(tmp_path / "data" / f"{number}.parquet", 100 * number)
    return tmp_path / "data"


def test_a_refresh_with_other_data_keeps_no_evidence(root: Path, tmp_path: Path) -> None:
    """Files of a remote storage with equal names, sizes and times."""
    other, index = tmp_path / "other", tmp_path / "index"
    for number in range(3):
        numbers(other / f"{number}.parquet", 100 * number + 1)
    bp.build_index(root, to=index, filesystem=REMOTE)
    assert bp.read_index_info(root, to=index, filesystem=REMOTE).covered == 3
    assert bp.read_index_info(other, to=index, filesystem=REMOTE).covered == 0
    bp.refresh_index(other, to=index, filesystem=REMOTE)
    assert bp.read_table(other, "x = 105", filesystem=REMOTE, index=index).num_rows == 1
    assert bp.plan(other, "x = 105", filesystem=REMOTE, index=index).indexed == 3


@pytest.mark.parametrize("field", ["bytes", "files", "row_groups", "start_bytes"])
def test_a_manifest_may_lie_about_the_sizes_of_a_segment(field: str, root: Path) -> None:
    manifest = Path(bp.build_index(root, ["x"]).directory) / "_manifest.json"
    content = json.loads(manifest.read_bytes())
    del content["checksum"]
    for lie in (-1, 0, 1, 2**62, 10**30, 1.5, "", "512", None, [], {}):
        for each in content["segments"]:
            each[field] = lie
        manifest.write_text(json.dumps({"checksum": _digest(content), **content}))
        for options in ({}, {"filesystem": REMOTE}):
            forget_indexes()
            dataset = bp.Dataset.open(root, **options)
            assert plan_dataset(dataset, "x = 204", PlanOptions(cache=PlanCache())).kept == 1, lie


def test_each_reader_reads_by_its_own_credentials(s3: S3Server, root: Path, tmp_path: Path) -> None:
    s3.upload(root, "t")
    options = {name: {**s3.options, "access_key": name, "secret_key": "secret"} for name in ("first", "second")}
    bp.build_index("s3://bucket/t", ["x"], tmp_path / "index", filesystem=options["first"])

    def read(name: str, where: str) -> set[str]:
        """The access keys that were used."""
        del s3.credentials[:]
        table = bp.read_table("s3://bucket/t", where, storage_options=options[name], index=tmp_path / "index")
        assert table.num_rows == 1
        return {key for key, _ in s3.credentials}

    for where in ("x = 4", "y = 104"):  # in the index, and not in it
        assert [read(name, where) for name in options] == [{"first"}, {"second"}]


def test_an_index_in_the_bucket_is_written_with_the_options_of_the_data(s3: S3Server, root: Path) -> None:
    s3.upload(root, "u")
    assert bp.build_index("s3://bucket/u", to="s3://bucket/index", filesystem=s3.options).files == 3
    plan = bp.plan("s3://bucket/u", "x = 5", storage_options=s3.options, index="s3://bucket/index")
    assert (plan.indexed, plan.kept) == (3, 0)
    with pytest.raises(bp.OptionError, match="inside the data"):
        bp.build_index("s3://bucket/u", to="s3://bucket/u/index", filesystem=s3.options)


def test_a_glob_does_not_find_the_files_of_an_index(root: Path) -> None:
    expected = bp.read_table(root)
    bp.build_index(root)
    for pattern in ("*", "*/", "**", "**/*", "*.parquet"):
        if pattern != "*/":
            assert bp.read_table(f"{root}/{pattern}") == expected, pattern
    numbers(root.parent / "p" / "p=1" / "0.parquet", 0)
    bp.build_index(root.parent / "p")
    for pattern in ("*", "*/*", "**"):
        assert bp.read_table(f"{root.parent}/p/{pattern}").num_rows == 6, pattern


SPELLINGS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "a link to the data": lambda root: (root, root.parent / "link" / "index"),
    "data named by a link": lambda root: (root.parent / "link", root / "index"),
    "a directory above the files": lambda root: (root.parent / "above", root.parent / "above" / "index"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_index_does_not_lie_among_data_under_another_name(spelling: str, root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    numbers(root.parent / "above" / "2024" / "0.parquet", 0)
    data, to = SPELLINGS[spelling](root)
    with pytest.raises(bp.OptionError, match="inside the data"):
        bp.build_index(data, to=to)
    assert bp.build_index(data, to=to.with_name("_index")).files
    assert bp.plan(data, "x = 5", index=to.with_name("_index")).indexed


def test_names_need_not_be_utf8(root: Path) -> None:
    data = root.with_name(os.fsdecode(b"d\xff"))
    root.rename(data)
    for to in (None, data.with_name(os.fsdecode(b"i\xff"))):
        assert bp.build_index(data, to=to).files == 3
        assert bp.refresh_index(data, to=to).files == 3
        plan = bp.plan(data, "x = 5", index=to or "auto")
        assert (plan.indexed, plan.kept) == (3, 0)
        assert bp.drop_index(data, to=to)


def test_times_after_2262(root: Path, tmp_path: Path) -> None:
    for built in (False, True):
        if built:
            bp.build_index(root)
        os.utime(root / "1.parquet", ns=(FAR, FAR))
        plan = bp.plan(root, "x = 104")
        assert (plan.kept, plan.indexed) == (1, 2 * built)
        for change in (bp.build_index, bp.refresh_index):
            info = change(root)
            assert (info.files, list(info.left_out)) == (2, [str(root / "1.parquet")])
        bp.drop_index(root)
        numbers(root / "1.parquet", 100)
    os.utime(root / "1.parquet", ns=(FAR, FAR))
    for _ in range(2):
        cache = PlanCache().on_disk(tmp_path, 1 << 20)
        assert plan_dataset(bp.Dataset.open(root), "x = 104", PlanOptions(cache=cache)).kept == 1
        cache.persist()


def test_files_that_are_gone_since_their_listing_are_left_out(s3: S3Server, root: Path) -> None:
    s3.upload(root, "gone")
    local, remote = bp.Dataset.open(root), bp.Dataset.open("bucket/gone", filesystem=s3.filesystem)
    (root / "1.parquet").unlink()
    s3.filesystem.delete_file("bucket/gone/1.parquet")
    for dataset in (local, remote):
        info = bp.build_index(dataset)
        assert (info.files, dict(info.left_out)) == (2, {dataset.files[1].path: "changed while it was read"})
