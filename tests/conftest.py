"""What every test may ask for: one Spark session, the files of other implementations, hypothesis profiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    items.sort(key=lambda item: "tests/shim/" in item.path.as_posix())
