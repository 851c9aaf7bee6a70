"""The options of a write: which columns get Bloom filters and how good they are, how files are laid out, and where.

parquet-java's own keys are heeded as far as the writer of Arrow can do what they say. Where they and ours say different
things of filters, theirs win, as with the jar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import OptionError, UnsupportedError
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

_PARQUETS = "parquet."
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

CODECS = ("none", "uncompressed", "snappy", "gzip", "brotli", "lz4_raw", "zstd")

WRITING: tuple[Option, ...] = (
    Option(
        "bloomColumns",
        None,
        parse_text,
        "When writing: the columns that get a Bloom filter in every row group, such as `user_id,address.city`; or `*` "
        "for all that min/max and dictionaries serve badly.",
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
    ),
    Option(
        "compression",
        None,
        parse_text,
        "When writing: `none`, `snappy`, `gzip`, `zstd`, `brotli` or `lz4_raw`; if not given, `parquet.compression`, "
        "or what `spark.sql.parquet.compression.codec` is.",
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
    ),
    Option(NDV, None, parse_count, "The same: how many distinct values to make room for.", per_column=True),
    Option(FPP, None, parse_share, "The same: the share of false positives.", per_column=True),
    Option(MAX_BYTES, None, parse_filter_bytes, "The same: the largest filter."),
    Option("parquet.block.size", "128m", parse_bytes, "When writing: the bytes of a row group, as they are in memory."),
    Option("parquet.block.row.count.limit", "1048576", parse_count, "When writing: the rows of a row group."),
    Option("parquet.page.size", "1m", parse_bytes, "When writing: the bytes of a data page."),
    Option("parquet.dictionary.page.size", "1m", parse_bytes, "When writing: the bytes of a dictionary."),
    Option(DICTIONARY, "true", parse_flag, "When writing: whether to try dictionaries.", per_column=True),
    Option("parquet.compression", None, parse_text, "See `compression`."),
    Option("parquet.compression.codec.zstd.level", None, parse_count, "When writing: the effort of `zstd`."),
    # Every filter written here has the size that its values take, which is what these ask for.
    Option("parquet.bloom.filter.adaptive.enabled", None, parse_text, "Without the jar, always so."),
    Option(
        "parquet.bloom.filter.candidates.number", None, parse_text, "Without the jar, of no effect.", per_column=True
    ),
)
_FILE_SCHEME = re.compile(r"^file:(//[^/]*)?(?=/)")
_MOST_ROWS = 1 << 31


def is_encryptions(key: str) -> bool:
    """Whether `key` is one by which parquet-java is told to encrypt or to decrypt."""
    return key.lower().startswith(_ENCRYPTIONS)


def is_parquets(key: str) -> bool:
    """Whether `key` is of parquet-java's: there are many more of these than are options here."""
    return key.lower().startswith(_PARQUETS)


@dataclass(frozen=True)
class ColumnKeys:
    """What one kind of parquet-java's keys says: `default` of all columns, `columns` by name as far as they are
    named."""

    default: Any
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class WriteOptions:
    """The checked options of one write; None is *not given*. Columns are named as they were, not yet looked for."""

    path: str
    bloom_columns: str | None
    bloom_fpp: float
    bloom_max_bytes: int
    max_bytes_option: str
    partition_by: tuple[str, ...] | None
    dynamic_overwrite: bool | None  # None: as the session has it
    if_exists: str
    case_sensitive: bool
    time_zone: str | None
    codec: str | None
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
        from pyspark_bloomparquet.options import find_option

        plain: dict[str, Any] = {}
        columns: dict[str, dict[str, Any]] = {}
        _refuse_encryption(next((f"option {key}" for key in given if is_encryptions(key)), None))
        for key, text in given.items():
            option = find_option(key)
            _, mark, column = key.partition("#")
            value = option.read(option.name + mark + column, text)
            if mark:
                columns.setdefault(option.name, {})[column] = value
            else:
                plain[option.name] = value
        _refuse_what_is_for_loads(plain)
        values = {
            option.name: option.read(option.name, option.default) for option in WRITING if option.default is not None
        }
        values.update(plain)

        def keys(name: str) -> ColumnKeys:
            return ColumnKeys(values.get(name), columns.get(name, {}))

        overwrite_mode = plain.get("partitionOverwriteMode")
        codec = plain.get("compression", plain.get("parquet.compression"))
        return cls(
            path=_one_path(plain),
            bloom_columns=plain.get("bloomColumns"),
            bloom_fpp=values["bloomFpp"],
            bloom_max_bytes=values.get(MAX_BYTES, values["bloomMaxBytes"]),
            max_bytes_option=MAX_BYTES if MAX_BYTES in values else "bloomMaxBytes",
            partition_by=plain.get("partitionBy"),
            dynamic_overwrite=None if overwrite_mode is None else overwrite_mode == "dynamic",
            if_exists=values["ifExists"],
            case_sensitive=plain.get("caseSensitive", False),
            time_zone=plain.get("timeZone"),
            codec=None if codec is None else check_codec("compression", codec),
            zstd_level=plain.get("parquet.compression.codec.zstd.level"),
            row_group_bytes=values["parquet.block.size"],
            row_group_rows=min(values["parquet.block.row.count.limit"], _MOST_ROWS),
            page_bytes=values["parquet.page.size"],
            dictionary_bytes=values["parquet.dictionary.page.size"],
            enabled=keys(ENABLED),
            ndv=keys(NDV),
            fpp=keys(FPP),
            dictionary=keys(DICTIONARY),
        )


def check_codec(name: str, value: str) -> str:
    """The codec that `value` names, for pyarrow. OptionError, and UnsupportedError for one that pyarrow was built
    without."""
    import pyarrow as pa

    found = one_of(*CODECS)(name, value)
    if found in ("none", "uncompressed"):
        return "none"
    if found != "lz4_raw" and not pa.Codec.is_available(found):
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


def _one_path(given: Mapping[str, Any]) -> str:
    paths: Sequence[str] = given.get("paths") or ([given["path"]] if given.get("path") else [])
    if len(paths) != 1:
        found = f"{len(paths)} paths were given" if paths else "no path was given"
        raise OptionError(
            f'{found}; expected one, as in df.write.format("bloomparquet").mode("append").save("/data/events"). Tables '
            "of the catalog are written with the jar only: Spark tells no Python data source where they are"
        )
    # Hadoop decodes nothing in it, so that what was written is found under the same URL.
    return _FILE_SCHEME.sub("", str(paths[0]))
