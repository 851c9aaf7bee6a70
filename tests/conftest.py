"""What every test may ask for: one Spark session, the files of other implementations, hypothesis profiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.commands import Run
    from tests.support.kms_files import Clock

ROOT = Path(__file__).resolve().parent.parent

# No deadline: the first example pays for the JVM, and a shared machine is slow now and then.
_health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
_common = {"deadline": None, "suppress_health_check": _health, "print_blob": True}
settings.register_profile("ci", max_examples=100, derandomize=True, **_common)  # the same cases in every run
settings.register_profile("long", max_examples=5_000, **_common)  # others in every run
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the whole run. A test that changes its configuration does so by `support.spark.conf`."""
    from tests.support.spark import start

    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def parquet_testing_dir() -> Path:
    """The checkout of apache/parquet-testing, read where it lies."""
    return _files_of_others("PARQUET_TESTING_DIR", "parquet-testing")


@pytest.fixture(scope="session")
def orc_examples_dir() -> Path:
    """The examples/ folder of apache/orc, read where it lies."""
    return _files_of_others("ORC_EXAMPLES_DIR", "orc-examples")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in this process."""
    from bloomparquet.cli.main import main
    from tests.support.commands import Result

    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Result(code, out, err)

    return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time by which what a key server gave is kept."""
    from bloomparquet.parquet.encryption.keys import ttl_cache
    from tests.support.kms_files import Clock

    clock = Clock()
    monkeypatch.setattr(ttl_cache, "monotonic", clock)
    return clock


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, emptied afterwards."""
    import fsspec

    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def _files_of_others(variable: str, name: str) -> Path:
    found = Path(os.environ.get(variable) or ROOT.parent / "shared" / "data" / name)
    if not found.is_dir():
        pytest.skip(f"no {name} at {found}; set {variable} to a copy of it")
    return found


def pytest_configure(config: pytest.Config) -> None:
    # Spark's Python workers must be the interpreter that runs the tests, whatever python3 is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A process that has the jar keeps it: what is tested without comes before (and pytest must not reorder modules).
    items.sort(key=lambda item: "tests/jar/" in item.path.as_posix())
