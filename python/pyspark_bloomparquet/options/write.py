"""The options of a write through the jar: which columns get Bloom filters, how good the filters are, and how files are
laid out.

The jar checks their values. They are listed here for the README, and so that reads and writes may share their options.
"""

from __future__ import annotations

from pyspark_bloomparquet.formats import ORC, PARQUET, Source
from pyspark_bloomparquet.options.option import JAR, Option, parse_text

_ENCRYPTIONS = ("parquet.encryption.", "parquet.crypto.")


def _option(
    name: str, default: str | None, doc: str, *, per_column: bool = False, source: Source | None = None
) -> Option:
    return Option(name, default, parse_text, doc, JAR, per_column, source)


WRITING: tuple[Option, ...] = (
    _option(
        "bloomColumns",
        None,
        "When writing: the columns that get a Bloom filter in every row group, such as `user_id,address.city`; or `*` "
        "for all that min/max and dictionaries serve badly (of ORC: all that can have one).",
    ),
    _option(
        "bloomFpp",
        "0.01",
        "When writing: the share of false positives that their filters aim at.",
    ),
    _option(
        "bloomMaxBytes",
        "16m",
        "When writing: the largest filter. Where that makes one worse than `bloomFpp`, a warning says so.",
        source=PARQUET,
    ),
    _option(
        "compression",
        None,
        "When writing: `none`, `snappy`, `gzip`, `zstd`, `brotli` or `lz4_raw`, and of ORC `none`, `snappy`, `zlib`, "
        "`zstd` or `lz4`; if not given, `parquet.compression` or `orc.compress`, or what "
        "`spark.sql.parquet.compression.codec` or `spark.sql.orc.compression.codec` is.",
    ),
    _option(
        "partitionOverwriteMode",
        None,
        "When overwriting: `static` replaces everything, `dynamic` only the partitions that rows are written to; what "
        "`spark.sql.sources.partitionOverwriteMode` is if not given.",
    ),
    _option(
        "parquet.bloom.filter.enabled",
        None,
        "When writing, as parquet-java has it: `parquet.bloom.filter.enabled#user_id` for one column, without `#` for "
        "all.",
        per_column=True,
        source=PARQUET,
    ),
    _option(
        "parquet.bloom.filter.expected.ndv",
        None,
        "The same: how many distinct values to make room for.",
        per_column=True,
        source=PARQUET,
    ),
    _option(
        "parquet.bloom.filter.fpp", None, "The same: the share of false positives.", per_column=True, source=PARQUET
    ),
    _option("parquet.bloom.filter.max.bytes", None, "The same: the largest filter.", source=PARQUET),
    _option(
        "parquet.block.size",
        "128m",
        "When writing: the bytes of a row group, as they are in memory.",
        source=PARQUET,
    ),
    _option(
        "parquet.block.row.count.limit",
        None,
        "When writing: the rows of a row group.",
        source=PARQUET,
    ),
    _option("parquet.page.size", "1m", "When writing: the bytes of a data page.", source=PARQUET),
    _option("parquet.dictionary.page.size", "1m", "When writing: the bytes of a dictionary.", source=PARQUET),
    _option(
        "parquet.enable.dictionary",
        "true",
        "When writing: whether to try dictionaries.",
        per_column=True,
        source=PARQUET,
    ),
    _option("parquet.compression", None, "See `compression`.", source=PARQUET),
    _option("parquet.compression.codec.zstd.level", None, "When writing: the effort of `zstd`.", source=PARQUET),
    _option(
        "parquet.bloom.filter.adaptive.enabled",
        None,
        "When writing: leave the size of filters to parquet-java.",
        source=PARQUET,
    ),
    _option(
        "parquet.bloom.filter.candidates.number",
        None,
        "The same for one column: how many sizes parquet-java tries.",
        per_column=True,
        source=PARQUET,
    ),
    _option("orc.bloom.filter.columns", None, "When writing, as ORC has it: as `bloomColumns`.", source=ORC),
    _option("orc.bloom.filter.fpp", None, "The same: as `bloomFpp`.", source=ORC),
    _option("orc.stripe.size", "64m", "When writing: the bytes of a stripe, as they are in memory.", source=ORC),
    _option("orc.row.index.stride", "10000", "When writing: the rows of a row group within a stripe.", source=ORC),
    _option("orc.compress", None, "See `compression`.", source=ORC),
)


def is_encryptions(key: str) -> bool:
    """Whether `key` is one by which parquet-java is told to encrypt or to decrypt."""
    return key.lower().startswith(_ENCRYPTIONS)
