"""ORC files with very small stripes by Spark's own writer, and the ORC readers of one session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.scenarios import Paths, Readers, read
from tests.support.spark import conf

UNPUSHED = {"spark.sql.orc.filterPushdown": "false", "spark.sql.parquet.filterPushdown": "false"}


class OrcReaders(Readers):
    """:class:`Readers` of ORC."""

    def jar(self, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
        return read(self.spark, "bloomorc", path, schema, **options)

    def oracle(self, path: Paths, schema: Any = None, **options: Any) -> DataFrame:
        return read(self.spark, "orc", path, schema, **options)


def write_stripes(
    frame: DataFrame,
    path: Path | str,
    bloom: str = "",
    *,
    rows: int = 2,
    mode: str = "append",
    options: Mapping[str, Any] | None = None,
) -> str:
    """Write each partition of `frame` as a file with stripes of so many `rows`, and return the path. `bloom` lists the
    columns with filters, separated by commas."""
    writer = frame.write.mode(mode).option("orc.stripe.row.count", rows).option("orc.bloom.filter.fpp", "0.0001")
    for key, value in {"orc.bloom.filter.columns": bloom, **(options or {})}.items():
        writer = writer.option(key, str(value))
    with conf(frame.sparkSession, {"spark.sql.orc.columnarWriterBatchSize": str(rows)}):
        writer.orc(str(path))
    return str(path)


def stripes_of(spark: SparkSession, path: Path | str, kind: str, values: list[str], bloom: str = "c") -> str:
    """One file with a column `c` of SQL type `kind`. Each of `values` has a stripe of its own, with two rows."""
    rows = ", ".join(f"({i}, CAST({value} AS {kind}))" for i, value in enumerate(values) for _ in range(2))
    frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t(i, c)").coalesce(1)
    return write_stripes(frame.sortWithinPartitions("i").select("c"), path, bloom)
