"""Adding filters to remote objects: the new object is uploaded completely, then copied over the old one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.storage.atomic import replacing, temporary_name
from bloomparquet.storage.open import open_storage
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.core import graft_filters
from tests.support.layout import assert_only_filters_changed
from tests.support.stored import assert_filters_hold_all

pytestmark = pytest.mark.slow

TABLE = pa.table({"a": np.arange(2_000), "b": [f"text {i}" for i in range(2_000)]})


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("made") / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=500, write_page_index=True)
    return Path(graft_filters(str(path), 1 << 15)).read_bytes()


class RemoteDirectory:
    """A directory on a storage."""

    def __init__(self, url_of: Any, arrow: pyarrow.fs.FileSystem, root: str) -> None:
        self.url, self.arrow, self.root = url_of, arrow, root

    def put(self, name: str, data: bytes) -> None:
        with self.arrow.open_output_stream(f"{self.root}/{name}") as out:
            out.write(data)

    def get(self, name: str) -> bytes:
        with self.arrow.open_input_file(f"{self.root}/{name}") as file:
            return bytes(file.read())

    def names(self) -> list[str]:
        listed = self.arrow.get_file_info(pyarrow.fs.FileSelector(self.root, recursive=True))
        below = len(self.root.strip("/")) + 1
        return sorted(each.path.strip("/")[below:] for each in listed if each.is_file)


@pytest.fixture(params=["memory", "s3"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RemoteDirectory]:
    root = tmp_path.name
    if request.param == "memory":
        memory = fsspec.filesystem("memory")
        arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(memory))
        yield RemoteDirectory(lambda name: f"memory://{root}/{name}", arrow, f"/{root}")
        memory.rm(f"/{root}", recursive=True)
    else:
        server = request.getfixturevalue("s3")
        yield RemoteDirectory(lambda name: server.url(f"{root}/{name}"), server.filesystem, f"bucket/{root}")


def local(tmp_path: Path, name: str, data: bytes) -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


def test_adding_and_shrinking_replace_the_object(remote: RemoteDirectory, content: bytes, tmp_path: Path) -> None:
    remote.put("a.parquet", content)
    (outcome,) = add_filters(remote.url("a.parquet"), bloom="b")
    assert outcome.action == "added"
    before, after = local(tmp_path, "before", content), local(tmp_path, "after", remote.get("a.parquet"))
    assert_only_filters_changed(before, after)
    assert set(assert_filters_hold_all(after)) == {(i, j) for i in range(4) for j in range(2)}
    assert remote.names() == ["a.parquet"]
    assert add_filters(remote.url("a.parquet"), bloom="b")[0].action == "unchanged"
    assert bp.read_table(remote.url("a.parquet"), "b = 'text 77'")["a"].to_pylist() == [77]
    (outcome,) = shrink_filters(remote.url("a.parquet"))
    after = local(tmp_path, "after", remote.get("a.parquet"))
    assert Path(after).stat().st_size == outcome.bytes_after < len(content) - 3 * (1 << 15)
    assert_filters_hold_all(after, {0, 1})
    assert remote.names() == ["a.parquet"]


def test_copies_within_and_between_storages(remote: RemoteDirectory, content: bytes, tmp_path: Path) -> None:
    remote.put("in/day=0/a.parquet", content)
    remote.put("in/day=1/b.parquet", content)
    add_filters(remote.url("in"), remote.url("out"), bloom="b")
    assert remote.names() == ["in/day=0/a.parquet", "in/day=1/b.parquet", "out/day=0/a.parquet", "out/day=1/b.parquet"]
    assert remote.get("in/day=0/a.parquet") == content
    expected = remote.get("out/day=0/a.parquet")
    assert_filters_hold_all(local(tmp_path, "a", expected), {0, 1})
    if "memory" in remote.url(""):
        add_filters(remote.url("in/day=0/a.parquet"), remote.url("one.parquet"), bloom="b")
        assert remote.get("one.parquet") == expected


def test_leftover_upload_is_removed_by_the_next_run(remote: RemoteDirectory, content: bytes) -> None:
    remote.put("a.parquet", content)
    remote.put(temporary_name("a.parquet"), b"half")
    assert bp.plan(remote.url("")).total == 4
    assert add_filters(remote.url("a.parquet"), bloom="a")[0].action == "unchanged"
    assert remote.names() == ["a.parquet"]
    remote.put(temporary_name("a.parquet"), b"half")
    add_filters(remote.url("a.parquet"), bloom="b")
    assert remote.names() == ["a.parquet"]


@pytest.mark.parametrize("call", ["write", "close", "copy_file", "delete_file"])
def test_failed_upload_leaves_the_old_or_the_new_object(
    remote: RemoteDirectory, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    remote.put("a.parquet", content)
    storage, _ = open_storage(remote.url("a.parquet"))
    failing = Failing(storage.filesystem, call)
    monkeypatch.setattr("bloomparquet.planning.dataset.open_storage", _with(failing))
    monkeypatch.setattr("bloomparquet.writing.retrofit.retrofit.open_storage", _with(failing))
    is_complete = call == "delete_file"
    if is_complete:
        with pytest.warns(UserWarning, match=r"the temporary file .* could not be deleted: .*no network"):
            assert add_filters(remote.url("a.parquet"), bloom="b")[0].action == "added"
    else:
        with pytest.raises(OSError, match="no network"):
            add_filters(remote.url("a.parquet"), bloom="b")
    monkeypatch.undo()
    assert (remote.get("a.parquet") != content) is is_complete
    (outcome,) = add_filters(remote.url("a.parquet"), bloom="b")
    assert outcome.action == ("unchanged" if is_complete else "added")
    assert remote.names() == ["a.parquet"]
    assert_filters_hold_all(local(tmp_path, "after", remote.get("a.parquet")), {0, 1})


def _with(arrow: Any) -> Any:
    def open_other(path: str, filesystem: Any = None) -> Any:
        storage, inner = open_storage(path, filesystem)
        storage.filesystem = arrow
        return storage, inner

    return open_other


class Failing:
    """A file system on which one call fails."""

    def __init__(self, arrow: Any, call: str) -> None:
        self._arrow, self._call = arrow, call

    def __getattr__(self, name: str) -> Any:
        if name == "handler":
            raise AttributeError(name)
        return _fail if name == self._call else getattr(self._arrow, name)

    def open_output_stream(self, path: str) -> Any:
        return _FailingStream(self._arrow.open_output_stream(path), self._call)


class _FailingStream:
    def __init__(self, stream: Any, call: str) -> None:
        self._stream, self._call, self._closes = stream, call, 0

    def write(self, data: Any) -> None:
        if self._call == "write" and len(data) < 100_000:
            _fail()
        self._stream.write(data)

    def close(self) -> None:
        self._closes += 1
        if self._call == "close" and self._closes == 1:
            _fail()
        self._stream.close()


def _fail(*_: Any) -> None:
    raise OSError("no network")


def test_object_that_changed_meanwhile_is_left_alone(
    remote: RemoteDirectory, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.put("a.parquet", content)
    storage, _ = open_storage(remote.url("a.parquet"))

    class Changing(Failing):
        def open_output_stream(self, path: str) -> Any:
            remote.put("a.parquet", content + b"more")
            return self._arrow.open_output_stream(path)

    monkeypatch.setattr("bloomparquet.planning.dataset.open_storage", _with(Changing(storage.filesystem, "")))
    with pytest.raises(bp.BloomParquetError, match="changed while it was"):
        add_filters(remote.url("a.parquet"), bloom="b")
    assert remote.get("a.parquet") == content + b"more"
    assert remote.names() == ["a.parquet"]


def test_foreign_object_at_the_hidden_name_is_not_used(remote: RemoteDirectory, content: bytes) -> None:
    remote.put("a.parquet", content)
    storage, inner = open_storage(remote.url("a.parquet"))
    for theirs in (b"B" * 500, b"B" * 1_000):
        with replacing(storage, inner) as output:
            output.write(b"A" * 1_000)
            output._stream.close()  # type: ignore[attr-defined]
            remote.put(temporary_name("a.parquet"), theirs)
            with pytest.raises(bp.BloomParquetError, match="another process is writing this file"):
                output.commit()
        assert remote.get("a.parquet") == content
