"""Fixtures for all tests: one Spark session, files of other implementations, hypothesis profiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(  # their helpers assert
    "tests.support.expressions",
    "tests.support.filters_in_memory",
    "tests.support.scenarios",
    "tests.support.spark_rows",
)

from tests.support.class_archive import JAVA_FLAGS  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.commands import Run
    from tests.support.kms_files import Clock
    from tests.support.s3 import S3Server

ROOT = Path(__file__).resolve().parent.parent

# No deadline: the first example starts the JVM, and a shared machine may be slow.
_health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
_common = {"deadline": None, "suppress_health_check": _health, "print_blob": True}
settings.register_profile("ci", max_examples=50, derandomize=True, **_common)  # cases are equal if imports are
settings.register_profile("long", max_examples=5_000, **_common)  # each run has new cases
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the whole run, which compiles no queries: see the fixture `compiled` of ``tests/jar``.

    Tests change its configuration with `support.spark.conf` only.
    """
    from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED, forget_sources, remember_names, start

    remember_names()
    session = start(tmp_path_factory.mktemp("spark"), **FOR_SMALL_QUERIES, **INTERPRETED)
    forget_sources(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def parquet_testing_dir() -> Path:
    """A checkout of apache/parquet-testing."""
    return _external_files("PARQUET_TESTING_DIR", "parquet-testing")


@pytest.fixture(scope="session")
def orc_examples_dir() -> Path:
    """The folder examples/ of apache/orc."""
    return _external_files("ORC_EXAMPLES_DIR", "orc-examples")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A local S3 server with an empty bucket."""
    from tests.support.s3 import s3_server

    with s3_server() as server:
        yield server


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
    """The clock of the cache of keys from a key server."""
    from bloomparquet.parquet.encryption.keys import ttl_cache
    from tests.support.kms_files import Clock

    clock = Clock()
    monkeypatch.setattr(ttl_cache, "monotonic", clock)
    return clock


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's in-memory file system; it is emptied after the test."""
    import fsspec

    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def _external_files(variable: str, name: str) -> Path:
    folder = Path(os.environ.get(variable) or ROOT.parent / "shared" / "data" / name)
    if not folder.is_dir():
        pytest.skip(f"no {name} at {folder}; set {variable} to a copy of it")
    return folder


def pytest_configure(config: pytest.Config) -> None:
    # Spark's Python workers use the interpreter of the tests, not the python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_FLAGS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A process cannot detach the jar, so tests without it run first, and pytest must not reorder modules.
    items.sort(key=lambda item: "tests/jar/" in item.path.as_posix())
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in ("jar", "connectors") or item.path.name == "test_build.py":
            item.add_marker("jar")
        elif folder in ("spark", "docs") or "spark" in getattr(item, "fixturenames", ()) or "[of_spark" in item.name:
            item.add_marker("spark")
