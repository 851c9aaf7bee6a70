"""Listings of fsspec's file systems: a file that is there is listed, or the listing is an error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

import bloomparquet as bp
from tests.support.files import write


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


def in_its_directory(path: Path, *failing: str) -> tuple[str, Any]:
    return path.name, DirFileSystem(path=str(path.parent), fs=NetworkFileSystem(*failing))


WRAPS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "alone": lambda path, *failing: (path, NetworkFileSystem(*failing)),
    "in a directory": in_its_directory,
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("pattern", ["", "/*", "/*/*.parquet"])
def test_a_directory_that_cannot_be_listed_is_an_error(data: Path, wrap: str, pattern: str) -> None:
    path, filesystem = WRAPS[wrap](data, "p=2")
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
