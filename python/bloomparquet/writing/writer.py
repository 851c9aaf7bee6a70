"""Writes Parquet files with pyarrow, and with Bloom filters of the right size.

pyarrow makes each filter as large as its row group might need. When the file is closed, the filters are folded to the
size that their values need, and written. The file appears at its path when it is complete, or not at all. Encrypted
files go through :mod:`bloomparquet.writing.encrypted_writer`.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import OptionError, UnsupportedError, did_you_mean
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.chunk_fields import ChunkColumns
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.values.encoding import bounds_of
from bloomparquet.planning.dataset import PathLike
from bloomparquet.query.nested import without_views
from bloomparquet.storage.atomic import Output, remove_leftover, replacing
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.table_formats import directories_of, require_writable
from bloomparquet.writing.advice.benefit import ColumnFacts, assess, measure_overlap
from bloomparquet.writing.dictionaries import dictionary_options
from bloomparquet.writing.encrypted_writer import EncryptedFile
from bloomparquet.writing.encryption import Encryption, as_encryption
from bloomparquet.writing.filters.build import (
    filter_options,
    initial_bytes,
    insert_equal_floats,
    parse_file_end,
    read_filters,
)
from bloomparquet.writing.filters.locate import ChunkId, Extent
from bloomparquet.writing.filters.spec import EVERY_COLUMN, WRITE_ORC, BloomSpec, choose_leaves, parse_bloom
from bloomparquet.writing.holding_sink import HoldingSink
from bloomparquet.writing.outcome import FileOutcome, describe_columns, warn_of_filters
from bloomparquet.writing.rewrite import Filters, rewrite

_ROWS = 1 << 20
_BYTES = 128 << 20
_UNSUPPORTED_OPTIONS = {
    "bloom_filter_options": "use bloom= instead of bloom_filter_options=",
    "encryption_properties": (
        "with encryption_properties, pyarrow writes no filters; use encryption=, a bloomparquet.Encryption"
    ),
    "metadata_collector": (
        "metadata_collector would get a footer that differs from the file's; use pyarrow.parquet.read_metadata"
    ),
}
_COMPARED = 8  # row groups of a column whose filters are compared pairwise


def write_table(
    table: Any,
    path: PathLike,
    *,
    bloom: BloomSpec | None = None,
    row_group_size: int = _ROWS,
    filesystem: Any = None,
    encryption: Encryption | Keys | None = None,
    **options: Any,
) -> FileOutcome:
    """Write `table` to one Parquet file. A file at `path` is replaced when the new one is complete.

    `table` is a ``pyarrow.Table``, or an object of the Arrow PyCapsule interface, which is read as a whole: a record
    batch, a reader of batches, a DataFrame of polars or pandas. The other arguments and the errors are those of
    :class:`ParquetWriter`.

    >>> table = pa.table({"user_id": range(1000), "amount": [0.5] * 1000})
    >>> outcome = bp.write_table(table, "orders.parquet", bloom={"user_id": bp.Bloom(fpp=0.001)})
    >>> (outcome.filters, outcome.filter_bytes)
    (1, 2048)
    """
    if not hasattr(table, "__arrow_c_stream__"):
        raise OptionError(
            f"table is a {type(table).__name__}; expected a pyarrow.Table, or an object that exports Arrow data; "
            "pyarrow.table(…) makes a table of columns"
        )
    if not isinstance(table, pa.Table):
        table = pa.table(table)
    rows = min(row_group_size, max(table.num_rows, 1))
    asked: Any = bloom
    if bloom is not None and row_group_size > 0:
        row_groups = -(-table.num_rows // row_group_size)
        asked = {column: wanted.for_row_groups(row_groups) for column, wanted in parse_bloom(bloom).items()}
    writer = ParquetWriter(
        path, table.schema, bloom=asked, row_group_size=rows, filesystem=filesystem, encryption=encryption, **options
    )
    with writer:
        writer.write_table(table)
    return writer.outcome


class ParquetWriter:
    """Writes one Parquet file, table by table or batch by batch.

    `bloom` chooses the columns that get a filter in every row group, as in :func:`bloomparquet.add_filters`. Filters
    are sized by the distinct values of the row group. A row group is written when it has `row_group_size` rows, or
    takes `row_group_bytes` in memory. `key_values` are added to the key-value metadata of the footer. Other `options`
    are those of ``pyarrow.parquet.ParquetWriter``, but a page index is written unless ``write_page_index=False``, and
    columns that hardly repeat a value in the first row group get no dictionary, unless ``use_dictionary``,
    ``column_encoding`` or ``dictionary_pagesize_limit`` is given. As a context manager, the writer closes the file, or
    aborts it if the block raises. Filters stay in memory until then: about 2 MiB for a column of a row group of a
    million rows.

    `encryption` is an :class:`Encryption`, or :class:`Keys`. Encrypted columns are never written in plain text. Memory
    then also holds a row group as plain and as encrypted Parquet.

    Raises PlanError for a column that is not in `schema`. Raises UnsupportedError for a column that cannot have a
    useful filter, for a path that ends with ``.orc``, and for a path in a table of Delta Lake, Iceberg or Hudi. Raises
    EncryptionError for more row groups or columns than an encrypted file can have, and if a KMS returns no keys.

    >>> schema = pa.schema([("user_id", pa.int64())])
    >>> with bp.ParquetWriter("users.parquet", schema, bloom="user_id", row_group_size=500) as writer:
    ...     for first in (0, 500):
    ...         writer.write_table(pa.table({"user_id": range(first, first + 500)}))
    >>> writer.outcome.filters
    2
    """

    def __init__(
        self,
        path: PathLike,
        schema: pa.Schema,
        *,
        bloom: BloomSpec | None = None,
        row_group_size: int = _ROWS,
        row_group_bytes: int = _BYTES,
        filesystem: Any = None,
        key_values: Mapping[str, str] | None = None,
        encryption: Encryption | Keys | None = None,
        **options: Any,
    ) -> None:
        _check_options(options, encrypts=encryption is not None)
        if row_group_size < 1 or row_group_bytes < 1:
            raise OptionError(
                f"row_group_size is {row_group_size} and row_group_bytes is {row_group_bytes}; expected 1 or more"
            )
        self._path = os.fspath(path)
        if self._path.endswith(".orc"):
            raise UnsupportedError(f"{self._path}: only Parquet files can be written here; {WRITE_ORC}")
        self._given, self._schema = schema, without_views(schema)
        self._rows, self._bytes = row_group_size, row_group_bytes
        asked = parse_bloom(bloom) if bloom is not None else {}
        # With a page index, readers of a few rows need not look for their pages; it has some hundred bytes a row group.
        self._options, self._key_values = {"write_page_index": True, **options}, dict(key_values or {})
        skeleton = self._skeleton()
        stored = skeleton.profile.schema
        self._chosen = choose_leaves(asked, stored, self._path)
        named = choose_leaves({column: asked[column] for column in asked if column != EVERY_COLUMN}, stored, self._path)
        self._unasked = self._chosen.keys() - named.keys()
        self._leaves = stored.leaves
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._outcome: FileOutcome | None = None
        self._filters: dict[ChunkId, SplitBlockBloomFilter | None] = {}
        storage, inner = open_storage(self._path, filesystem)
        require_writable(storage, directories_of(storage, [inner]))
        file_encryption = None
        if encryption is not None:
            file_encryption = as_encryption(encryption).for_file(self._leaves, storage, self._path)
        remove_leftover(storage, inner)
        self._replacing = replacing(storage, inner)
        self._output: Output | None = self._replacing.__enter__()
        self._sink = HoldingSink(self._output)
        self._writer: pq.ParquetWriter | None = None  # made with the first row group, which shows how long lists are
        self._encrypted: EncryptedFile | None = None
        if file_encryption is not None:
            try:
                self._encrypted = EncryptedFile(self._output, file_encryption, skeleton, self._path)
            except BaseException:
                self.abort()
                raise

    def write_table(self, table: pa.Table) -> None:
        """Append rows. Raises ValueError if the schema differs from that of the file."""
        empty = [column.combine_chunks() for column in table.slice(0, 0).columns]
        for batch in table.to_batches() or [pa.RecordBatch.from_arrays(empty, schema=table.schema)]:
            self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises ValueError if the schema differs from that of the file."""
        if self._output is None:
            raise ValueError("the file is closed or aborted; no more rows can be written")
        if batch.schema != self._given:
            raise ValueError(f"the batch has the schema\n{batch.schema}\nexpected\n{self._given}")
        if batch.schema != self._schema:
            batch = batch.cast(self._schema)
        row_bytes = _bytes_per_row(batch)
        while batch.num_rows:
            fitting = (self._bytes - self._pending_bytes) // row_bytes
            part = batch.slice(0, max(1, min(self._rows - self._pending_rows, fitting)))
            batch = batch.slice(part.num_rows)
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.num_rows * row_bytes
            if self._pending_rows >= self._rows or self._pending_bytes >= self._bytes:
                self._flush()

    def close(self) -> None:
        """Write the rest, and move the file to its path. Does nothing if the file is closed or aborted."""
        if self._output is None:
            return
        try:
            self._flush()
            if self._encrypted is None:
                footer, filters, size = self._finish(self._output)
            else:
                footer = self._encrypted.footer()
                filters = self._recommended(footer)
                size = self._encrypted.finish(filters)
            self._output.commit()
            columns = describe_columns(footer, filters, self._chosen)
            self._outcome = FileOutcome(self._path, "written", 0, size, columns)
        finally:
            self.abort()
        warn_of_filters(self._outcome)

    def abort(self) -> None:
        """Discard the new file, unless it is closed."""
        if self._output is not None:
            self._output = None
            self._pending.clear()
            self._sink.discard()  # pyarrow's writer writes again when it is garbage collected
            self._replacing.__exit__(None, None, None)

    @property
    def outcome(self) -> FileOutcome:
        """The outcome of the closed file. Raises ValueError before it is closed."""
        if self._outcome is None:
            raise ValueError("the file is not closed, so there is no outcome yet")
        return self._outcome

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
            try:
                if self._encrypted is None:
                    self._arrow_writer(table).write_table(table, row_group_size=self._rows)
                else:
                    memory = pa.BufferOutputStream()
                    with pq.ParquetWriter(memory, self._schema, **self._options_for(table)) as writer:
                        writer.write_table(table, row_group_size=self._rows)
                    for chunk_id, bloom in self._encrypted.add(memoryview(memory.getvalue()).cast("B")).items():
                        self._filters[chunk_id] = self._fitted(chunk_id, bloom)
            except BaseException:
                self.abort()  # a part of a row group may be written
                raise

    def _arrow_writer(self, first: pa.Table | None) -> pq.ParquetWriter:
        """pyarrow's writer. `first` has the rows of the first row group, if there are any."""
        if self._writer is None:
            sink = pa.PythonFile(self._sink, mode="w")
            self._writer = pq.ParquetWriter(sink, self._schema, **self._options_for(first))
            if self._key_values:
                self._writer.add_key_value_metadata(self._key_values)
        return self._writer

    def _options_for(self, first: pa.Table | None) -> dict[str, Any]:
        """pyarrow's options, with the size of filters before they are folded."""
        filters = {
            ".".join(self._leaves[leaf_index].path): filter_options(
                initial_bytes(self._leaves[leaf_index], wanted, self._rows, first)
            )
            for leaf_index, wanted in self._chosen.items()
        }
        dictionaries = dictionary_options(first, self._leaves, self._options)
        return {"bloom_filter_options": filters or None, **dictionaries, **self._options}

    def _skeleton(self) -> Footer:
        """The footer of a file without rows."""
        memory = pa.BufferOutputStream()
        with _unknown_option_named(), pq.ParquetWriter(memory, self._schema, **self._options) as writer:
            if self._key_values:
                writer.add_key_value_metadata(self._key_values)
        return parse_file_end(memoryview(memory.getvalue()).cast("B"))

    def _finish(self, output: Output) -> tuple[Footer, Filters, int]:
        """Write the end of the file, with folded filters. Returns the footer before that, the filters, and the size of
        the file."""
        writer = self._arrow_writer(None)
        self._sink.hold = True
        writer.close()
        end, first = self._sink.held(), self._sink.written
        footer = parse_file_end(end)

        def read(extents: list[Extent]) -> list[memoryview]:
            return [end[start - first : stop - first] for start, stop in extents]

        removed: list[Extent] = []
        for chunk_id, extent, bloom in read_filters(footer, end, first):
            removed.append(extent)
            self._filters[chunk_id] = self._fitted(chunk_id, bloom)
        filters = self._recommended(footer)
        new = rewrite(self._path, first + len(end), footer, filters, removed, read)
        for start, stop in new.copied:
            output.write(end[max(start - first, 0) : max(stop - first, 0)])
        for part in new.tail:
            output.write(part)
        return footer, filters, new.size

    def _fitted(self, chunk_id: ChunkId, bloom: SplitBlockBloomFilter) -> SplitBlockBloomFilter | None:
        wanted = self._chosen.get(chunk_id[1])
        if wanted is None:  # a struct field with the dotted name of a column that was asked for
            return None
        insert_equal_floats(self._leaves[chunk_id[1]], bloom)
        return bloom if wanted.ndv is not None else bloom.fitted(wanted.target_fpp)

    def _recommended(self, footer: Footer) -> Filters:
        """The filters to write: of named columns, and of other columns for which filters pay."""
        filters = self._filters
        for leaf_index in self._unasked:
            if not _is_recommended(footer, leaf_index, filters, self._chosen[leaf_index].target_fpp):
                filters.update(dict.fromkeys((chunk_id for chunk_id in filters if chunk_id[1] == leaf_index), None))
        return filters


def _check_options(options: Mapping[str, Any], *, encrypts: bool) -> None:
    """OptionError for options of pyarrow's writer that are not supported here."""
    for name, remedy in _UNSUPPORTED_OPTIONS.items():
        if name in options:
            raise OptionError(remedy)
    if encrypts and options.get("data_page_version", "1.0") != "1.0":
        raise OptionError("data_page_version: not all readers support encrypted pages of version 2; leave it at 1.0")


@contextmanager
def _unknown_option_named() -> Iterator[None]:
    """Raise OptionError for an option that neither this module nor pyarrow has; pyarrow's TypeError names a method that
    nobody has called."""
    try:
        yield
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise
        ours = inspect.signature(ParquetWriter).parameters
        known = [name for name in (*ours, *inspect.signature(pq.write_table).parameters) if name != "options"]
        raise OptionError(
            f"write_table and ParquetWriter have no option {unknown[1]!r}; expected one of bloomparquet.ParquetWriter "
            f"or pyarrow.parquet.ParquetWriter{did_you_mean(unknown[1], known)}"
        ) from None


def _bytes_per_row(batch: pa.RecordBatch) -> int:
    """The mean bytes of a row in memory, without dictionaries, which batches share."""
    columns = (column.indices if pa.types.is_dictionary(column.type) else column for column in batch.columns)
    total: int = sum(column.nbytes for column in columns)
    return max(1, total // max(int(batch.num_rows), 1))


def _is_recommended(footer: Footer, leaf_index: int, filters: Filters, fpp: float) -> bool:
    """Whether filters are worth their size for a column that the user did not name."""
    chunks = [footer.read_chunk(row_group, leaf_index) for row_group in range(len(footer.rows))]
    blooms = [filters.get((row_group, leaf_index)) for row_group in range(len(footer.rows))]
    values = np.array([-1 if chunk.values is None else chunk.values for chunk in chunks], np.int64)
    nulls = np.array([-1 if chunk.nulls is None else chunk.nulls for chunk in chunks], np.int64)
    ndv = np.array([math.nan if bloom is None else bloom.estimated_ndv for bloom in blooms])
    column, traits = footer.profile.schema.leaves[leaf_index], footer.profile.traits
    bounds = bounds_of(column, traits, ChunkColumns.of(chunks))
    filled = [(row_group, bloom) for row_group, bloom in enumerate(blooms) if bloom is not None]
    some = filled[:: -(-len(filled) // _COMPARED) or 1]
    shared = measure_overlap(bounds, [row_group for row_group, _ in some], [bloom for _, bloom in some])
    facts = ColumnFacts(values, nulls, bounds, ndv, shared=shared, whole=False)
    return assess(column, traits, facts, fpp=fpp).recommended
