"""Random data sets on disk: by other writers, Spark's and ours, with filters added later, with an index beside them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import bloomparquet as bp
from tests.differential import random_files
from tests.differential.column_types import VARIANT, VARIANTS
from tests.differential.random_files import Column, DataSet
from tests.differential.settings import UNPRUNED
from tests.support.spark import conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VARIANTS = ", ".join(f"'{text}'" for text in VARIANTS)
_SHREDDED = "a BIGINT, b STRING, o STRUCT<x: DOUBLE>"


def data_set(spark: SparkSession, name: str, home: Path) -> DataSet:
    """The data set called `name`, which decides everything about it."""
    random = Random(name)
    format_ = random.choice(("parquet", "parquet", "parquet", "orc", "orc"))
    by_spark = random.random() < (0.4 if format_ == "orc" else 0.5)
    root = home / name
    data = random_files.write(random, root / "t", "parquet" if by_spark else format_, for_spark=by_spark)
    if by_spark:
        with contextlib.suppress(PySparkException, Py4JError):  # the files that Spark would have read remain
            data = _by_spark(spark, random, data, format_)
    elif format_ == "parquet" and random.random() < 0.2:
        with contextlib.suppress(bp.BloomParquetError, OSError):  # damaged files
            bp.add_filters(data.root, bloom=[c.name for c in data.columns if c.type.filtered], on_error="warn")
            data = replace(data, notes=f"{data.notes}; filters added")
    return _index(random, data) if random.random() < 0.5 else data


def _by_spark(spark: SparkSession, random: Random, data: DataSet, format_: str) -> DataSet:
    settings = {
        "spark.sql.parquet.outputTimestampType": random.choice(("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")),
        "spark.sql.parquet.writeLegacyFormat": random.choice(("true", "false")),
        "spark.sql.parquet.datetimeRebaseModeInWrite": random.choice(("LEGACY", "LEGACY", "LEGACY", "CORRECTED")),
        "spark.sql.parquet.int96RebaseModeInWrite": random.choice(("LEGACY", "CORRECTED")),
        "spark.sql.orc.columnarWriterBatchSize": "4",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.caseSensitive": "true",
        **UNPRUNED,
    }
    root = data.root.parent / "spark"
    with_variant = format_ == "parquet" and spark.version >= "4.1" and random.random() < 0.5
    is_forced = with_variant and random.random() < 0.8
    if with_variant:
        shredding = {"writeShredding.enabled": "true", "allowReadingShredded": "true"}
        if is_forced:
            shredding |= {"forceShreddingSchemaForTest": _SHREDDED, "inferShreddingSchema": "false"}
        settings |= {f"spark.sql.variant.{key}": value for key, value in shredding.items()}
    with conf(spark, settings):
        frame: DataFrame = spark.read.option("mergeSchema", "true").parquet(str(data.root))
        if len({name.lower() for name in frame.columns}) < len(frame.columns):
            return data if format_ == "parquet" else replace(data, format="parquet")
        columns = [column for column in data.columns if column.name in frame.columns]
        keys = [column.name for column in data.partitions]
        if is_forced:  # Spark 4.3 then writes no table of more than three columns
            columns = columns[:1]
            frame = frame.select("rid", *(column.sql for column in columns), *keys)
        flat = ",".join(c.name for c in columns if re.fullmatch(r"\w+", c.name) and c.type.filtered)
        writer_format, options = _writer(random, format_, flat)
        if with_variant:
            text = f"element_at(array({_VARIANTS}), 1 + pmod(hash(rid DIV 3), {len(VARIANTS)}))"
            frame = frame.selectExpr("*", f"parse_json(nullif({text}, '')) AS var")
            columns.append(Column("var", VARIANT, (None,)))
        data = replace(data, columns=tuple(columns))
        count = random.randint(1, 3)
        if random.random() < 0.7:  # neighbours stay together, so that statistics skip row groups
            frame = frame.repartitionByRange(count, "rid").sortWithinPartitions(*keys, "rid")
        else:
            frame = frame.repartition(count)
        frame.write.options(**options).partitionBy(*keys).format(writer_format).save(str(root))
    return replace(
        data, root=root, format=format_, notes=f"{data.notes}; rewritten as {writer_format} {settings} {options}"
    )


def _writer(random: Random, format_: str, flat: str) -> tuple[str, dict[str, Any]]:
    """A name of the format, and options of its writer. `flat`: the columns that get filters."""
    if random.random() < 0.6:
        return format_, {
            "parquet.block.row.count.limit": random.randint(1, 9), "parquet.bloom.filter.enabled": "true",
            "parquet.bloom.filter.max.bytes": 1024, "parquet.enable.dictionary": random.choice(("true", "false")),
            "orc.stripe.row.count": random.randint(4, 9), "orc.bloom.filter.columns": flat,
            "orc.bloom.filter.fpp": 0.01,
        }  # fmt: skip
    rows = {"parquet": "parquet.block.row.count.limit", "orc": "orc.stripe.row.count"}[format_]
    options = {rows: random.randint(*((1, 9) if format_ == "parquet" else (4, 9))), "bloomColumns": flat}
    return {"parquet": "bloomparquet", "orc": "bloomorc"}[format_], {
        key: value for key, value in {**options, "bloomFpp": 0.01}.items() if value
    }


def _index(random: Random, data: DataSet) -> DataSet:
    """`data` with an index beside it, which may be older than some of the files."""
    try:
        bp.build_index(data.root)
    except (bp.BloomParquetError, OSError):  # damaged files
        return data
    is_stale = random.random() < 0.6
    for file in sorted(data.root.rglob("part-*.parquet")) if is_stale else ():
        change = random.random()
        if change < 0.1:
            file.unlink()
        elif change < 0.6:
            _shuffle(random, file, file)
        elif change < 0.7:
            _shuffle(random, file, file.with_name("part-new.parquet"))
    return replace(data, notes=f"{data.notes}; {'stale ' if is_stale else ''}index")


def _shuffle(random: Random, file: Path, to: Path) -> None:
    """Write the rows of `file` in another order, with other row ids, and in other row groups."""
    try:
        table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError):  # a damaged file
        return
    rows = random.sample(range(table.num_rows), table.num_rows)
    rids = pc.add(table["rid"], 1000)
    table = table.set_column(table.column_names.index("rid"), "rid", rids).take(pa.array(rows, pa.int64()))
    bloom = random_files.bloom_filter_options(table)
    pq.write_table(table, to, row_group_size=random.randint(1, 8), bloom_filter_options=bloom)
    to.with_name(f".{to.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of what Spark wrote
