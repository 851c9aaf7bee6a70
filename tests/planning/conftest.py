"""Fixtures of the tests of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.disk_cache import cache_in, ten_files


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The directory in which the plans of this process cache what they read."""
    yield from cache_in(tmp_path / "cache")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return ten_files(tmp_path / "data")
