"""Listing and ranged reads, on local files and on what pyarrow and fsspec offer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.fs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import FormatError, UnsupportedError
from bloomparquet.storage.files import ArrowStorage, LocalStorage, ReadCount, Storage, is_glob, is_hidden, open_storage
from bloomparquet.storage.ranges import read_ranges

CONTENT = np.random.default_rng(0).integers(0, 256, 1_000_000, np.uint8).tobytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("storage")
    paths = []
    for i in range(3):
        (folder / f"{i}.bin").write_bytes(CONTENT[i * 1000 :])
        paths.append(str(folder / f"{i}.bin"))
    return paths


def storages() -> dict[str, Storage]:
    return {
        "local": LocalStorage(),
        "arrow": ArrowStorage(pyarrow.fs.LocalFileSystem(), "test"),
        "fsspec": open_storage("/", fsspec.filesystem("file"))[0],
    }


def read(
    storage: Storage, paths: list[str], wanted: list[tuple[int, int, int]], count: ReadCount | None = None
) -> list[bytes]:
    file, offset, length = (np.array(column, np.int64) for column in zip(*wanted, strict=True))
    count = ReadCount() if count is None else count
    ranges = read_ranges(storage, paths, file, offset, length, count)
    return [ranges.buffer[start : start + size].tobytes() for start, size in zip(ranges.starts, length, strict=True)]


RANGES = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.integers(0, 40_000), st.integers(0, 990_000)), st.integers(1, 6_000)),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize("name", ["local", "arrow", "fsspec"])
@given(wanted=RANGES)
def test_merged_reads_equal_naive_reads(name: str, files: list[str], wanted: list[tuple[int, int, int]]) -> None:
    count = ReadCount()
    naive = [CONTENT[file * 1000 + offset : file * 1000 + offset + length] for file, offset, length in wanted]
    assert read(storages()[name], files, wanted, count) == naive
    assert 1 <= count.requests <= len(wanted)
    assert count.bytes >= max(length for _, _, length in wanted)


@given(wanted=RANGES)
def test_no_byte_is_read_twice_and_only_near_ranges_are_merged(
    files: list[str], wanted: list[tuple[int, int, int]]
) -> None:
    runs: list[tuple[str, int, int]] = []

    class Watched(LocalStorage):
        merge_gap = 1000

        def read_into(self, path: str, starts: Any, views: Any) -> None:
            runs.extend((path, start, start + len(view)) for start, view in zip(starts, views, strict=True))
            super().read_into(path, starts, views)

    count = ReadCount()
    read(Watched(), files, wanted, count)
    assert count.requests == len(runs)
    assert count.bytes == sum(end - start for _, start, end in runs)
    for (path, _, end), (other, start, _) in zip(sorted(runs), sorted(runs)[1:], strict=False):
        assert path != other or start > end + 1000


def test_the_bound_on_gaps_is_the_storages(files: list[str]) -> None:
    for storage in storages().values():
        for gap, requests in ((storage.merge_gap, 1), (storage.merge_gap + 1, 2)):
            count = ReadCount()
            read(storage, files, [(0, 0, 10), (0, 10 + gap, 10)], count)
            assert count.requests == requests


def test_nothing_asked_is_nothing_read(files: list[str]) -> None:
    count = ReadCount()
    none = np.empty(0, np.int64)
    ranges = read_ranges(LocalStorage(), files, none, none, none, count)
    assert (len(ranges.starts), count.requests, count.bytes) == (0, 0, 0)
    assert ranges.rows(32).shape == (0, 32)


def test_a_short_read_is_continued_until_all_is_there(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.preadv
    monkeypatch.setattr("bloomparquet.storage.files.os.preadv", lambda fd, views, at: original(fd, [views[0][:7]], at))
    wanted = [(0, 5, 100), (1, 3, 1), (2, 900_000, 2000)]
    assert read(LocalStorage(), files, wanted) == [
        CONTENT[f * 1000 + at : f * 1000 + at + size] for f, at, size in wanted
    ]


@pytest.mark.parametrize("name", ["local", "arrow", "fsspec"])
def test_a_read_behind_the_end_names_the_file_and_both_places(name: str, files: list[str]) -> None:
    size = len(CONTENT) - 2000
    with pytest.raises(
        FormatError, match=rf"2\.bin: the file ends at byte {size}, but bytes up to {size + 50} were expected"
    ):
        read(storages()[name], files, [(2, size - 50, 100)])


@pytest.mark.parametrize("name", ["local", "arrow", "fsspec"])
def test_a_file_that_vanished_is_reported_as_the_system_does(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        read(storages()[name], ["/nowhere/at all.bin"], [(0, 0, 1)])


def fill(write: Any) -> None:
    for path in (
        "a.parquet",
        "b[1].parquet",
        "sub/c.parquet",
        "sub/deep/d.parquet",
        "_SUCCESS",
        ".hidden",
        "_temporary/e.parquet",
        "_day=1/f.parquet",
    ):
        write(path, path.encode())


def names(storage: Storage, root: str, **options: Any) -> list[str]:
    return [file.path.rpartition(root.strip("/"))[2].lstrip("/") for file in storage.list_files(root, **options)]


def test_listing_is_the_same_on_every_storage(tmp_path: Path, memory: Any) -> None:
    def local(path: str, data: bytes) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)

    fill(local)
    fill(lambda path, data: memory.pipe(f"/top/{path}", data))
    deep = ["_day=1/f.parquet", "a.parquet", "b[1].parquet", "sub/c.parquet", "sub/deep/d.parquet"]
    assert names(LocalStorage(), str(tmp_path), recursive=True) == deep
    assert names(ArrowStorage(pyarrow.fs.LocalFileSystem(), "x"), str(tmp_path), recursive=True) == deep
    in_memory, root = open_storage("memory://top")
    assert names(in_memory, root, recursive=True) == deep
    for storage, at in ((LocalStorage(), str(tmp_path)), (in_memory, root)):
        assert names(storage, at, recursive=False) == ["a.parquet", "b[1].parquet"]
        assert len(storage.list_files(at, recursive=True, keep_hidden=True)) == 8
        assert [file.size for file in storage.list_files(at, recursive=False)] == [
            len("a.parquet"),
            len("b[1].parquet"),
        ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.parquet", ["a.parquet", "b[1].parquet"]),
        ("?.parquet", ["a.parquet"]),
        ("[ab].parquet", ["a.parquet"]),
        ("b[[]1].parquet", ["b[1].parquet"]),
        ("sub/*.parquet", ["sub/c.parquet"]),
        ("*/*.parquet", ["_day=1/f.parquet", "_temporary/e.parquet", "sub/c.parquet"]),
        (
            "**/*.parquet",
            [
                "_day=1/f.parquet",
                "_temporary/e.parquet",
                "a.parquet",
                "b[1].parquet",
                "sub/c.parquet",
                "sub/deep/d.parquet",
            ],
        ),
        ("sub?c.parquet", []),
        ("s*c.parquet", []),
        ("[!b]*.parquet", ["a.parquet"]),
        ("sub/**/d.parquet", ["sub/deep/d.parquet"]),
        ("nothing*", []),
    ],
)
def test_a_glob_means_the_same_on_every_storage(pattern: str, found: list[str], tmp_path: Path, memory: Any) -> None:
    def local(path: str, data: bytes) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)

    fill(local)
    fill(lambda path, data: memory.pipe(f"/top/{path}", data))
    storage, inner = open_storage(f"memory://top/{pattern}")
    for opened, at in ((LocalStorage(), f"{tmp_path}/{pattern}"), (storage, inner)):
        matches = sorted(
            path.rpartition("top/" if opened is storage else f"{tmp_path}/")[2] for path in opened.glob(at)
        )
        assert matches == found, opened


def test_hidden_is_what_spark_holds_hidden() -> None:
    assert [name for name in ("_SUCCESS", ".crc", "_a=1", "a_", "a.b", "_", "=_") if is_hidden(name)] == [
        "_SUCCESS",
        ".crc",
        "_",
    ]


def test_a_url_of_a_local_file_is_a_local_file(tmp_path: Path) -> None:
    odd = tmp_path / "a b%c=d.parquet"
    for url in (odd.as_uri(), str(odd), os.fspath(odd)):
        storage, inner = open_storage(url)
        assert (storage.key, inner) == ("file", str(odd))
    assert open_storage(f"file://{tmp_path}/*.parquet")[1] == f"{tmp_path}/*.parquet"
    assert open_storage(f"file:{tmp_path}/x")[1] == f"{tmp_path}/x"


def test_a_question_mark_in_a_local_url_is_a_pattern(tmp_path: Path) -> None:
    assert open_storage(f"file://{tmp_path}/part-?.parquet")[1] == f"{tmp_path}/part-?.parquet"


def test_a_glob_is_told_by_its_characters() -> None:
    assert [path for path in ("a*", "a?b", "a[1]", "s3://b/k*", "a", "s3://b/k", "x=1/y") if is_glob(path)] == [
        "a*",
        "a?b",
        "a[1]",
        "s3://b/k*",
    ]


def test_storages_of_one_key_are_one_place(tmp_path: Path) -> None:
    other = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    assert open_storage("x", other)[0].key != open_storage("x")[0].key
    assert open_storage("memory://a")[0].key == open_storage("memory://b")[0].key
    assert open_storage("x", pyarrow.fs.LocalFileSystem())[0] is open_storage("y")[0]


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"12")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert [file.size for file in LocalStorage().list_files(str(tmp_path / "link"), recursive=True)] == [2]


def linked(root: Path, at: str, target: str) -> Path:
    """Two files below `root`, and a symbolic link."""
    for name in ("p=1/a.parquet", "p=2/b.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / at).symlink_to(target)
    return root


@pytest.mark.parametrize(
    ("at", "target"), [("p=3", "."), ("p=1/q", ".."), ("p=1/q", "../p=1"), ("p=1/q", "../../../t/r")]
)
def test_a_link_that_leads_back_is_an_error_that_names_it(tmp_path: Path, at: str, target: str) -> None:
    """Spark's listing follows it forty times, and reads every row as often."""
    root = linked(tmp_path / "t" / "r", at, target)
    storage, inner = open_storage(str(root))
    with pytest.raises(UnsupportedError, match=rf"{at}: the symbolic link leads back to {tmp_path}.*remove the link"):
        storage.list_files(inner, recursive=True)
    assert storage.list_files(inner, recursive=False) == []
    with pytest.raises(UnsupportedError, match="leads back to"):
        storage.glob(f"{inner}/**/*.parquet")
    assert len(storage.glob(f"{inner}/p=[12]/*.parquet")) == 2


def test_links_that_lead_back_together_are_an_error(tmp_path: Path) -> None:
    root = linked(tmp_path / "t", "p=1/there", "../p=2")
    (root / "p=2" / "back").symlink_to("../p=1")
    storage, inner = open_storage(str(root))
    with pytest.raises(UnsupportedError, match="leads back to"):
        storage.list_files(inner, recursive=True)


def test_a_link_to_above_the_root_is_an_error(tmp_path: Path) -> None:
    root = linked(tmp_path / "t" / "r", "p=3", "../..")
    storage, inner = open_storage(str(root))
    with pytest.raises(UnsupportedError, match="leads back to"):
        storage.list_files(inner, recursive=True)


@pytest.mark.parametrize("relative", [False, True])
def test_links_to_other_directories_are_followed(
    tmp_path: Path, relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = linked(tmp_path / "t", "p=3", "p=1")
    monkeypatch.chdir(tmp_path)
    storage, inner = open_storage("t" if relative else str(root))
    names = [file.path.removeprefix(f"{inner}/") for file in storage.list_files(inner, recursive=True)]
    assert names == ["p=1/a.parquet", "p=2/b.parquet", "p=3/a.parquet"]
    assert len(storage.glob(f"{inner}/**/*.parquet")) == 3
