"""Rows read by pages from files of other writers are those that pyarrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import datafusion
import duckdb
import fastparquet
import polars as pl
import pyarrow as pa
import pytest

from tests.support.interop import only_file
from tests.support.page_files import check_file, flat_table, nested_table

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2_500


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_polars(tmp_path: Path, codec: str) -> None:
    nested = nested_table(ROWS).drop_columns(["map"])  # polars has no maps
    for name, table in {"flat": flat_table(ROWS), "nested": nested}.items():
        path = tmp_path / f"{name}.parquet"
        pl.from_arrow(table).write_parquet(path, compression=codec, row_group_size=1_400, data_page_size=1_500)
        assert check_file(path) > 0.3  # lists have pages of version 1


@pytest.mark.parametrize("options", ["", ", PARQUET_VERSION V2", ", CODEC lz4_raw"])
def test_duckdb(tmp_path: Path, options: str) -> None:
    tables = {"flat": flat_table(ROWS), "nested": nested_table(ROWS)}
    if "V2" in options:  # pyarrow cannot read its INT32
        tables = {"flat": tables["flat"].drop_columns(["int32"])}
    for name, table in tables.items():
        path = tmp_path / f"{name}.parquet"
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.register("made", table)
            connection.execute(f"COPY made TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048{options})")
        assert check_file(path) > 0.3


@pytest.mark.parametrize(("codec", "version"), [("uncompressed", "1.0"), ("zstd(3)", "2.0")])
def test_datafusion(tmp_path: Path, codec: str, version: str) -> None:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.sql("SET datafusion.execution.parquet.write_batch_size = 100").collect()
    context.sql("SET datafusion.execution.parquet.data_page_row_count_limit = 200").collect()
    context.sql("SET datafusion.execution.parquet.dictionary_page_size_limit = 10000").collect()
    for name, table in {"flat": flat_table(ROWS), "nested": nested_table(ROWS)}.items():
        context.register_record_batches(name, [table.to_batches()])
        context.sql(
            f"COPY {name} TO '{tmp_path / name}.parquet' STORED AS PARQUET OPTIONS ('format.max_row_group_size' 1400, "
            f"'format.writer_version' '{version}', 'format.compression' '{codec}')"
        ).collect()
        assert check_file(only_file(tmp_path / f"{name}.parquet")) > (0.8 if name == "flat" else 0.2)


@pytest.mark.filterwarnings("ignore")
def test_fastparquet(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    frame = flat_table(ROWS).drop_columns(["decimal", "date"]).to_pandas()
    fastparquet.write(path, frame, row_group_offsets=1_400)
    assert check_file(path) > 0.8


@pytest.mark.parametrize(("codec", "version"), [("zstd", "v1"), ("lz4", "v2"), ("gzip", "v2")])
def test_spark(spark: SparkSession, tmp_path: Path, codec: str, version: str) -> None:
    for name, table in {"flat": flat_table(ROWS), "nested": nested_table(ROWS)}.items():
        source, target = tmp_path / f"{name}.parquet", str(tmp_path / name)
        pa.parquet.write_table(table, source)
        options = {
            "parquet.page.size": 2_000, "parquet.page.row.count.limit": 200, "parquet.dictionary.page.size": 10_000,
            "parquet.writer.version": version, "compression": codec, "parquet.page.size.row.check.min": 100,
        }  # fmt: skip
        spark.read.parquet(str(source)).coalesce(1).write.options(**options).parquet(target)
        assert check_file(only_file(target)) > (0.8 if name == "flat" else 0.2)
