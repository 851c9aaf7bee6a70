"""Writes to object stores: staged, copied to their places, and nothing lost where that ends in its midst."""

from __future__ import annotations

from collections import Counter
from typing import Any

import fsspec
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from pyspark_bloomparquet import staging
from pyspark_bloomparquet.places import RemotePlaces
from tests.support import jobs


def die_at(patch: pytest.MonkeyPatch, number: int, error: type[BaseException]) -> None:
    """Let the call of this number that changes a file on an object store fail as a kill would."""
    calls: list[str] = []

    def dying(original: Any) -> Any:
        def call(self: RemotePlaces, *paths: str) -> None:
            calls.append(paths[0])
            if len(calls) == number:
                raise error
            original(self, *paths)

        return call

    for name in ("move", "remove"):
        patch.setattr(RemotePlaces, name, dying(getattr(RemotePlaces, name)))


class TestElsewhere:
    """An object store: fsspec's memory, in one process."""

    def table(self, name: str) -> str:
        return f"memory://{name}/t"

    def ids(self, url: str) -> Counter[int]:
        files = fsspec.filesystem("memory").find(url.removeprefix("memory:/"))
        found: Counter[int] = Counter()
        for file in files:
            if "/_" not in file and "/." not in file:
                with fsspec.filesystem("memory").open(file) as stream:
                    found.update(pq.ParquetFile(stream).read()["id"].to_pylist())
        return found

    def names(self, url: str) -> list[str]:
        return list(fsspec.filesystem("memory").find(url.removeprefix("memory:/")))

    def test_append_overwrite_and_abort(self) -> None:
        url = self.table("a")
        jobs.write(url, range(4), partitionBy="day", bloomColumns="id")
        jobs.write(url, range(4, 6))
        assert self.ids(url) == Counter(range(6))
        assert {name.split("/")[-2] for name in self.names(url) if name.endswith("parquet")} == {"day=d0", "day=d1"}
        before = self.names(url)
        writer = jobs.begin(url, overwrite=True, partitionBy="day")
        jobs.stage(writer, [9])
        assert self.ids(url) == Counter(range(6))
        writer.abort([])
        assert self.names(url) == before
        jobs.write(url, [7], overwrite=True)
        assert self.ids(url) == Counter([7])
        assert [name.split("/")[-1][:4] for name in self.names(url)] == ["_SUC", "part"]

    def test_a_commit_that_fails_before_anything_old_is_gone_is_undone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        url = self.table("b")
        jobs.write(url, range(4), partitionBy="day")
        writer = jobs.begin(url, overwrite=True, partitionBy="day")
        staged = jobs.stage(writer, [7, 8])
        calls: list[str] = []
        move = RemotePlaces.move

        def failing(self: RemotePlaces, source: str, target: str) -> None:
            calls.append(target)
            if len(calls) == 2:
                raise OSError("the network is gone")
            move(self, source, target)

        monkeypatch.setattr(RemotePlaces, "move", failing)
        with pytest.raises(OSError, match="the network is gone"):
            writer.commit([staged])
        writer.abort([staged])
        assert self.ids(url) == Counter(range(4))
        assert not [name for name in self.names(url) if "temporary" in name]

    def test_a_commit_that_ends_in_its_midst_is_completed_by_the_next_write(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Killed(BaseException):
            pass

        for at in range(1, 7):
            url = self.table(f"c{at}")
            jobs.write(url, range(4), partitionBy="day")
            writer = jobs.begin(url, overwrite=True, partitionBy="day")
            staged = jobs.stage(writer, [7, 8])
            with monkeypatch.context() as patch:
                die_at(patch, at, Killed)
                with pytest.raises(Killed):
                    writer.commit([staged])
            seen = self.ids(url)
            assert seen >= Counter(range(4)) or seen >= Counter([7, 8])
            with monkeypatch.context() as patch:
                patch.setattr(staging, "_is_over", lambda *_: True)
                jobs.begin(url, partitionBy="day").abort([])
            assert self.ids(url) == Counter([7, 8]), at
            assert not [name for name in self.names(url) if "temporary" in name]


def test_s3_by_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """An S3 server on loopback, as tasks reach it: by nothing but the table's URL."""
    from pyarrow.fs import S3FileSystem

    moto_server = pytest.importorskip("moto.server")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        s3 = S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        s3.create_dir("written")
        url = f"s3://written/t?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        jobs.write(url, range(4), partitionBy="day", bloomColumns="id")
        jobs.write(url, [4, 5])
        assert sorted(bp.read_table(url)["id"].to_pylist()) == [0, 1, 2, 3, 4, 5]
        jobs.write(url, [6], overwrite=True, partitionBy="day")
        assert bp.read_table(url).to_pydict() == {"id": [6], "day": ["d0"]}
        found = s3.get_file_info(pyarrow.fs.FileSelector("written", recursive=True))
        assert sorted(info.base_name[:5] for info in found if info.is_file) == ["_SUCC", "part-"]
        assert not [info.path for info in found if "temporary" in info.path]
    finally:
        server.stop()
