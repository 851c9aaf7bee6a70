"""Parquet files, for the data sources: see :class:`pyspark_bloomparquet.formats.Files`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from bloomparquet.errors import EncryptionError, UnsupportedError
from bloomparquet.format.footer import Footer, read_footers
from bloomparquet.scan import read_row_groups
from bloomparquet.storage import FileInfo, ReadCount, Storage, is_hidden
from bloomparquet.unify import cast, readable, rebuild
from bloomparquet.writing.writer import ParquetWriter
from pyspark_bloomparquet import legacy, types
from pyspark_bloomparquet.blooms import chosen_blooms, dictionary_columns
from pyspark_bloomparquet.file_schema import LAYOUT, check_schema, file_schema, fitted, stored_schema
from pyspark_bloomparquet.write_options import HOW_TO_ENCRYPT, check_codec, refuse_sessions_encryption

if TYPE_CHECKING:
    from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

    from bloomparquet.format.schema import FileSchema, SchemaNode
    from bloomparquet.predicate import Predicate
    from pyspark_bloomparquet.formats import Described, OpenFile, StoredFile
    from pyspark_bloomparquet.options import Options
    from pyspark_bloomparquet.splits import FilePart
    from pyspark_bloomparquet.write_options import WriteOptions

_SESSION_CODEC = "spark.sql.parquet.compression.codec"
_EXTENSIONS = {"none": "", "snappy": ".snappy", "gzip": ".gz", "brotli": ".br", "lz4_raw": ".lz4raw", "zstd": ".zstd"}

check = check_schema


class DescribedFooter:
    """What a footer says of the columns."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self.key: Hashable = id(footer.layout.schema), footer.key_values.get(types.SPARK_SCHEMA_KEY)
        self.names: Sequence[str] = [node.name for node in footer.layout.schema.root.children]

    def spark_schema(self) -> T.StructType:
        return types.file_schema(self._footer.layout.schema.root, self._footer.key_values)


def describe(storage: Storage, files: Sequence[FileInfo], *, skip_corrupt: bool) -> Sequence[Described | None]:
    footers = read_footers(storage, files, ReadCount(), skip_corrupt=skip_corrupt)
    return [None if footer is None else DescribedFooter(footer) for footer in footers]


def clock(options: Options) -> str | None:
    return options.time_zone


def for_planning(
    where: Predicate, schemas: Sequence[FileSchema], partitions: Mapping[str, pa.DataType], options: Options
) -> Predicate | None:
    return where


class StoredParquet:
    """A file that is read: see :class:`pyspark_bloomparquet.formats.StoredFile`."""

    def __init__(self, storage: Storage, part: FilePart) -> None:
        self._storage, self._part = storage, part
        (footer,) = read_footers(storage, [FileInfo(part.path, part.size, 0)], ReadCount())
        assert footer is not None
        self._footer: Footer = footer
        self._nodes = {node.name: node for node in footer.layout.schema.root.children}
        self.names: Sequence[str] = list(self._nodes)
        self.old: Sequence[str] = legacy.columns(footer)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return read_row_groups(self._storage, self._part.path, self._footer, self._part.row_groups, names)

    def meant(self, name: str, column: pa.Array) -> pa.Array:
        return cast(column, _meaning(column.type, self._nodes[name]))


def open(  # noqa: A001 - what it is called is what it does
    storage: Storage, part: FilePart, data: T.StructType, clock: str | None, options: Options
) -> StoredFile:
    return StoredParquet(storage, part)


def _meaning(kind: pa.DataType, node: SchemaNode) -> pa.DataType:
    """The type that planning judged the column by; a duration is the number that Spark sees."""
    return rebuild(readable(kind, node), lambda leaf: pa.int64() if pa.types.is_duration(leaf) else leaf)


def require_plain(storage: Storage, directory: str, path: str) -> None:
    """UnsupportedError where encrypted files lie: whatever the session says of encryption, a Python data source may not
    see, and what is written here is in plain text. The first file tells."""
    try:
        listed = storage.list_files(directory, recursive=True)
    except FileNotFoundError:
        return
    locked: dict[FileInfo, EncryptionError] = {}
    for file in [file for file in listed if not is_hidden(file.path.rpartition("/")[2])][:1]:
        (footer,) = read_footers(storage, [file], ReadCount(), skip_corrupt=True, locked=locked)
        if locked or (footer is not None and footer.crypto is not None):
            raise UnsupportedError(
                f"{path}: there are encrypted files ({file.path}), and the Python data source writes none; "
                f"{HOW_TO_ENCRYPT}"
            )


class ParquetLayout:
    """The files of a write: see :class:`pyspark_bloomparquet.formats.Layout`."""

    def __init__(self, options: WriteOptions, schema: T.StructType) -> None:
        self._options, self._schema = options, file_schema(schema)
        stored = stored_schema(self._schema)
        self._blooms, self._dictionaries = chosen_blooms(options, stored), dictionary_columns(options, stored)

    def codec(self, setting: Callable[[str], str | None]) -> str:
        refuse_sessions_encryption(setting)
        found = setting(_SESSION_CODEC)
        return self._options.codec or (check_codec(_SESSION_CODEC, found) if found else "snappy")

    def extension(self, codec: str) -> str:
        return f"{_EXTENSIONS[codec]}.parquet"

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return fitted(batch, self._schema)

    def open(self, path: str, storage: Storage, codec: str) -> OpenFile:
        options = self._options
        return OpenParquet(
            ParquetWriter(
                path,
                self._schema,
                bloom=self._blooms,
                row_group_size=options.row_group_rows,
                row_group_bytes=options.row_group_bytes,
                filesystem=storage.arrow,
                key_values=_texts(self._schema.metadata),
                compression=codec,
                compression_level=options.zstd_level if codec == "zstd" else None,
                use_dictionary=self._dictionaries,
                data_page_size=options.page_bytes,
                dictionary_pagesize_limit=options.dictionary_bytes,
                **LAYOUT,
            )
        )

    def tell(self, limited: Sequence[tuple[str, float]]) -> None:
        worst: dict[str, float] = {}
        for column, fpp in limited:
            worst[column] = max(fpp, worst.get(column, 0.0))
        if worst:
            told = ", ".join(f"{column} (up to fpp {fpp:.1%})" for column, fpp in sorted(worst.items()))
            options = self._options
            warnings.warn(
                f"{options.path}: option {options.max_bytes_option} = {options.bloom_max_bytes} makes filters worse "
                f"than asked for: {told}; allow more bytes, or make row groups smaller "
                "(parquet.block.row.count.limit)",
                stacklevel=3,
            )


layout = ParquetLayout


class OpenParquet:
    """A file that is written: see :class:`pyspark_bloomparquet.formats.OpenFile`."""

    def __init__(self, writer: ParquetWriter) -> None:
        self._writer = writer
        self.write_batch, self.abort = writer.write_batch, writer.abort

    def close(self) -> Sequence[tuple[str, float]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the driver says it, once
            self._writer.close()
        return [(column.column, column.fpp) for column in self._writer.outcome.columns if column.limited]


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
