"""Random data sets on disk: by other writers, Spark's and ours, with filters added later, with an index beside them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import bloomparquet as bp
from tests.differential import random_files
from tests.differential.random_files import VARIANT, Column, DataSet
from tests.differential.settings import UNPRUNED
from tests.support.spark import conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VARIANTS = ", ".join(f"'{text}'" for text in random_files.VARIANTS)
_SHREDDED = "a BIGINT, b STRING, o STRUCT<x: DOUBLE>"


def data_set(spark: SparkSession, name: str, home: Path) -> DataSet:
    """The data set called `name`, which decides everything about it."""
    random = Random(name)
    format_ = random.choice(("parquet", "parquet", "orc"))
    by_spark = random.random() < (0.5 if format_ == "orc" else 0.2)
    root = home / name
    data = random_files.write(random, root / "t", "parquet" if by_spark else format_)
    if by_spark:
        with contextlib.suppress(PySparkException, Py4JError):  # the files that Spark would have read remain
            data = _by_spark(spark, random, data, format_)
    elif format_ == "parquet" and random.random() < 0.2:
        with contextlib.suppress(bp.BloomParquetError, OSError):  # damaged files
            bp.add_filters(data.root, bloom=[c.name for c in data.columns if c.type.filtered], on_error="warn")
            data = replace(data, notes=f"{data.notes}; filters added")
    return _index(random, data) if random.random() < 0.35 else data


def _by_spark(spark: SparkSession, random: Random, data: DataSet, format_: str) -> DataSet:
    settings = {
        "spark.sql.parquet.outputTimestampType": random.choice(("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")),
        "spark.sql.parquet.writeLegacyFormat": random.choice(("true", "false")),
        "spark.sql.parquet.datetimeRebaseModeInWrite": random.choice(("LEGACY", "CORRECTED")),
        "spark.sql.parquet.int96RebaseModeInWrite": random.choice(("LEGACY", "CORRECTED")),
        "spark.sql.orc.columnarWriterBatchSize": "4",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.caseSensitive": "true",
        **UNPRUNED,
    }
    flat = ",".join(c.name for c in data.columns if re.fullmatch(r"\w+", c.name) and c.type.filtered)
    options = {
        "parquet.block.row.count.limit": random.randint(1, 9), "parquet.bloom.filter.enabled": "true",
        "parquet.bloom.filter.max.bytes": 1024, "parquet.enable.dictionary": random.choice(("true", "false")),
        "orc.stripe.row.count": random.randint(4, 9), "orc.bloom.filter.columns": flat, "orc.bloom.filter.fpp": 0.01,
    }  # fmt: skip
    writer_format = format_
    if random.random() < 0.4:
        writer_format = {"parquet": "bloomparquet", "orc": "bloomorc"}[format_]
        options = {
            "parquet.block.row.count.limit": random.randint(1, 9), "orc.stripe.row.count": random.randint(4, 9),
            "bloomColumns": flat, "bloomFpp": 0.01,
        }  # fmt: skip
        options = {k: v for k, v in options.items() if v and not k.startswith("parquet" if format_ == "orc" else "orc")}
    root = data.root.parent / "spark"
    with_variant = format_ == "parquet" and spark.version >= "4.1" and random.random() < 0.5
    if with_variant:
        shredding = {"writeShredding.enabled": "true", "allowReadingShredded": "true"}
        if random.random() < 0.8:
            shredding["forceShreddingSchemaForTest"] = _SHREDDED
        settings |= {f"spark.sql.variant.{key}": value for key, value in shredding.items()}
    with conf(spark, settings):
        frame: DataFrame = spark.read.option("mergeSchema", "true").parquet(str(data.root))
        if len({name.lower() for name in frame.columns}) < len(frame.columns):
            return data if format_ == "parquet" else replace(data, format="parquet")
        if with_variant:
            text = f"element_at(array({_VARIANTS}), 1 + pmod(hash(rid DIV 3), {len(random_files.VARIANTS)}))"
            frame = frame.selectExpr("*", f"parse_json(nullif({text}, '')) AS var")
            data = replace(data, columns=(*data.columns, Column("var", VARIANT, (None,))))
        keys = [column.name for column in data.partitions]
        writer = frame.repartition(random.randint(1, 3)).write.options(**options).partitionBy(*keys)
        writer.format(writer_format).save(str(root))
    return replace(
        data, root=root, format=format_, notes=f"{data.notes}; rewritten as {writer_format} {settings} {options}"
    )


def _index(random: Random, data: DataSet) -> DataSet:
    """`data` with an index beside it, which may be older than one of the files."""
    try:
        bp.build_index(data.root)
    except (bp.BloomParquetError, OSError):  # damaged files
        return data
    files = sorted(data.root.rglob("part-*.parquet"))
    change = random.random() if files else 1
    if change > 0.5:
        return replace(data, notes=f"{data.notes}; index")
    chosen = random.choice(files)
    if change < 0.15:
        chosen.unlink()
    else:  # other rows in a file of the same name, or in a new one
        try:
            table = pq.ParquetFile(chosen).read()
        except (pa.ArrowException, OSError):  # a damaged file
            return replace(data, notes=f"{data.notes}; index")
        rows = random.sample(range(table.num_rows), table.num_rows)
        copied = chosen if change < 0.4 else chosen.with_name("part-new.parquet")
        rids = pa.array(range(1000, 1000 + len(rows)), pa.int64())
        table = table.take(pa.array(rows, pa.int64())).set_column(table.column_names.index("rid"), "rid", rids)
        pq.write_table(table, copied, row_group_size=random.randint(1, 8))
    return replace(data, notes=f"{data.notes}; stale index")
