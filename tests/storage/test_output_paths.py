"""Paths at which a file can be written, or not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.writing.retrofit.retrofit import add_filters
from tests.support.core import graft_filters
from tests.support.file_systems import names


@pytest.mark.parametrize("length", [234, 235, 254, 255])
def test_file_names_may_have_255_bytes(tmp_path: Path, parquet: Path, length: int) -> None:
    path = tmp_path / ("ä" * 20 + "x" * (length - 48) + ".parquet")
    assert len(path.name.encode()) == length
    parquet.rename(path)
    assert [outcome.action for outcome in bp.add_filters(path, bloom="a")] == ["added"]
    graft_filters(str(path), 1 << 15)
    assert [outcome.action for outcome in bp.shrink_filters(path)] == ["shrunk"]
    assert [name for name in os.listdir(tmp_path) if name != "data"] == [path.name]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        bp.write_table(pa.table({"id": [1]}), tmp_path / "no" / "a.parquet")
    assert caught.value.filename == str(tmp_path / "no")


def test_devices_and_pipes_are_not_replaced(tmp_path: Path, parquet: Path) -> None:
    pipe, link = tmp_path / "pipe.parquet", tmp_path / "link.parquet"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(bp.UnsupportedError, match="this is a device, a pipe or a socket"):
            bp.write_table(pa.table({"id": [1]}), path)
        with pytest.raises(bp.UnsupportedError, match="this is a device, a pipe or a socket"):
            add_filters(parquet, path, bloom="a")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert names(pipe) == ["data", "link.parquet", "pipe.parquet"]
