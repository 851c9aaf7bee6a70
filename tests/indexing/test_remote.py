"""An index in a bucket: how many requests plans make, and builds where there are no locks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import bloomparquet as bp
from bloomparquet.indexing import build, commit, segment
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence import section_source
from bloomparquet.planning.index import lookup
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.storage.exact_reads import fill_views
from tests.support.files import write
from tests.support.s3 import S3Server

pytestmark = pytest.mark.slow

DIRECTORY = "_bloomparquet_index"


def text(number: int) -> str:
    """All row groups have about the same range, so that filters decide."""
    return f"{number * 7919 % 1_000_003:07}"


@pytest.fixture
def small(s3: S3Server, tmp_path: Path) -> str:
    """A directory in the bucket with three files of two row groups."""
    for i in range(3):
        texts = ["0", "9", text(i), "0", "9", text(i + 50)]
        write(tmp_path / "data" / f"{i}.parquet", {"x": texts}, ["x"], rows_per_group=3)
    s3.upload(tmp_path / "data", tmp_path.name)
    return tmp_path.name


def add_file(s3: S3Server, name: str, tmp_path: Path) -> None:
    write(tmp_path / "more" / "3.parquet", {"x": [text(3), "0", "9"]}, ["x"])
    s3.upload(tmp_path / "more", name)


class Planned:
    """A plan without caches of data files, and the requests that it made."""

    def __init__(self, s3: S3Server, path: str, where: str) -> None:
        dataset, before = Dataset.open(s3.url(path)), len(s3.requests)
        self.plan: ScanPlan = plan_dataset(dataset, where, PlanOptions(cache=PlanCache()))
        self.requests = s3.requests[before:]
        self.kept = [(group.path, group.index) for group in self.plan.kept_row_groups()]


def assert_whole(s3: S3Server, name: str, files: int) -> None:
    """Assert that the index covers all files, whatever this process remembers, and that it tells row groups apart."""
    lookup.forget_indexes()
    for i in range(files):
        planned = Planned(s3, name, f"x = '{text(i)}'")
        assert planned.plan.indexed == files
        assert planned.kept == [(f"bucket/{name}/{i}.parquet", 0)]
        assert not any(path.endswith(".parquet") for _, path in planned.requests)


def test_segments_are_read_side_by_side(s3: S3Server, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_ROW_GROUPS", 2)
    assert bp.build_index(s3.url(small)).segments == 3
    all_three = threading.Barrier(3)
    reads = []

    def together(file: Any, path: str, offsets: Any, views: Any, *, is_native: bool) -> None:
        reads.append(all_three.wait(timeout=60))
        fill_views(file, path, offsets, views, is_native=is_native)

    monkeypatch.setattr(section_source, "fill_views", together)
    planned = Planned(s3, small, f"x = '{text(1)}'")
    assert planned.kept == [(f"bucket/{small}/1.parquet", 0)]
    assert len(reads) == 9  # of each segment: its start, the column, and the filters
    assert planned.plan.requests == 2 + 3 + 9 <= len(planned.requests)  # few are repeated: exact_reads.py
    monkeypatch.undo()
    assert Planned(s3, small, f"x = '{text(1)}'").requests == []


CHANGES: dict[str, Callable[..., object]] = {"build": bp.build_index, "refresh": bp.refresh_index}


@pytest.mark.parametrize(
    ("first", "second"), [("build", "build"), ("build", "refresh"), ("refresh", "build"), ("refresh", "drop")]
)
def test_first_of_two_builds_wins(s3: S3Server, small: str, tmp_path: Path, first: str, second: str) -> None:
    """The build that began first ends last."""
    url = s3.url(small)
    bp.build_index(url)
    add_file(s3, small, tmp_path)

    def other(done: int, total: int) -> None:
        {**CHANGES, "drop": bp.drop_index}[second](url)

    with pytest.raises(bp.FileBusyError, match="another build, refresh or drop of this index has ended"):
        CHANGES[first](url, progress=other)
    if second == "drop":
        assert s3.names(f"{small}/{DIRECTORY}") == []
        bp.build_index(url)
    assert_whole(s3, small, 4)
    CHANGES[first](url)
    assert_whole(s3, small, 4)


def test_segments_of_running_builds_stay_and_old_ones_go(
    s3: S3Server, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, place = s3.url(small), f"bucket/{small}/{DIRECTORY}"
    bp.build_index(url)
    (first,) = [name for name in s3.names(f"{small}/{DIRECTORY}") if name.endswith(".segment")]
    with s3.filesystem.open_output_stream(f"{place}/_0123456789abcdef-01234567.segment") as out:
        out.write(b"not committed yet")
    bp.build_index(url)
    names = s3.names(f"{small}/{DIRECTORY}")
    assert len(names) == 4  # the index, the one before, and the other build's
    assert {first, "_0123456789abcdef-01234567.segment"} < set(names)
    monkeypatch.setattr(commit, "_ABANDONED_SECONDS", -3600.0)
    bp.build_index(url)
    names = s3.names(f"{small}/{DIRECTORY}")
    assert len(names) == 3
    assert not {first, "_0123456789abcdef-01234567.segment"} & set(names)
    assert_whole(s3, small, 3)


def test_failed_build_removes_its_segments_only(s3: S3Server, small: str) -> None:
    url = s3.url(small)
    bp.build_index(url)
    before = s3.names(f"{small}/{DIRECTORY}")

    def fail(done: int, total: int) -> None:
        assert len(s3.names(f"{small}/{DIRECTORY}")) == len(before) + 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.build_index(url, progress=fail)
    assert s3.names(f"{small}/{DIRECTORY}") == before
    assert_whole(s3, small, 3)


def test_a_refused_write_names_another_place(s3: S3Server, small: str) -> None:
    """The message is that of pyarrow's S3 file system."""

    def refuse(storage: Any, path: str, old: Any = None) -> Any:
        bucket, _, key = path.partition("/")
        raise OSError(
            f"When initiating multiple part upload for key '{key}' in bucket '{bucket}': AWS Error ACCESS_DENIED "
            "during CreateMultipartUpload operation: Access Denied"
        )

    error = pytest.raises(PermissionError, match=r"ACCESS_DENIED .* to=DIRECTORY in Python, --to")
    with patch.object(segment, "replacing", refuse), error as caught:
        bp.build_index(s3.url(small))
    assert caught.value.filename == f"bucket/{small}/{DIRECTORY}"
