"""Iceberg tables on S3 are read with the file system, and the credentials, of their catalog."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField, StringType

import bloomparquet as bp
from bloomparquet.tables import live_files
from tests.support.s3 import s3_server


def test_a_table_on_s3_is_read_with_its_catalogs_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as server:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        catalog = InMemoryCatalog(
            "s3", warehouse="s3://bucket/warehouse",
            **{
                "s3.endpoint": f"http://{server.address}", "s3.access-key-id": "test",
                "s3.secret-access-key": "test", "s3.region": "us-east-1",
            },
        )  # fmt: skip
        catalog.create_namespace("db")
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
        table = catalog.create_table("db.t", schema)
        for first in (0, 100):
            table.append(pa.table({"id": [first, first + 1], "name": ["a", f"n{first}"]}))
        dataset = bp.Dataset.from_iceberg(table)
        assert dataset.read_table("name = 'n100'").to_pylist() == [{"id": 101, "name": "n100"}]
        assert dataset.plan("name = 'n100'").skipped == {"statistics": 1}
        server.requests.clear()
        assert dataset.plan("name = 'n100'").requests == 0
        assert not server.requests, "a warm plan asks the storage for nothing"
        on_an_executor = pickle.loads(pickle.dumps(dataset.storage))
        assert len(on_an_executor.list_files(dataset.files[0].path, recursive=False)) == 1
        copied = StaticTable.from_metadata(table.metadata_location, table.io.properties)
        monkeypatch.setattr(live_files, "_MOST_SINGLE_REQUESTS", 1)  # list the directory
        assert bp.Dataset.from_iceberg(copied).read_table("name = 'n100'").num_rows == 1
        catalog.close()
