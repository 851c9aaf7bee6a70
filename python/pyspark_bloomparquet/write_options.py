"""The options of a write: which columns get Bloom filters and how good they are, how files are laid out, and where.

The own keys of parquet-java and of ORC are heeded as far as the writers of Arrow can do what they say. Where they and
ours say different things of filters, theirs win, as with the jar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import OptionError, UnsupportedError
from pyspark_bloomparquet.formats import ORC, PARQUET, Source
from pyspark_bloomparquet.option import (
    PYTHON,
    Option,
    one_of,
    parse_bytes,
    parse_count,
    parse_filter_bytes,
    parse_flag,
    parse_names,
    parse_share,
    parse_text,
)

_OF_LIBRARIES = ("parquet.", "orc.")
_ENCRYPTIONS = ("parquet.encryption.", "parquet.crypto.")
_MASTER_KEYS = ("footer.key", "column.keys", "uniform.key")  # parquet.encryption.…: who names one wants encrypted files
_CRYPTO_FACTORY = "parquet.crypto.factory.class"
_BY_PROPERTIES = "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory"
HOW_TO_ENCRYPT = (
    "attach the jar (pyspark_bloomparquet.attach), with which Spark's own writer encrypts, or use "
    "bloomparquet.write_table(…, encryption=…)"
)
ENABLED = "parquet.bloom.filter.enabled"
NDV = "parquet.bloom.filter.expected.ndv"
FPP = "parquet.bloom.filter.fpp"
MAX_BYTES = "parquet.bloom.filter.max.bytes"
DICTIONARY = "parquet.enable.dictionary"

ORC_COLUMNS = "orc.bloom.filter.columns"
ORC_FPP = "orc.bloom.filter.fpp"
ORC_COMPRESS = "orc.compress"
ORC_STRIPE = "orc.stripe.size"
ORC_STRIDE = "orc.row.index.stride"

CODECS = ("none", "uncompressed", "snappy", "gzip", "brotli", "lz4_raw", "zstd")
ORC_CODECS = ("none", "uncompressed", "snappy", "zlib", "lz4", "zstd")

WRITING: tuple[Option, ...] = (
    Option(
        "bloomColumns",
        None,
        parse_text,
        "When writing: the columns that get a Bloom filter in every row group, such as `user_id,address.city`; or `*` "
        "for all that min/max and dictionaries serve badly (of ORC: all that can have one).",
    ),
    Option(
        "bloomFpp",
        "0.01",
        parse_share,
        "When writing: the share of false positives that their filters aim at.",
    ),
    Option(
        "bloomMaxBytes",
        "16m",
        parse_filter_bytes,
        "When writing: the largest filter. Where that makes one worse than `bloomFpp`, a warning says so.",
        source=PARQUET,
    ),
    Option(
        "compression",
        None,
        parse_text,
        "When writing: `none`, `snappy`, `gzip`, `zstd`, `brotli` or `lz4_raw`, and of ORC `none`, `snappy`, `zlib`, "
        "`zstd` or `lz4`; if not given, `parquet.compression` or `orc.compress`, or what "
        "`spark.sql.parquet.compression.codec` or `spark.sql.orc.compression.codec` is.",
    ),
    Option(
        "partitionBy",
        None,
        parse_names,
        "When writing: the partition columns, such as `day,hour`. Spark lets no Python data source have "
        "`df.write.partitionBy(…)`. Appended rows go into the partitions that there are without being told.",
        PYTHON,
    ),
    Option(
        "partitionOverwriteMode",
        None,
        one_of("static", "dynamic"),
        "When overwriting: `static` replaces everything, `dynamic` only the partitions that rows are written to; what "
        "`spark.sql.sources.partitionOverwriteMode` is if not given.",
    ),
    Option(
        "ifExists",
        "append",
        one_of("append", "error", "ignore"),
        "What mode `append` does where there is something already. Spark lets no Python data source have the modes "
        '`error` and `ignore`: say `mode("append").option("ifExists", "error")`.',
        PYTHON,
    ),
    Option(
        ENABLED,
        None,
        parse_flag,
        "When writing, as parquet-java has it: `parquet.bloom.filter.enabled#user_id` for one column, without `#` for "
        "all.",
        per_column=True,
        source=PARQUET,
    ),
    Option(
        NDV, None, parse_count, "The same: how many distinct values to make room for.", per_column=True, source=PARQUET
    ),
    Option(FPP, None, parse_share, "The same: the share of false positives.", per_column=True, source=PARQUET),
    Option(MAX_BYTES, None, parse_filter_bytes, "The same: the largest filter.", source=PARQUET),
    Option(
        "parquet.block.size",
        "128m",
        parse_bytes,
        "When writing: the bytes of a row group, as they are in memory.",
        source=PARQUET,
    ),
    Option(
        "parquet.block.row.count.limit",
        "1048576",
        parse_count,
        "When writing: the rows of a row group.",
        source=PARQUET,
    ),
    Option("parquet.page.size", "1m", parse_bytes, "When writing: the bytes of a data page.", source=PARQUET),
    Option(
        "parquet.dictionary.page.size", "1m", parse_bytes, "When writing: the bytes of a dictionary.", source=PARQUET
    ),
    Option(
        DICTIONARY, "true", parse_flag, "When writing: whether to try dictionaries.", per_column=True, source=PARQUET
    ),
    Option("parquet.compression", None, parse_text, "See `compression`.", source=PARQUET),
    Option(
        "parquet.compression.codec.zstd.level", None, parse_count, "When writing: the effort of `zstd`.", source=PARQUET
    ),
    # Every filter written here has the size that its values take, which is what these ask for.
    Option("parquet.bloom.filter.adaptive.enabled", None, parse_text, "Without the jar, always so.", source=PARQUET),
    Option(
        "parquet.bloom.filter.candidates.number",
        None,
        parse_text,
        "Without the jar, of no effect.",
        per_column=True,
        source=PARQUET,
    ),
    Option(ORC_COLUMNS, None, parse_names, "When writing, as ORC has it: as `bloomColumns`.", source=ORC),
    Option(ORC_FPP, None, parse_share, "The same: as `bloomFpp`.", source=ORC),
    Option(ORC_STRIPE, "64m", parse_bytes, "When writing: the bytes of a stripe, as they are in memory.", source=ORC),
    Option(ORC_STRIDE, "10000", parse_count, "When writing: the rows of a row group within a stripe.", source=ORC),
    Option(ORC_COMPRESS, None, parse_text, "See `compression`.", source=ORC),
)
_FILE_SCHEME = re.compile(r"^file:(//[^/]*)?(?=/)")
_MOST_ROWS = 1 << 31


def is_encryptions(key: str) -> bool:
    """Whether `key` is one by which parquet-java is told to encrypt or to decrypt."""
    return key.lower().startswith(_ENCRYPTIONS)


def is_of_a_library(key: str) -> bool:
    """Whether `key` is one of parquet-java or of ORC: there are many more of these than are options here."""
    return key.lower().startswith(_OF_LIBRARIES)


@dataclass(frozen=True)
class ColumnKeys:
    """What one kind of parquet-java's keys says: `default` of all columns, `columns` by name as far as they are
    named."""

    default: Any
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class TableOptions:
    """The checked options of one write by `source`, without what is the format's own; None is *not given*. Columns are
    named as they were, not yet looked for."""

    source: Source
    path: str
    bloom_columns: str | None
    bloom_fpp: float
    partition_by: tuple[str, ...] | None
    dynamic_overwrite: bool | None  # None: as the session has it
    if_exists: str
    case_sensitive: bool
    time_zone: str | None
    codec: str | None


@dataclass(frozen=True)
class WriteOptions(TableOptions):
    """Those of a write of Parquet files."""

    bloom_max_bytes: int
    max_bytes_option: str
    zstd_level: int | None
    row_group_bytes: int
    row_group_rows: int
    page_bytes: int
    dictionary_bytes: int
    enabled: ColumnKeys
    ndv: ColumnKeys
    fpp: ColumnKeys
    dictionary: ColumnKeys

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> WriteOptions:
        """Check `given`, as Spark hands it over. :class:`OptionError` says what was found and what was expected."""
        _refuse_encryption(next((f"option {key}" for key in given if is_encryptions(key)), None))
        values, columns = _read(given, PARQUET)

        def keys(name: str) -> ColumnKeys:
            return ColumnKeys(values.get(name), columns.get(name, {}))

        codec = values.get("compression", values.get("parquet.compression"))
        return cls(
            **_of_any_table(values, PARQUET),
            codec=None if codec is None else check_codec("compression", codec),
            bloom_max_bytes=values.get(MAX_BYTES, values["bloomMaxBytes"]),
            max_bytes_option=MAX_BYTES if MAX_BYTES in values else "bloomMaxBytes",
            zstd_level=values.get("parquet.compression.codec.zstd.level"),
            row_group_bytes=values["parquet.block.size"],
            row_group_rows=min(values["parquet.block.row.count.limit"], _MOST_ROWS),
            page_bytes=values["parquet.page.size"],
            dictionary_bytes=values["parquet.dictionary.page.size"],
            enabled=keys(ENABLED),
            ndv=keys(NDV),
            fpp=keys(FPP),
            dictionary=keys(DICTIONARY),
        )


@dataclass(frozen=True)
class OrcWriteOptions(TableOptions):
    """Those of a write of ORC files. `columns_option` is the option that has named the columns with filters."""

    columns_option: str
    stripe_bytes: int
    row_index_stride: int

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> OrcWriteOptions:
        """Check `given`, as Spark hands it over. :class:`OptionError` says what was found and what was expected."""
        values, _ = _read(given, ORC)
        said = {key.lower(): key for key in given}
        for ours, theirs in (("bloomColumns", ORC_COLUMNS), ("bloomFpp", ORC_FPP)):
            if ours.lower() in said and theirs in said:
                raise OptionError(f"options {ours} and {said[theirs]} say the same thing; expected one of them")
        common = _of_any_table(values, ORC)
        if ORC_COLUMNS in values:
            common["bloom_columns"] = ",".join(values[ORC_COLUMNS])
        common["bloom_fpp"] = values.get(ORC_FPP, common["bloom_fpp"])
        codec = values.get("compression", values.get(ORC_COMPRESS))
        return cls(
            **common,
            codec=None if codec is None else check_codec("compression", codec, ORC),
            columns_option=ORC_COLUMNS if ORC_COLUMNS in values else "bloomColumns",
            stripe_bytes=values[ORC_STRIPE],
            row_index_stride=min(values[ORC_STRIDE], _MOST_ROWS),
        )


def parse(given: Mapping[str, str], source: Source) -> TableOptions:
    """The checked options of a write by `source`."""
    return WriteOptions.parse(given) if source == PARQUET else OrcWriteOptions.parse(given)


def _read(given: Mapping[str, str], source: Source) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The values of options, those not given too where there is a default, and those of options by column."""
    from pyspark_bloomparquet.options import find_option

    plain: dict[str, Any] = {}
    columns: dict[str, dict[str, Any]] = {}
    for key, text in given.items():
        option = find_option(key, source)
        _, mark, column = key.partition("#")
        value = option.read(option.name + mark + column, text)
        if mark:
            columns.setdefault(option.name, {})[column] = value
        else:
            plain[option.name] = value
    _refuse_what_is_for_loads(plain)
    defaults = {
        option.name: option.read(option.name, option.default) for option in WRITING if option.default is not None
    }
    return {**defaults, **plain}, columns


def _of_any_table(values: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """The fields of :class:`TableOptions`, without the codec."""
    overwrite_mode = values.get("partitionOverwriteMode")
    return {
        "source": source,
        "path": _one_path(values, source),
        "bloom_columns": values.get("bloomColumns"),
        "bloom_fpp": values["bloomFpp"],
        "partition_by": values.get("partitionBy"),
        "dynamic_overwrite": None if overwrite_mode is None else overwrite_mode == "dynamic",
        "if_exists": values["ifExists"],
        "case_sensitive": values.get("caseSensitive", False),
        "time_zone": values.get("timeZone"),
    }


def check_codec(name: str, value: str, source: Source = PARQUET) -> str:
    """The codec that `value` names, for pyarrow. OptionError, and UnsupportedError for one that pyarrow was built
    without."""
    import pyarrow as pa

    found = one_of(*(CODECS if source == PARQUET else ORC_CODECS))(name, value)
    if found in ("none", "uncompressed"):
        return "none"
    if source == PARQUET and found != "lz4_raw" and not pa.Codec.is_available(found):
        raise UnsupportedError(f"option {name} is {value!r}, which pyarrow {pa.__version__} was built without")
    return str(found)


def _refuse_what_is_for_loads(given: Mapping[str, Any]) -> None:
    if "where" in given:
        raise OptionError(
            "option where belongs to a load, and this is a write; filter the DataFrame, or write to a view without it"
        )
    if "keyProvider" in given:
        raise OptionError(
            f"option keyProvider is for reading and encrypts nothing; for encrypted files, {HOW_TO_ENCRYPT}"
        )


def _refuse_encryption(asked: str | None) -> None:
    """UnsupportedError where a setting has `asked` for encryption: what is written here would be in plain text."""
    if asked is not None:
        raise UnsupportedError(
            f"{asked} asks for encrypted files, which the Python data source does not write; {HOW_TO_ENCRYPT}"
        )


def refuse_sessions_encryption(setting: Callable[[str], str | None]) -> None:
    """UnsupportedError where the session's `setting` of a name says that all files are to be encrypted.

    parquet-java's own factory encrypts those alone for which a master key is named; of another one that is not known.
    """
    names = [f"spark.hadoop.parquet.encryption.{name}" for name in _MASTER_KEYS]
    asked = [name for name in names if setting(name)]
    factory = f"spark.hadoop.{_CRYPTO_FACTORY}"
    if setting(factory) not in (None, "", _BY_PROPERTIES):
        asked.append(factory)
    _refuse_encryption(next((f"the session's {name}" for name in asked), None))


def _one_path(given: Mapping[str, Any], source: Source) -> str:
    paths: Sequence[str] = given.get("paths") or ([given["path"]] if given.get("path") else [])
    if len(paths) != 1:
        found = f"{len(paths)} paths were given" if paths else "no path was given"
        raise OptionError(
            f'{found}; expected one, as in df.write.format("{source}").mode("append").save("/data/events"). Tables '
            "of the catalog are written with the jar only: Spark tells no Python data source where they are"
        )
    # Hadoop decodes nothing in it, so that what was written is found under the same URL.
    return _FILE_SCHEME.sub("", str(paths[0]))
