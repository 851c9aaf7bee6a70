"""The table that the files of a scan belong to, as the jar describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from bloomparquet.errors import PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.table_columns import TableColumns
from bloomparquet.tables import delta, iceberg_schema
from pyspark_bloomparquet.jar.listing import Storages


def of_table(dataset: Dataset, table: Mapping[str, Any] | None, storages: Storages) -> Dataset:
    """`dataset` with the columns and the location of the field `table` of a request; itself if there is no table."""
    if table is None:
        return dataset
    columns = _columns(json.dumps({name: each for name, each in table.items() if name != "location"}, sort_keys=True))
    location = None
    with suppress(PlanError):  # an index beside the table is on the storage of the files
        _, (directory,) = storages.of([table["location"]])
        location = directory.rstrip("/") + "/"
    return replace(dataset, columns=columns, location=location)


@lru_cache(64)
def _columns(described: str) -> TableColumns | None:
    """One object for each description: it remembers how it maps the schemas of files. None: files have the columns."""
    table = json.loads(described)
    if table["fields"] is None:
        return None
    if table["kind"] == "iceberg":
        return iceberg_schema.table_columns(table["fields"], table["nameMapping"])
    return delta.table_columns(table["fields"], table["mapping"])
