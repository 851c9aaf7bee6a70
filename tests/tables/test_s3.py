"""Tables on S3: Delta Lake's are read with a pyarrow file system, Iceberg's with that of their catalog."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField, StringType

import bloomparquet as bp
from bloomparquet.tables import live_files
from tests.support import delta_log
from tests.support.s3 import S3Server


def test_a_delta_table_is_read_with_its_deletion_vectors(s3: S3Server, tmp_path: Path) -> None:
    local = tmp_path / "t"
    groups = WriterProperties(max_row_group_size=10)
    table = pa.table({"id": range(100), "p": ["a b/%20"] * 50 + [None] * 50})
    write_deltalake(local, table, partition_by=["p"], writer_properties=groups)
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    delta_log.commit(local, {"protocol": protocol})
    for add in delta_log.actions(local, "add"):
        delta_log.delete_rows(local, add["path"], [25], inline=False)
    s3.upload(local, "tables/t")
    options = {
        "AWS_ENDPOINT_URL": f"http://{s3.address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
    }  # fmt: skip
    opened = DeltaTable("s3://bucket/tables/t", storage_options=options)
    dataset = bp.Dataset.from_delta(opened, filesystem=s3.filesystem)
    assert sorted(dataset.read_table()["id"].to_pylist()) == [n for n in range(100) if n not in (25, 75)]
    assert dataset.plan("id = 26").kept == 1
    assert [dataset.read_table(bp.Eq("id", n)).num_rows for n in (24, 25, 75, 76)] == [1, 0, 0, 1]
    assert dataset.read_table("p = 'a b/%20'").num_rows == 49
    s3.requests.clear()
    assert dataset.plan("id = 26").requests == 0
    assert not s3.requests
    earlier = bp.Dataset.from_delta(opened, version=0, storage_options=options, filesystem=s3.filesystem)
    assert earlier.read_table("id = 25").num_rows == 1


def test_an_iceberg_table_has_the_credentials_of_its_catalog(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    catalog = InMemoryCatalog(
        "s3", warehouse="s3://bucket/warehouse",
        **{
            "s3.endpoint": f"http://{s3.address}", "s3.access-key-id": "test",
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
    s3.requests.clear()
    assert dataset.plan("name = 'n100'").requests == 0
    assert not s3.requests, "a warm plan asks the storage for nothing"
    on_an_executor = pickle.loads(pickle.dumps(dataset.storage))
    assert len(on_an_executor.list_files(dataset.files[0].path, recursive=False)) == 1
    copied = StaticTable.from_metadata(table.metadata_location, table.io.properties)
    monkeypatch.setattr(live_files, "_MOST_SINGLE_REQUESTS", 1)  # list the directory
    assert bp.Dataset.from_iceberg(copied).read_table("name = 'n100'").num_rows == 1
    catalog.close()
