"""The option `storageOptions` of the Python data source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from pyspark_bloomparquet.options.load import Options
from tests.support.files import write
from tests.support.s3 import s3_server


def test_endpoint_and_credentials_reach_driver_and_workers(spark: SparkSession, tmp_path: Path) -> None:
    """Spark was started without them in its environment."""
    for part in range(2):
        write(tmp_path / "t" / f"{part}.parquet", {"id": list(range(part, 2_000, 2))}, ["id"], rows_per_group=100)
    with s3_server() as s3:
        s3.upload(tmp_path / "t", "t")
        options = {"endpoint_override": s3.address, "scheme": "http", "region": "us-east-1"}
        credentials = {"access_key": "test", "secret_key": "test"}
        load = spark.read.format("bloomparquet").option("storageOptions", json.dumps(options | credentials))
        rows = load.option("where", "id = 1201").load("s3://bucket/t").collect()
        assert [row.id for row in rows] == [1201]
        many = load.option("where", "id >= 100").load("s3://bucket/t").collect()  # row groups are read ahead
        assert sorted(row.id for row in many) == [*range(100, 2_000)]
        assert {path for method, path in s3.requests if method == "GET"} >= {
            "/bucket/t/0.parquet",
            "/bucket/t/1.parquet",
        }


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("s3://bucket/t", '{"secret_key": SECRET}', "option storageOptions has a wrong value; expected a JSON object"),
        ("s3://bucket/t", '{"max_attempts": 3, "secret_key": "SECRET"}', "expected a JSON object of texts"),
        ("s3://bucket/t", '{"screct_key": "SECRET"}', "did you mean 'secret_key'?"),
        ("hdfs://name/t", '{"extra_conf": "SECRET"}', "hdfs:// has no storage option 'extra_conf'"),
        ("memory://t", '{"anything": "SECRET"}', "storage options are for URLs of s3, gs, gcs, abfs"),
        ("/data/t", '{"region": "SECRET"}', "found /data/t"),
    ],
)
def test_only_known_options_of_known_schemes_pass(path: str, text: str, message: str) -> None:
    """An option of fsspec could name code."""
    with pytest.raises(bp.OptionError) as raised:
        Options.parse({"path": path, "storageOptions": text})
    assert message in str(raised.value)
    assert "SECRET" not in str(raised.value)


def test_options_do_not_show_their_secrets() -> None:
    options = Options.parse({"path": "s3://bucket/t", "storageOptions": '{"secret_key": "SECRET"}'})
    assert options.storage_options == {"secret_key": "SECRET"}
    assert "SECRET" not in repr(options)
