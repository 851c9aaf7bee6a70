"""What the last release has written is read, or refused as docs/upgrades.md says; an index can be rolled back.

``last`` has the files of the last release; :mod:`tests.upgrades.make` writes them.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.index import manifest
from bloomparquet.planning.index.lookup import forget_indexes
from pyspark_bloomparquet.jar.protocol import VERSION as PROTOCOL
from tests.support.disk_cache import cache_files, cache_in, restart, summary, uncached
from tests.support.index import plan_by
from tests.support.planner_process import request_of, started
from tests.upgrades.make import LAST, QUERY, build_indexes, restore_times, storage

WHERES = [
    "id = 103",
    "id IN (3, 50, 1000)",
    "name = 'User 60'",
    "id < 30 AND name > 'User 2'",
    "id = 7 OR name IS NULL",
]
KINDS = {"parquet": 3, "orc": 1}
"""The data sets, and their numbers of files."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(LAST, tmp_path, dirs_exist_ok=True)
    restore_times(tmp_path)
    forget_indexes()
    return tmp_path


def version_of(index: Path) -> int:
    return int(json.loads((index / "_manifest.json").read_text())["version"])


def set_version(index: Path, version: int) -> None:
    """Write the manifest as the release of that version would, with a right checksum."""
    path = index / "_manifest.json"
    content = {**json.loads(path.read_text()), "version": version}
    del content["checksum"]
    path.write_text(json.dumps({"checksum": manifest._digest(content), **content}))


def assert_right(root: Path, kind: str, *, indexed: int) -> None:
    """Plans with the index equal those without it, and rows are right."""
    options: dict[str, Any] = {"filesystem": storage(root)}
    data = bp.Dataset.open(kind, **options)
    index = str(root / f"{kind}-index")
    rows = bp.read_table(data, index="off").to_pylist()
    for where in WHERES:
        plan = plan_by(index, data, where)
        assert (plan.indexed, plan.row_groups) == (indexed, plan_by("off", data, where).row_groups), where
    row = rows[-1]
    assert bp.read_table(data, f"id = {row['id']}", index=index).to_pylist() == [row]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_the_last_release_is_used_or_refused(
    root: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_read = version_of(root / f"{kind}-index") == manifest.VERSION
    with caplog.at_level(logging.WARNING, "bloomparquet"):
        assert_right(root, kind, indexed=KINDS[kind] if is_read else 0)
    assert len(caplog.messages) == (0 if is_read else 1)
    if is_read and kind == "parquet":
        where = "lower(name) = 'user 60'"
        data = bp.Dataset.open(kind, filesystem=storage(root))
        assert plan_by(str(root / f"{kind}-index"), data, where).skipped["bloom"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_a_later_release_is_refused_and_can_be_replaced(
    root: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    index = root / f"{kind}-index"
    set_version(index, manifest.VERSION + 1)
    with caplog.at_level(logging.WARNING, "bloomparquet"):
        assert_right(root, kind, indexed=0)
    (message,) = caplog.messages
    assert f"the index has version {manifest.VERSION + 1}; this release reads version {manifest.VERSION}" in message
    assert message.endswith("plans do not use the index")
    with pytest.raises(BloomParquetError, match="build the index again"):
        bp.refresh_index(kind, index, filesystem=storage(root))
    build_indexes(root, root)
    assert_right(root, kind, indexed=KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_release_reads_an_index_of_this_one(root: Path, kind: str, tmp_path: Path) -> None:
    """Their segments are equal. If not, the format has changed: raise ``VERSION`` in ``planning/index/manifest.py``."""
    if version_of(LAST / f"{kind}-index") != manifest.VERSION:
        pytest.skip("the last release refuses it by its version")
    build_indexes(root, tmp_path / "new")
    (old,), (new,) = ((each / f"{kind}-index").glob("*.segment") for each in (LAST, tmp_path / "new"))
    assert new.read_bytes() == old.read_bytes()


def test_a_cache_of_the_last_release_is_read_anew(root: Path, tmp_path: Path) -> None:
    for directory in cache_in(tmp_path / "cache"):
        data = root / "parquet"
        bp.plan(data, QUERY)
        restart()
        (segment,) = cache_files(directory)
        today = segment.read_bytes()
        shutil.copy(LAST / "cache.columns", segment)
        plan = bp.plan(data, QUERY)
        assert plan.requests > 0
        assert summary(plan) == uncached(data, QUERY)
        restart()
        assert segment.read_bytes() == today
    process_cache.clear()


def test_the_jar_of_the_last_release_gets_a_plan_or_an_error(root: Path, tmp_path: Path) -> None:
    paths = sorted((root / "parquet").glob("*.parquet"))
    request = json.loads((LAST / "request.json").read_text(encoding="utf-8"))
    request["listing"] = request_of(paths, None, tmp_path)["listing"]
    request["options"] |= {"cacheDirectory": str(tmp_path)}
    with started(tmp_path) as planner:
        planner.send(1, paths, request.pop("predicate"), **{**request, "id": 1})
        answer, ranges = planner.receive()
    if request["version"] == PROTOCOL:
        assert [file for file, _, _ in ranges] == [1]
        assert answer["plan"]["numRowGroupsRead"] == 1
    else:
        assert "attach the jar of the same release" in answer["error"]
