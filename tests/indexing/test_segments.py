"""The segments of an index that was found: which are opened, how they are read, and what is counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bloomparquet.storage.files import ReadCount
from tests.support.index_lookups import LOCAL, REMOTE, Looks, logged, put_index, replace_file

pytestmark = pytest.mark.usefixtures("clock")


def test_segments_that_cannot_be_used_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = put_index(tmp_path / "_bloomparquet_index", segments=4)
    index = Looks(LOCAL, f"{tmp_path}/").look()
    assert index is not None
    replace_file(directory / "0.segment", b"x" * index.manifest.segments[0].bytes)
    os.truncate(directory / "2.segment", 1000)
    (directory / "3.segment").unlink()
    assert [segment.path for segment in index.open_segments(ReadCount())] == [str(directory / "1.segment")]
    ending = "; the files of this part of the index are read without it"
    size = index.manifest.segments[2].bytes
    assert logged(caplog) == [
        ("WARNING", f"{directory}/0.segment: not a file of this version{ending}"),
        ("WARNING", f"{directory}/2.segment: it has 1000 bytes; expected {size}{ending}"),
        ("WARNING", f"[Errno 2] No such file or directory: '{directory}/3.segment'{ending}"),
    ]


def test_reads_of_segments_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also those of segments that turn out to be damaged. One read gives what a manifest says of a segment's start."""
    directory = put_index(tmp_path / "_bloomparquet_index", segments=3)
    index = Looks(REMOTE, f"{tmp_path}/").look()
    assert index is not None
    starts = [entry.start_bytes for entry in index.manifest.segments]
    assert all(0 < entry.start_bytes < entry.bytes for entry in index.manifest.segments)
    replace_file(directory / "2.segment", b"x" * index.manifest.segments[2].bytes)
    reads = ReadCount(5, 7)
    segments = index.open_segments(reads)
    assert [segment.path for segment in segments] == [f"{directory}/{number}.segment" for number in range(2)]
    assert (reads.requests, reads.bytes) == (5 + 3 * 2, 7 + sum(starts))
    assert len(logged(caplog)) == 1
    assert segments[0].section("more")[""].tolist() == list(range(9))
