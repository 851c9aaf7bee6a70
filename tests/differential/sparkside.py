"""Spark's side of the comparison: many predicates in one query, and `pyspark_bloomparquet` without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.query.predicate import Column
from pyspark_bloomparquet import DefaultSource
from tests.differential.cases import ROW_ID, Data
from tests.differential.kinds import Kind
from tests.support.spark import conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: dict[str, T.DataType] = {
    "int8": T.ByteType(), "int16": T.ShortType(), "int32": T.IntegerType(), "int64": T.LongType(),
    "uint8": T.ShortType(), "uint16": T.IntegerType(), "uint32": T.LongType(), "uint64": T.DecimalType(20, 0),
    "float32": T.FloatType(), "float64": T.DoubleType(),
}  # fmt: skip
_FAMILIES: dict[str, T.DataType] = {
    "string": T.StringType(), "binary": T.BinaryType(), "boolean": T.BooleanType(), "date": T.DateType(),
    "timestamp": T.TimestampType(), "ntz": T.TimestampNTZType(),
}  # fmt: skip


def spark_type(kind: Kind) -> T.DataType:
    if kind.family == "decimal":
        return T.DecimalType(kind.arrow.precision, kind.arrow.scale)
    return _TYPES.get(kind.name) or _FAMILIES[kind.family]


def spark_schema(data: Data) -> T.StructType:
    """The schema of `data` with the widest kind of each column; the partition column is last."""
    kinds = data.schema_kinds()

    def group(path: Column) -> T.DataType:
        if path in kinds:
            return spark_type(kinds[path])
        names = dict.fromkeys(other[len(path)] for other in kinds if other[: len(path)] == path)
        return T.StructType([T.StructField(name, group((*path, name))) for name in names])

    inner = group(())
    assert isinstance(inner, T.StructType)
    return T.StructType([T.StructField(ROW_ID, T.LongType()), *inner.fields])


@contextmanager
def unpruned(spark: SparkSession, timezone: str) -> Iterator[None]:
    """Spark without its own pruning."""
    settings = {
        "spark.sql.session.timeZone": timezone,
        "spark.sql.parquet.filterPushdown": "false",
        "spark.sql.orc.filterPushdown": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    with conf(spark, settings):
        yield


def evaluate(frame: DataFrame, predicates: Sequence[str]) -> tuple[pa.Table, list[set[int]]]:
    """All rows, and for each predicate the ids of the rows where it is TRUE, by one query without a filter."""
    truths = [f"coalesce(({sql}), FALSE) AS `__{i}`" for i, sql in enumerate(predicates)]
    table = frame.selectExpr("*", *truths).toArrow()
    rids = table.column(ROW_ID).to_pylist()
    columns = [table.column(f"__{i}").to_pylist() for i in range(len(predicates))]
    rows = table.select([name for name in table.column_names if not name.startswith("__")])
    return rows, [{rid for rid, true in zip(rids, column) if true} for column in columns]


def read_by_data_source(root: Path, schema: T.StructType | None, **options: str) -> pa.Table:
    """The rows that ``format("bloomparquet")`` returns: its classes are called and pickled as Spark does."""
    source = DefaultSource({"path": str(root), **{name.lower(): value for name, value in options.items()}})
    reader = pickle.loads(pickle.dumps(source.reader(schema or source.schema())))
    splits = [pickle.loads(pickle.dumps(split)) for split in reader.partitions()]
    batches = [batch for split in splits for batch in reader.read(split)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def stripes(root: Path) -> dict[tuple[str, int], set[int]]:
    """The row ids of every stripe of every ORC file below `root`."""
    ids = {}
    for path in sorted(root.rglob("*.orc")):
        file = orc.ORCFile(path)
        for i in range(file.nstripes):
            ids[str(path), i] = set(file.read_stripe(i, columns=[ROW_ID]).column(0).to_pylist())
    return ids


def row_groups(root: Path) -> dict[tuple[str, int], set[int]]:
    """The row ids of every row group of every file below `root`."""
    ids = {}
    for path in sorted(root.rglob("*.parquet")):
        file = pq.ParquetFile(path)
        for i in range(file.num_row_groups):
            ids[str(path), i] = set(file.read_row_group(i, columns=[ROW_ID]).column(0).to_pylist())
    return ids
