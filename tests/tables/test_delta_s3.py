"""Delta Lake tables on S3: ``deltalake`` reads the log, a pyarrow file system the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake

import bloomparquet as bp
from tests.support import delta_log
from tests.support.s3 import s3_server


def test_a_table_on_s3_is_read_with_its_deletion_vectors(tmp_path: Path) -> None:
    local = tmp_path / "t"
    groups = WriterProperties(max_row_group_size=10)
    table = pa.table({"id": range(100), "p": ["a b/%20"] * 50 + [None] * 50})
    write_deltalake(local, table, partition_by=["p"], writer_properties=groups)
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    delta_log.commit(local, {"protocol": protocol})
    for add in delta_log.actions(local, "add"):
        delta_log.delete_rows(local, add["path"], [25], inline=False)
    with s3_server() as server:
        server.upload(local, "tables/t")
        options = {
            "AWS_ENDPOINT_URL": f"http://{server.address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        }  # fmt: skip
        opened = DeltaTable("s3://bucket/tables/t", storage_options=options)
        dataset = bp.Dataset.from_delta(opened, filesystem=server.filesystem)
        assert sorted(dataset.read_table()["id"].to_pylist()) == [n for n in range(100) if n not in (25, 75)]
        assert dataset.plan("id = 26").kept == 1
        assert [dataset.read_table(bp.Eq("id", n)).num_rows for n in (24, 25, 75, 76)] == [1, 0, 0, 1]
        assert dataset.read_table("p = 'a b/%20'").num_rows == 49
        server.requests.clear()
        assert dataset.plan("id = 26").requests == 0
        assert not server.requests
        earlier = bp.Dataset.from_delta(opened, version=0, storage_options=options, filesystem=server.filesystem)
        assert earlier.read_table("id = 25").num_rows == 1
