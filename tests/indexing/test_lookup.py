"""Plans find an index, believe it for some time, open its segments, and warn of what is missing or damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.fs
import pytest

from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import serialise
from bloomparquet.planning.index import lookup
from bloomparquet.planning.index.lookup import OpenIndex, find_index, forget_indexes
from bloomparquet.planning.index.manifest import WRITER, Manifest, SegmentEntry
from bloomparquet.storage.files import ArrowStorage, LocalStorage, ReadCount, Storage

pytestmark = pytest.mark.usefixtures("clock")

LOCAL = LocalStorage()
ROOTED = pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs.LocalFileSystem())
REMOTE = ArrowStorage(ROOTED, "s3://bucket", ("s3://bucket", "credentials"))
"""Local files that count as remote: only the type of a storage says what it is."""
BOTH = pytest.mark.parametrize("storage", [LOCAL, REMOTE], ids=["local", "remote"])


class Clock:
    """A stand-in for the module `time`. It stands still unless `now` is set."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of looks for an index. No index is remembered before the test and after it."""
    forget_indexes()
    clock = Clock()
    monkeypatch.setattr(lookup, "time", clock)
    yield clock
    forget_indexes()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: the old one may be mapped."""
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


def put_index(directory: Path, name: str = "", *, root: str | None = None, segments: int = 0) -> Path:
    """Write an index with a column `name`, and return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    entries = []
    for number in range(segments):
        made = serialise({"numbers": {"": np.arange(100)}, "more": {"": np.arange(9)}}, WRITER)
        replace_file(directory / f"{number}.segment", b"".join(made.pieces))
        entries.append(SegmentEntry(f"{number}.segment", made.size, 1, 1, made.start_bytes))
    manifest = Manifest(FileFormat.PARQUET, root, {name: {}}, tuple(entries))
    replace_file(directory / "_manifest.json", manifest.to_bytes())
    return directory


class Looks:
    """Looks for one index. `reads` are those of all looks."""

    def __init__(self, storage: Storage, root: str, location: str | Path = "auto") -> None:
        self._asked = storage, root, str(location)
        self.reads = ReadCount()

    def look(self) -> OpenIndex | None:
        return find_index(*self._asked, self.reads)

    def name(self) -> str | None:
        """The column of the index that a look finds."""
        index = self.look()
        return None if index is None else "".join(index.manifest.columns)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The level and the message of each log entry since the last call."""
    assert {record.name for record in caplog.records} <= {"bloomparquet.index"}
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return messages


# ---- where an index is ----


@BOTH
def test_location_says_which_index_is_used(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = f"{tmp_path}/data/"
    put_index(tmp_path / "data" / "_bloomparquet_index", "beside")
    put_index(tmp_path / "other", "other", root=root)
    for word in ("off", "auto", "AUTO"):  # directories with these names are not meant
        put_index(tmp_path / word, word, root=root)
    beside, other, off = (Looks(storage, root, location) for location in ("auto", "other", "off"))
    assert (beside.name(), other.name(), off.name()) == ("beside", "other", None)
    assert off.reads == ReadCount()
    for looks, kind, directory in ((beside, storage, f"{root}_bloomparquet_index"), (other, LOCAL, "other")):
        index = looks.look()
        assert index is not None
        assert (type(index.storage), index.directory, index.root) == (type(kind), directory, root)
    put_index(tmp_path / "INDEX", root=root)
    for name in ("other", "INDEX"):
        for slashes in ("", "/", "//"):
            index = Looks(storage, root, f"{tmp_path}/{name}{slashes}").look()
            assert index is not None
            assert index.directory == f"{tmp_path}/{name}"


@pytest.mark.parametrize(
    ("location", "key", "expected"),
    [
        ("s3://bucket/index", "s3://bucket", "bucket/index"),
        ("s3a://user:word@bucket/a/b%20c", "s3://bucket?region=x?y", "bucket/a/b c"),
        ("s3://bucket", "s3://bucket", "bucket"),
        ("gs://bucket/a@b", "gs://bucket", "bucket/a@b"),
        ("hdfs://node:9000/index", "hdfs://node:9000", "/index"),
        ("s3://bucket/index?region=eu", "s3://bucket", None),  # options of its own
        ("s3://other/index", "s3://bucket", None),
        ("memory://bucket/index", "memory://bucket", None),
        ("/bucket/index", "s3://bucket", None),
    ],
)
def test_an_index_in_the_bucket_of_the_data_has_its_options(
    location: str, key: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ArrowStorage(ROOTED, key)
    opened: list[str] = []
    monkeypatch.setattr(lookup, "open_storage", lambda location: opened.append(location) or (REMOTE, "elsewhere"))
    if expected is None:
        assert lookup.open_directory(location, data) == (REMOTE, "elsewhere")
        assert opened == [location]
    else:
        assert lookup.open_directory(location, data) == (data, expected)
        assert not opened


@pytest.mark.parametrize(
    ("covered", "root", "expected"),
    [
        # The directory of the data, as the index names it, and as a plan does; and how the paths of its files begin.
        ("CWD/data/", "CWD/data/", "CWD/data/"),
        ("CWD/data", "CWD/data/p=1/q=2/", "CWD/data/"),
        ("data/", "data/p=1/", "data/"),
        ("data/", "./data/p=1/", "./data/"),
        ("data/", "CWD/data/p=1/", "CWD/data/"),
        ("CWD/data/", "data/p=1/", "data/"),
        ("CWD/data/", "CWD/data/p=1/../q=2/", "CWD/data/p=1/../"),
        ("./", "", ""),
        ("/", "data/", "/"),
        (None, "CWD/", "CWD/"),
        (None, "CWD/data/p=1/", "CWD/"),
        ("CWD/data/", "CWD/data2/", None),
        ("CWD/data/p=1/", "CWD/data/", None),
        ("CWD/data/", "CWD/other/data/", None),
    ],
)
def test_an_index_serves_the_directories_below_its_root(
    covered: str | None, root: str, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index without a root has its parent directory."""
    monkeypatch.chdir(tmp_path)
    covered, root, expected = (each and each.replace("CWD", str(tmp_path)) for each in (covered, root, expected))
    put_index(tmp_path / "index", root=covered)
    index = Looks(LOCAL, root, f"{tmp_path}/index").look()
    assert (index and index.root) == expected


@pytest.mark.parametrize(
    ("covered", "root", "expected"),
    [
        ("bucket/./data/", "bucket/./data/p=1/", "bucket/./data/"),
        ("bucket/data/", "bucket/data2/", None),
        ("bucket/./data/", "bucket/data/", None),
    ],
)
def test_names_of_remote_directories_are_compared_as_they_are(
    covered: str, root: str, expected: str | None, tmp_path: Path
) -> None:
    put_index(tmp_path / "index", root=covered)
    index = Looks(REMOTE, root, f"{tmp_path}/index").look()
    assert (index and index.root) == expected


# ---- how long it is believed ----


def test_a_local_index_is_looked_at_by_each_plan_and_read_once(tmp_path: Path) -> None:
    looks = Looks(LOCAL, f"{tmp_path}/")
    assert looks.name() is None
    put_index(tmp_path / "_bloomparquet_index", "first", segments=2)
    first = looks.look()
    assert first is not None
    assert looks.look() is first
    assert looks.reads.requests == 1
    put_index(tmp_path / "_bloomparquet_index", "second", segments=2)
    assert looks.name() == "second"
    shutil.rmtree(tmp_path / "_bloomparquet_index")
    assert looks.name() is None


def test_a_local_index_is_opened_again_when_a_segment_changed(tmp_path: Path) -> None:
    """To read a map of a segment that became shorter would kill the process."""
    directory = put_index(tmp_path / "_bloomparquet_index", segments=2)
    looks, segment = Looks(LOCAL, f"{tmp_path}/"), directory / "1.segment"
    whole, states = segment.read_bytes(), [looks.look()]
    steps: list[Any] = [
        lambda: os.truncate(segment, 1000),
        segment.unlink,
        lambda: segment.write_bytes(whole),
        lambda: replace_file(segment, whole),
    ]
    for step in steps:
        assert looks.look() is states[-1]
        step()
        states.append(looks.look())
    assert None not in states
    assert len(set(map(id, states))) == len(states)


def test_a_remote_index_is_looked_at_once_a_minute(tmp_path: Path, clock: Clock) -> None:
    directory = put_index(tmp_path / "_bloomparquet_index", "first")
    looks = Looks(REMOTE, f"{tmp_path}/")
    first = looks.look()
    assert (looks.name(), looks.reads.requests) == ("first", 2)
    put_index(directory, "second")
    clock.now += 59.9
    assert looks.look() is first
    clock.now += 0.1
    second = looks.look()
    assert (looks.name(), looks.reads.requests) == ("second", 4)
    clock.now += 60
    assert looks.look() is second
    assert looks.reads.requests == 6  # it was read, and is the same
    (directory / "_manifest.json").unlink()
    clock.now += 60
    assert looks.look() is None
    assert looks.reads.requests == 7
    put_index(directory, "third")
    clock.now += 59.9
    assert looks.look() is None
    assert looks.reads.requests == 7


def test_each_storage_and_directory_has_an_index_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put_index(tmp_path / name / "_bloomparquet_index", name)
        put_index(tmp_path / "to" / name, f"to {name}", root=f"{tmp_path}/")
    others = ArrowStorage(ROOTED, REMOTE.key, ("s3://bucket", "other credentials"))
    looks = {name: Looks(REMOTE, f"{tmp_path}/{name}/") for name in ("a", "b")}
    for _ in range(2):
        assert {name: each.name() for name, each in looks.items()} == {"a": "a", "b": "b"}
    put_index(tmp_path / "a" / "_bloomparquet_index", "new")
    assert looks["a"].name() == "a"
    assert Looks(others, f"{tmp_path}/a/").name() == "new"  # what other credentials may read is not known
    assert Looks(LOCAL, f"{tmp_path}/a/").name() == "new"
    for name in ("a", "b"):
        index = Looks(LOCAL, f"{tmp_path}/{name}/", tmp_path / "to" / "a").look()
        assert index is not None
        assert index.root == f"{tmp_path}/"


@pytest.mark.parametrize("read_bytes", [0, 1 << 20], ids=["mapped", "open"])
def test_segments_that_cannot_be_used_are_left_out(
    read_bytes: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_READ_BYTES", read_bytes)
    directory = put_index(tmp_path / "_bloomparquet_index", segments=5)
    index = Looks(LOCAL, f"{tmp_path}/").look()
    assert index is not None
    replace_file(directory / "0.segment", b"x" * index.manifest.segments[0].bytes)
    os.truncate(directory / "2.segment", 1000)
    (directory / "3.segment").unlink()
    os.truncate(directory / "4.segment", 0)
    assert [segment.path for segment in index.open_segments(ReadCount())] == [str(directory / "1.segment")]
    ending = "; the files of this part of the index are read without it"
    size = index.manifest.segments[2].bytes
    assert logged(caplog) == [
        ("WARNING", f"{directory}/0.segment: not a file of this version{ending}"),
        ("WARNING", f"{directory}/2.segment: it has 1000 bytes; expected {size}{ending}"),
        ("WARNING", f"[Errno 2] No such file or directory: '{directory}/3.segment'{ending}"),
        ("WARNING", f"{directory}/4.segment: not a file of sections{ending}"),
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


def missing(storage: Storage, root: Path, directory: str | Path) -> tuple[str, str]:
    """The warning of an index that is not in the local `directory`, for data at `root` of `storage`."""
    data = f"{root}/" if storage is LOCAL else f"s3://{root}/"
    text = "there is no index here, so plans use none; correct index= (--index on the command line), or build it there"
    return "WARNING", f"{directory}: {text}: bloomparquet index build {data} --to {directory}"


@BOTH
def test_a_missing_index_is_a_warning_only_if_it_was_named(
    storage: Storage, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    named, beside = Looks(storage, f"{tmp_path}/", f"{tmp_path}/to"), Looks(storage, f"{tmp_path}/")
    warning = missing(storage, tmp_path, f"{tmp_path}/to")
    for _ in range(2):
        assert named.look() is beside.look() is None
        clock.now += 60
    assert logged(caplog) == [warning]
    for directory in ("to", "_bloomparquet_index"):
        put_index(tmp_path / directory, root=f"{tmp_path}/")
    assert named.name() == beside.name() == ""
    assert logged(caplog) == []
    for directory in ("to", "_bloomparquet_index"):
        shutil.rmtree(tmp_path / directory)
    clock.now += 60
    for _ in range(2):
        assert named.look() is beside.look() is None
        clock.now += 60
    assert logged(caplog) == [warning]


@BOTH
def test_a_damaged_manifest_is_read_and_logged_once(
    storage: Storage, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = put_index(tmp_path / "_bloomparquet_index", "sound")
    manifest = directory / "_manifest.json"
    sound = manifest.read_bytes()
    looks = Looks(storage, f"{tmp_path}/")
    messages = []
    for damage in (b"{}", b"[1]"):
        replace_file(manifest, damage)
        before = looks.reads.requests
        for _ in range(3):
            assert looks.look() is None
            clock.now += 60
        assert looks.reads.requests - before == (1 if storage is LOCAL else 6)
        ((level, message),) = logged(caplog)
        assert level == "WARNING"
        assert message.startswith(f"{manifest}: ")
        assert message.endswith("; plans do not use the index")
        messages.append(message)
    assert messages[0] != messages[1]
    replace_file(manifest, sound)
    assert looks.name() == "sound"
    assert logged(caplog) == []


@BOTH
@pytest.mark.parametrize("text", ["it failed", "{directory}/_manifest.json failed"])
def test_an_index_that_could_not_be_read_is_read_by_a_later_plan(
    text: str, storage: Storage, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = put_index(tmp_path / "_bloomparquet_index", "sound")
    looks, text = Looks(storage, f"{tmp_path}/"), text.format(directory=directory)
    with patch.object(lookup, "read_manifest", side_effect=OSError(text)):
        for _ in range(2):
            assert looks.look() is None
            clock.now += 60
    whole = text if str(directory) in text else f"{directory}: {text}"
    assert logged(caplog) == [("WARNING", f"{whole}; plans do not use the index")]
    assert looks.name() == "sound"
