"""The warnings that plans log for an index that is missing, damaged or unreadable."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bloomparquet.planning.index import lookup
from bloomparquet.storage.files import Storage
from tests.support.index_lookups import BOTH, LOCAL, Clock, Looks, logged, put_index, replace_file

pytestmark = pytest.mark.usefixtures("clock")


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
    text: str,
    storage: Storage,
    tmp_path: Path,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = put_index(tmp_path / "_bloomparquet_index", "sound")
    looks, text = Looks(storage, f"{tmp_path}/"), text.format(directory=directory)

    def fail(*_: Any) -> Any:
        raise OSError(text)

    with monkeypatch.context() as patch:
        patch.setattr(lookup, "read_manifest", fail)
        for _ in range(2):
            assert looks.look() is None
            clock.now += 60
    whole = text if str(directory) in text else f"{directory}: {text}"
    assert logged(caplog) == [("WARNING", f"{whole}; plans do not use the index")]
    assert looks.name() == "sound"
