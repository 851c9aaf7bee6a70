"""What tests of the core ask for: the command line, run in this process; a clock of their own; storage in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from bloomparquet.parquet.encryption.keys import ttl_cache as expiring
from pyspark_bloomparquet import cli
from tests.support.commands import Result, Run
from tests.support.kms_files import Clock


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Result(code, out, err)

    return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time by which what a key server gave is kept."""
    clock = Clock()
    monkeypatch.setattr(expiring, "monotonic", clock)
    return clock


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, emptied afterwards."""
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
