"""Storages list files and match globs alike, on local files and through pyarrow and fsspec."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import bloomparquet as bp
from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.storage.files import ArrowStorage, LocalStorage, Storage, is_hidden
from bloomparquet.storage.open import open_storage
from tests.support.files import write


@pytest.fixture
def tree(tmp_path: Path, memory: Any) -> Path:
    """A directory of local files, whose contents are their names; /top of fsspec's memory has the same."""
    files = ["a.parquet", "b[1].parquet", "sub/c.parquet", "sub/deep/d.parquet", "_temporary/e.parquet"]
    for path in [*files, "_SUCCESS", ".hidden", "_day=1/f.parquet"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
        memory.pipe(f"/top/{path}", path.encode())
    return tmp_path


def names(storage: Storage, root: str, **options: Any) -> list[str]:
    return [file.path.rpartition(root.strip("/"))[2].lstrip("/") for file in storage.list_files(root, **options)]


def test_listings_are_alike_on_every_storage(tree: Path) -> None:
    deep = ["_day=1/f.parquet", "a.parquet", "b[1].parquet", "sub/c.parquet", "sub/deep/d.parquet"]
    arrow = ArrowStorage(pyarrow.fs.LocalFileSystem(), "x")
    for storage, root in ((LocalStorage(), str(tree)), (arrow, str(tree)), open_storage("memory://top")):
        assert names(storage, root, recursive=True) == deep
        assert names(storage, root, recursive=False) == ["a.parquet", "b[1].parquet"]
        sizes = [file.size for file in storage.list_files(root, recursive=False)]
        assert sizes == [len("a.parquet"), len("b[1].parquet")]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.parquet", ["a.parquet", "b[1].parquet"]),
        ("?.parquet", ["a.parquet"]),
        ("[ab].parquet", ["a.parquet"]),
        ("b[[]1].parquet", ["b[1].parquet"]),
        ("sub/*.parquet", ["sub/c.parquet"]),
        ("*/*.parquet", ["_day=1/f.parquet", "_temporary/e.parquet", "sub/c.parquet"]),
        ("**/*.parquet", ["_day=1/f.parquet", "_temporary/e.parquet", "a.parquet", "b[1].parquet", "sub/c.parquet",
                          "sub/deep/d.parquet"]),
        ("sub?c.parquet", []),
        ("s*c.parquet", []),
        ("[!b]*.parquet", ["a.parquet"]),
        ("sub/**/d.parquet", ["sub/deep/d.parquet"]),
        ("nothing*", []),
    ],
)  # fmt: skip
def test_globs_match_alike_on_every_storage(pattern: str, expected: list[str], tree: Path) -> None:
    for (storage, inner), root in (
        (open_storage(f"{tree}/{pattern}"), tree),
        (open_storage(f"memory://top/{pattern}"), "top"),
    ):
        assert sorted(path.rpartition(f"{root}/")[2] for path in storage.glob(inner)) == expected, storage


def test_hidden_names_are_those_that_spark_hides() -> None:
    hidden = [name for name in ("_SUCCESS", ".crc", "_a=1", "a_", "a.b", "_", "=_") if is_hidden(name)]
    assert hidden == ["_SUCCESS", ".crc", "_"]


def test_file_urls_are_local_files(tmp_path: Path) -> None:
    odd = tmp_path / "a b%c=d.parquet"
    for url in (odd.as_uri(), str(odd), os.fspath(odd)):
        storage, inner = open_storage(url)
        assert (storage.key, inner) == ("file", str(odd))
    assert open_storage(f"file://{tmp_path}/*.parquet")[1] == f"{tmp_path}/*.parquet"
    assert open_storage(f"file:{tmp_path}/x")[1] == f"{tmp_path}/x"


def test_a_file_url_has_an_absolute_path(tmp_path: Path) -> None:
    for url in ("file://data/a.parquet", "file://~/a.parquet", "file://a.parquet"):
        with pytest.raises(OptionError, match=f"path is '{url}'; expected an absolute path in a URL: file:///…/"):
            open_storage(url)
    assert open_storage(f"file://localhost{tmp_path}/x")[1] == f"{tmp_path}/x"


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    bp.write_table(pa.table({"id": [1]}), "~/a.parquet", bloom=["id"])
    assert os.listdir(tmp_path) == ["a.parquet"]
    for path in ("~/a.parquet", Path("~/a.parquet"), "~", "~/*.parquet", ["~/a.parquet"]):
        assert bp.read_table(path, "id = 1").num_rows == 1, path
    assert open_storage("a~b/~")[1] == "a~b/~"


@pytest.mark.parametrize("pattern", ["*/*.parquet", "**/*.parquet", "*", "p=?/x.parquet"])
def test_a_glob_raises_for_a_directory_that_cannot_be_listed(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in (1, 2):
        (tmp_path / f"p={day}").mkdir()
        bp.write_table(pa.table({"id": [day]}), tmp_path / f"p={day}" / "x.parquet")
    where = f"{tmp_path}/{pattern}"
    assert bp.read_table(where).num_rows == 2
    forbidden, scandir = str(tmp_path / "p=2"), os.scandir

    def refuse(path: Any = ".") -> Any:
        if os.fspath(path).rstrip("/") == forbidden:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    if pattern == "p=?/x.parquet":  # names below the wildcard are looked up, not listed
        assert bp.read_table(where).num_rows == 2
    else:
        with pytest.raises(PermissionError, match="p=2"):
            bp.read_table(where)


def test_equal_file_systems_have_equal_keys(tmp_path: Path) -> None:
    other = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    assert open_storage("x", other)[0].key != open_storage("x")[0].key
    assert open_storage("memory://a")[0].key == open_storage("memory://b")[0].key
    assert open_storage("x", pyarrow.fs.LocalFileSystem())[0] is open_storage("y")[0]


def make_tree_with_link(root: Path, at: str, target: str) -> Path:
    """Write two files and a symbolic link below `root`."""
    for name in ("p=1/a.parquet", "p=2/b.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / at).symlink_to(target)
    return root


@pytest.mark.parametrize(("at", "target"), [("p=3", "."), ("p=1/q", ".."), ("p=3", "../.."), ("p=1/q", "../../../t/r")])
def test_a_link_to_its_own_parent_is_an_error_that_names_it(tmp_path: Path, at: str, target: str) -> None:
    """Spark's listing follows the link forty times, and reads every row as often."""
    root = make_tree_with_link(tmp_path / "t" / "r", at, target)
    storage, inner = open_storage(str(root))
    with pytest.raises(UnsupportedError, match=rf"{at}: this symbolic link points to {tmp_path}.*remove the link"):
        storage.list_files(inner, recursive=True)
    assert storage.list_files(inner, recursive=False) == []
    with pytest.raises(UnsupportedError, match="a directory that contains it"):
        storage.glob(f"{inner}/**/*.parquet")
    assert len(storage.glob(f"{inner}/p=[12]/*.parquet")) == 2


@pytest.mark.parametrize("relative", [False, True])
def test_links_to_other_directories_are_followed(
    tmp_path: Path, relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_tree_with_link(tmp_path / "t", "p=3", "p=1")
    monkeypatch.chdir(tmp_path)
    storage, inner = open_storage("t" if relative else str(root))
    names = [file.path.removeprefix(f"{inner}/") for file in storage.list_files(inner, recursive=True)]
    assert names == ["p=1/a.parquet", "p=2/b.parquet", "p=3/a.parquet"]
    assert len(storage.glob(f"{inner}/**/*.parquet")) == 3


def test_errors_of_libraries_below_fsspec_are_oserrors(tmp_path: Path) -> None:
    class Broken(MemoryFileSystem):  # type: ignore[misc]
        protocol = "broken"
        error: type[BaseException] = KeyError

        def info(self, path: str, **_: Any) -> Any:
            raise self.error("no such repository")

    for error, expected in ((KeyError, OSError), (PermissionError, PermissionError), (KeyboardInterrupt,) * 2):
        Broken.error = error
        with pytest.raises(expected, match="no such repository"):
            bp.plan("broken://a/x.parquet", filesystem=Broken())


class NetworkFileSystem(LocalFileSystem):  # type: ignore[misc]
    """Local files that are listed as over a network. The listings of the directories `failing` fail once each."""

    protocol = "network"
    cachable = False

    def __init__(self, *failing: str, error: type[OSError] = TimeoutError) -> None:
        super().__init__()
        self.failing, self.error = list(failing), error

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        name = str(path).rstrip("/").rpartition("/")[2]
        if name in self.failing:
            self.failing.remove(name)
            raise self.error(errno.EIO, "the listing failed", path)
        listed = super().ls(path, detail=True, **options)
        return list(map(self.shown, listed)) if detail else [info["name"] for info in listed]

    def shown(self, info: dict[str, Any]) -> dict[str, Any]:
        return info


class WithoutSizes(NetworkFileSystem):
    """Lists no sizes, as HTTPFileSystem does."""

    def shown(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, "size": None}


class WithLinks(NetworkFileSystem):
    """Does not follow symbolic links as it lists a directory, as SFTPFileSystem does."""

    def shown(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, "type": "link" if os.path.islink(info["name"]) else info["type"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number in (1, 2):
        write(tmp_path / "data" / f"p={number}" / "x.parquet", {"x": [number, 10 + number]}, ["x"])
    return tmp_path / "data"


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("pattern", ["", "/*", "/*/*.parquet"])
def test_a_directory_that_cannot_be_listed_is_an_error(data: Path, wrapped: bool, pattern: str) -> None:
    path, filesystem = (data.name if wrapped else data), NetworkFileSystem("p=2")
    if wrapped:
        filesystem = DirFileSystem(path=str(data.parent), fs=filesystem)
    with pytest.raises(TimeoutError, match="the listing failed"):
        bp.read_table(f"{path}{pattern}", "x = 12", filesystem=filesystem)
    assert bp.read_table(f"{path}{pattern}", "x = 12", filesystem=filesystem).num_rows == 1


def test_the_log_of_a_table_is_not_overlooked(tmp_path: Path) -> None:
    """The files may hold deleted rows."""
    write(tmp_path / "table" / "data" / "x.parquet", {"x": [1]}, ["x"])
    (tmp_path / "table" / "metadata").mkdir()
    (tmp_path / "table" / "metadata" / "v1.metadata.json").write_text("{}")
    for failing, error in (((), bp.UnsupportedError), (("metadata",), TimeoutError)):
        with pytest.raises(error):
            bp.read_table(tmp_path / "table" / "data", filesystem=NetworkFileSystem(*failing))


def test_a_hidden_directory_may_vanish(data: Path) -> None:
    (data / "_temporary").mkdir()
    filesystem = NetworkFileSystem("_temporary", error=FileNotFoundError)
    assert bp.read_table(data, "x < 100", filesystem=filesystem).num_rows == 4
    assert not filesystem.failing
    with pytest.raises(FileNotFoundError, match="the listing failed"):
        bp.read_table(data, filesystem=NetworkFileSystem("p=1", error=FileNotFoundError))


def test_sizes_that_a_listing_lacks_are_asked_for(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bp.read_table(data, "x = 12", filesystem=WithoutSizes()).num_rows == 1
    monkeypatch.setattr(WithoutSizes, "info", lambda self, path, **_: {**LocalFileSystem().info(path), "size": None})
    with pytest.raises(bp.UnsupportedError, match=r"x\.parquet: the file system reports no size"):
        bp.read_table(data, "x = 12", filesystem=WithoutSizes())


def test_links_are_followed_or_refused(data: Path) -> None:
    (data / "p=2" / "link.parquet").symlink_to(data / "p=1" / "x.parquet")
    for filesystem in (None, WithLinks()):
        assert bp.read_table(data, "x = 11", filesystem=filesystem)["p"].to_pylist() == [1, 2]
    (data / "p=3").symlink_to(data / "p=1")
    assert bp.read_table(data, "x = 11")["p"].to_pylist() == [1, 2, 3]
    with pytest.raises(bp.UnsupportedError, match="p=3: this symbolic link leads to a directory"):
        bp.read_table(data, "x = 11", filesystem=WithLinks())
