"""Plans find an index, and believe it for some time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bloomparquet.planning.index import lookup
from bloomparquet.storage.files import ArrowStorage, ReadCount, Storage
from tests.support.index_lookups import BOTH, LOCAL, REMOTE, ROOTED, Clock, Looks, put_index, replace_file

pytestmark = pytest.mark.usefixtures("clock")


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
    assert looks.reads.requests == 1
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
