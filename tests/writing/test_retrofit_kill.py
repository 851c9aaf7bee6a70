"""A killed process leaves the complete old or new file, and the next run removes leftovers."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.core import graft_filters
from tests.support.kill import every_point, killed_at

add = partial(add_filters, bloom=["a", "b"])


def write(path: Path, rows: int) -> str:
    pq.write_table(
        pa.table({"a": np.arange(rows), "b": [f"text {i}" for i in range(rows)]}), path, row_group_size=rows // 2,
        write_page_index=True,
    )  # fmt: skip
    return graft_filters(str(path), 1 << 18)


def before_and_after(path: str, change: Any) -> tuple[bytes, bytes]:
    old = Path(path).read_bytes()
    change(path)
    new = Path(path).read_bytes()
    Path(path).write_bytes(old)
    assert new != old
    return old, new


def assert_old_or_new(path: str, old: bytes, new: bytes, change: Any) -> bool:
    """Assert that the file is the old or the new one, and that another run makes it the new one and leaves no other
    file. Returns whether it was the old one."""
    content = Path(path).read_bytes()
    assert content in (old, new), "the file is neither the old nor the new one"
    change(path)
    assert Path(path).read_bytes() == new
    assert os.listdir(Path(path).parent) == [Path(path).name]
    Path(path).write_bytes(old)
    return content == old


@pytest.mark.parametrize("change", [add, shrink_filters], ids=["add", "shrink"])
def test_killed_at_every_system_call(tmp_path: Path, change: Any) -> None:
    path = write(tmp_path / "a.parquet", 400)
    old, new = before_and_after(path, change)
    points = list(every_point(change, path))
    Path(path).write_bytes(old)
    assert len(points) >= 10
    was_old = []
    for point in points:
        killed_at(point, change, path)
        was_old.append(assert_old_or_new(path, old, new, change))
    assert {True, False} <= set(was_old), "it was always the same file"
    assert was_old == sorted(was_old, reverse=True)


def test_killed_at_every_system_call_of_a_copy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 400)
    old, target = Path(path).read_bytes(), Path(path + ".new")
    points = list(every_point(add, path, str(target)))
    new = target.read_bytes()
    for point in points:
        target.unlink(missing_ok=True)
        killed_at(point, add, path, str(target))
        assert not target.exists() or target.read_bytes() == new
        add(path, target)
        assert target.read_bytes() == new
        assert Path(path).read_bytes() == old
        assert sorted(os.listdir(tmp_path)) == ["a.parquet", "a.parquet.new"]
