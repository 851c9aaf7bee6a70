"""Files that another process reads: batches of at most 16 MiB, one request for each run of ranges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bloomparquet as bp
from bloomparquet.errors import FormatError, LimitError
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.storage.files import FileInfo, Files, ReadCount
from bloomparquet.storage.host_files import HostFile, HostRoot, HostStorage, roots_of
from bloomparquet.storage.ranges import read_ranges
from tests.support import files
from tests.support.kms import Kms
from tests.support.kms_files import kms_keys, material_path, write_with_material_file

ROOT = "vault://safe"


class Host:
    """The process that reads: files of a directory, by their URLs. `asked`: the requests that it got."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[tuple[Sequence[HostFile], NDArray[np.int64]]] = []

    def read(self, asked: Sequence[HostFile], ranges: NDArray[np.int64]) -> bytes:
        self.asked.append((asked, ranges))
        paths = [Path(str(self.home) + url.removeprefix(ROOT)) for _, url, _, _ in asked]
        data = [path.read_bytes() for path in paths]
        if asked[0][2] < 0:
            return data[0]
        return b"".join(data[file][start : start + length] for file, start, length in ranges.T.tolist())

    def storage(self, number: int = 1, *, is_first: bool = True) -> HostStorage:
        return HostStorage([ROOT], {ROOT: HostRoot(number, ROOT, is_first)}, self.read)

    def dataset(self, storage: HostStorage, *names: str) -> Dataset:
        stats = [(self.home / name).stat() for name in names]
        infos = [
            FileInfo(storage.path(f"{ROOT}/{name}"), stat.st_size, stat.st_mtime_ns // 10**6 * 10**6)
            for name, stat in zip(names, stats, strict=True)
        ]
        return Dataset(storage, Files(infos), (), ((),) * len(infos))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_plan_reads_the_end_of_each_file_in_one_batch(host: Host) -> None:
    names = [f"{i:03}.parquet" for i in range(40)]
    for i, name in enumerate(names):
        files.write(host.home / name, {"id": range(i * 100, i * 100 + 100)}, ["id"], rows_per_group=50)
    dataset = host.dataset(host.storage(), *names)
    options = PlanOptions(cache=PlanCache())
    plan = plan_dataset(dataset, "id = 1234", options)
    assert (plan.kept, plan.total, plan.requests) == (1, 80, 40 + 1)  # and one looks for an index
    ends = [asked for asked in host.asked if asked[0][0][2] > 0]
    assert [len(asked) for asked, _ in ends] == [16, 24]
    assert plan_dataset(dataset, "id = 1235", options).requests == 0


def test_filters_that_lie_before_the_end_are_read(host: Host) -> None:
    columns = {"id": range(100_000), "more": [str(i) * 4 for i in range(100_000)]}
    files.write(host.home / "a.parquet", columns, ["id", "more"], rows_per_group=50_000, use_dictionary=False)
    dataset = host.dataset(host.storage(), "a.parquet")
    for where in ("id = 77777", "more = '77777777777777777777'", "id = 100000"):
        ours = plan_dataset(dataset, where, PlanOptions(cache=PlanCache()))
        assert ours.codes.tolist() == bp.plan(host.home / "a.parquet", where).codes.tolist()


def test_key_material_is_read_too(host: Host) -> None:
    kms = Kms()
    path = write_with_material_file(kms, host.home)
    dataset = host.dataset(host.storage(), Path(path).name).with_keys(kms_keys(kms))
    for where, kept in (("id = 50", 1), ("id = 1000", 0)):
        assert plan_dataset(dataset, where, PlanOptions(cache=PlanCache())).kept == kept
    assert f"{ROOT}/{material_path(path).name}" in [url for asked, _ in host.asked for _, url, *_ in asked]
    material_path(path).unlink()
    plan = plan_dataset(dataset.with_keys(kms_keys(kms)), "id = 1000", PlanOptions(cache=PlanCache()))
    assert plan.kept == 1
    assert "should be in safe/_KEY_MATERIAL_FOR_a.parquet.json, which is missing" in str(plan.errors[0])


def test_many_bytes_are_read_in_several_batches(host: Host) -> None:
    generator = np.random.default_rng(7)
    data = generator.integers(0, 256, 40 << 20, np.uint8).tobytes()
    (host.home / "a").write_bytes(data)
    (host.home / "b").write_bytes(data[::-1])
    infos, count, whole = [FileInfo(f"safe/{name}", len(data), 1) for name in "ab"], ReadCount(), (data, data[::-1])
    file = np.array([0, 1, 0, 1, 0])
    start = np.array([3, 1 << 20, 30 << 20, 5, 39 << 20])
    length = np.array([25 << 20, 17 << 20, 1, 1, 1 << 20])
    ranges = read_ranges(host.storage(), infos, file, start, length, count)
    for i in range(len(file)):
        read = ranges.buffer[ranges.starts[i] : ranges.starts[i] + length[i]].tobytes()
        assert read == whole[file[i]][start[i] : start[i] + length[i]]
    assert count.requests == 5
    assert all(asked[2].sum() <= 16 << 20 for _, asked in host.asked)
    assert len(host.asked) >= 3


def test_a_wrong_number_of_bytes_is_an_error(host: Host) -> None:
    (host.home / "a").write_bytes(b"abc")
    file, start, length = map(np.array, ([0], [2], [2]))
    with pytest.raises(FormatError, match=r"vault://safe/a: 1 bytes were read; expected 2"):
        read_ranges(host.storage(), [FileInfo("safe/a", 3, 1)], file, start, length, ReadCount())


def test_credentials_that_are_not_the_first_share_nothing(host: Host, tmp_path_factory: Any) -> None:
    files.write(host.home / "a.parquet", {"id": range(100)}, ["id"], rows_per_group=50)
    memory, directory = PlanCache(), tmp_path_factory.mktemp("cache")

    def requests(storage: HostStorage, cache: PlanCache) -> int:
        on_disk = cache.on_disk(directory, 1 << 20)
        plan = plan_dataset(host.dataset(storage, "a.parquet"), "id = 7", PlanOptions(cache=on_disk, index="off"))
        on_disk.persist()
        return plan.requests

    first, second = host.storage(1), host.storage(2, is_first=False)
    assert requests(first, memory) > 0
    assert requests(first, PlanCache()) == 0, "another process of the first ones"
    assert requests(second, memory) > 0
    assert requests(second, PlanCache()) > 0
    assert requests(second, memory) == requests(first, memory) == 0


def test_another_endpoint_of_the_same_bucket_shares_nothing(host: Host, tmp_path_factory: Any) -> None:
    """The files have the same names, sizes and times on both servers, and other applications keep them on disk."""
    directory, kept = tmp_path_factory.mktemp("cache"), []
    for start, key in ((0, "s3a://b?endpoint=one"), (1, "s3a://b?endpoint=other")):
        path = files.write(host.home / "a.parquet", {"id": range(start, 200, 2)}, ["id"], use_dictionary=False)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        storage = HostStorage([ROOT], {ROOT: HostRoot(1, key, True)}, host.read)
        cache = PlanCache().on_disk(directory, 1 << 20)
        kept.append(plan_dataset(host.dataset(storage, "a.parquet"), "id = 51", PlanOptions(cache=cache)).kept)
        cache.persist()
    assert kept == [0, 1]


def test_what_was_read_of_a_storage_can_be_forgotten(host: Host, tmp_path_factory: Any) -> None:
    files.write(host.home / "a.parquet", {"id": range(100)}, ["id"], rows_per_group=50)
    directory = tmp_path_factory.mktemp("cache")
    cache, storage = PlanCache().on_disk(directory, 1 << 20), host.storage()

    def requests(cache: PlanCache) -> int:
        return plan_dataset(host.dataset(storage, "a.parquet"), "id = 7", PlanOptions(cache=cache)).requests

    assert requests(cache) > 0
    cache.persist()
    assert requests(cache) == 0
    assert [path for path in directory.rglob("*") if path.is_file()]
    cache.forget(lambda other: other is not storage)
    assert requests(cache) == 0
    cache.forget(lambda other: other is storage)
    assert not [path for path in directory.rglob("*") if path.is_file()]
    assert requests(cache) > 0


def test_whole_files_are_bounded(host: Host) -> None:
    (host.home / "a").write_bytes(b"abc")
    storage = host.storage()
    assert storage.read_whole("safe/a", 3) == b"abc"
    with pytest.raises(LimitError, match="3 bytes; expected at most 2"):
        storage.read_whole("safe/a", 2)
    several = HostStorage([], {}, host.read)  # as of the index of files on several storages
    with pytest.raises(FileNotFoundError, match="vault://_index: not on a storage of the query"):
        several.read_whole("vault://_index", 2)


def test_roots_are_schemes_and_authorities() -> None:
    urls = ["s3a://a/b/c", "s3a://a/b c%", "s3a://ab/c", "hdfs://n:1/c", "file:/a", "file:/b", "vault:/a", "s3a://a/d"]
    assert roots_of(urls) == ["s3a://a", "s3a://ab", "hdfs://n:1", "file:", "vault:"]
