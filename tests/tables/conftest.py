"""Fixtures: an Iceberg catalog, and an empty table in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlCatalog]:
    from tests.support import iceberg

    with iceberg.open_catalog(tmp_path_factory.mktemp("warehouse")) as opened:
        yield opened


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    from tests.support.iceberg_tables import make

    return make(catalog)
