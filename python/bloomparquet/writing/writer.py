"""Parquet files with Bloom filters of the right size, written by pyarrow.

pyarrow makes the filters, as large as a row group might need; what they hold is known when the file is closed, and then
each is folded to the size that its values need before any of it is written. The file appears at its path whole, when
everything is in it, or not at all. What is to be encrypted goes through :mod:`bloomparquet.writing.encrypted_writer`.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.values.encoding import bounds_of
from bloomparquet.planning.dataset import PathLike
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.nested import leaf_arrays
from bloomparquet.storage.atomic import Output, remove_leftover, replacing
from bloomparquet.storage.files import open_storage
from bloomparquet.storage.table_formats import directories_of, require_writable
from bloomparquet.writing.advice.worth import ColumnFacts, measure_shared, weigh
from bloomparquet.writing.encrypted_writer import SealedFile
from bloomparquet.writing.encryption import Encryption, as_encryption
from bloomparquet.writing.filters.build import insert_equals, num_bytes_for, sized
from bloomparquet.writing.filters.locate import Extent, Place
from bloomparquet.writing.filters.spec import EVERY_COLUMN, WRITE_ORC, Bloom, BloomSpec, by_column, choose
from bloomparquet.writing.outcome import FileOutcome, describe, warn_of_filters
from bloomparquet.writing.pyarrow_output import filters_in, footer_of
from bloomparquet.writing.rewrite import Filters, rewrite

_ROWS = 1 << 20
_BYTES = 128 << 20
_REFUSED = {
    "bloom_filter_options": "is pyarrow's word for what bloom says here; give bloom",
    "encryption_properties": "is for pyarrow, which writes no filters then; give encryption, a bloomparquet.Encryption",
    "metadata_collector": "would collect a footer that is not the file's; read it with pyarrow.parquet.read_metadata",
}
_MORE_ELEMENTS = 4
_COMPARED = 8  # row groups of a column, pair by pair


def write_table(
    table: pa.Table,
    path: PathLike,
    *,
    bloom: BloomSpec | None = None,
    row_group_size: int = _ROWS,
    filesystem: Any = None,
    encryption: Encryption | Keys | None = None,
    **options: Any,
) -> FileOutcome:
    """Write `table` as one Parquet file; what was at `path` is replaced when the new file is complete.

    Arguments and errors are those of :class:`ParquetWriter`.

    >>> table = pa.table({"user_id": range(1000), "amount": [0.5] * 1000})
    >>> outcome = bp.write_table(table, "orders.parquet", bloom={"user_id": bp.Bloom(fpp=0.001)})
    >>> (outcome.filters, outcome.filter_bytes)
    (1, 2048)
    """
    rows = max(1, min(row_group_size, table.num_rows))
    writer = ParquetWriter(
        path, table.schema, bloom=bloom, row_group_size=rows, filesystem=filesystem, encryption=encryption, **options
    )
    with writer:
        writer.write_table(table)
    return writer.outcome


class ParquetWriter:
    """Writes one Parquet file, table by table or batch by batch.

    `bloom` says which columns get a filter in every row group, as for :func:`bloomparquet.add_filters`; its size
    follows the distinct values of the row group. A row group is closed when it has `row_group_size` rows, or
    `row_group_bytes` in Arrow's memory. `key_values` go into the footer, beside those of `schema`; further `options`
    are those of ``pyarrow.parquet.ParquetWriter``. Used as a context manager, it closes the file, or gives it up where
    the block raises. Filters stay in memory until the file is closed: 2 MiB for a column in a row group of a million
    rows. With `encryption` (:class:`bloomparquet.Keys` will do) nothing of an encrypted column leaves the memory in
    plain text, and a row group is held in it as it will be in the file, and encrypted.

    Raises PlanError for a column that is not in `schema`, UnsupportedError for one that cannot carry a useful filter,
    for a path that ends with ``.orc`` and for one in a table of Delta Lake, Iceberg or Hudi, EncryptionError for more
    row groups or columns than an encrypted file can have, and where a KMS gives no keys.

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
        for name, told in _REFUSED.items():
            if name in options:
                raise OptionError(f"{name} {told}")
        if row_group_size < 1 or row_group_bytes < 1:
            raise OptionError(f"a row group of {row_group_size} rows and {row_group_bytes} bytes; expected 1 or more")
        self._path = os.fspath(path)
        if self._path.endswith(".orc"):
            raise UnsupportedError(f"{self._path}: this writes Parquet, whatever the file is called; {WRITE_ORC}")
        self._schema, self._rows, self._bytes = schema, row_group_size, row_group_bytes
        asked = by_column(bloom) if bloom is not None else {}
        if encryption is not None and options.get("data_page_version", "1.0") != "1.0":
            raise OptionError("data_page_version: encrypted pages of version 2 are read by some only; leave it at 1.0")
        self._options, self._key_values = options, dict(key_values or {})
        skeleton = self._skeleton()
        stored = skeleton.profile.schema
        self._chosen = choose(asked, stored, self._path)
        named = choose({column: asked[column] for column in asked if column != EVERY_COLUMN}, stored, self._path)
        self._unasked = self._chosen.keys() - named.keys()
        self._leaves = stored.leaves
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._outcome: FileOutcome | None = None
        self._filters: dict[Place, SplitBlockBloomFilter | None] = {}
        storage, inner = open_storage(self._path, filesystem)
        require_writable(storage, directories_of(storage, [inner]))
        sealing = None
        if encryption is not None:
            sealing = as_encryption(encryption).for_file(self._leaves, storage, self._path)
        remove_leftover(storage, inner)
        self._replacing = replacing(storage, inner)
        self._output: Output | None = self._replacing.__enter__()
        self._sink = _Sink(self._output)
        self._writer: pq.ParquetWriter | None = None  # made for the first row group, which tells how long lists are
        self._sealed: SealedFile | None = None
        if sealing is not None:
            try:
                self._sealed = SealedFile(self._output, sealing, skeleton, self._path)
            except BaseException:
                self.abort()
                raise

    def write_table(self, table: pa.Table) -> None:
        """Append rows. Raises what pyarrow raises for another schema than the file's."""
        for batch in table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]:
            self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises what pyarrow raises for another schema than the file's."""
        if self._output is None:
            raise ValueError("the file is closed, or given up; no more rows can be written to it")
        if batch.schema != self._schema:
            raise ValueError(f"expected batches of the schema\n{self._schema}\nfound\n{batch.schema}")
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
        """Write the rest, and put the file in its place. Nothing happens when that is done already."""
        if self._output is None:
            return
        try:
            self._flush()
            if self._sealed is None:
                self._outcome = self._finish(self._output)
            else:
                self._outcome = self._finish_sealed(self._output, self._sealed)
        finally:
            self.abort()
        warn_of_filters(self._outcome)

    def abort(self) -> None:
        """Give up: nothing is left of what was written, unless the file is closed."""
        if self._output is not None:
            self._output = None
            self._pending.clear()
            self._sink.discard()  # pyarrow's writer writes once more when it is collected
            self._replacing.__exit__(None, None, None)

    @property
    def outcome(self) -> FileOutcome:
        """What was written. The writer must be closed."""
        if self._outcome is None:
            raise ValueError("the file is not closed, so what it will be is not known")
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
                if self._sealed is None:
                    self._opened(table).write_table(table, row_group_size=self._rows)
                else:
                    self._seal(self._sealed, table)
            except BaseException:
                self.abort()  # a part of a row group may be written
                raise

    def _seal(self, sealed: SealedFile, table: pa.Table) -> None:
        """Write a row group into memory, and from there into the encrypted file."""
        memory = pa.BufferOutputStream()
        with pq.ParquetWriter(memory, self._schema, bloom_filter_options=self._rooms(table), **self._options) as writer:
            writer.write_table(table, row_group_size=self._rows)
        for place, bloom in sealed.add(memoryview(memory.getvalue()).cast("B")).items():
            self._filters[place] = self._fitted(place, bloom)

    def _opened(self, first: pa.Table | None) -> pq.ParquetWriter:
        """pyarrow's writer; `first` are the rows of the first row group, if there is one."""
        if self._writer is None:
            sink = pa.PythonFile(self._sink, mode="w")
            self._writer = pq.ParquetWriter(
                sink, self._schema, bloom_filter_options=self._rooms(first), **self._options
            )
            if self._key_values:
                self._writer.add_key_value_metadata(self._key_values)
        return self._writer

    def _rooms(self, first: pa.Table | None) -> dict[str, dict[str, float]] | None:
        """The sizes of the filters that pyarrow is to make, before they are fitted."""
        return {
            ".".join(self._leaves[leaf].path): sized(_room_for(self._leaves[leaf], wanted, self._rows, first))
            for leaf, wanted in self._chosen.items()
        } or None

    def _skeleton(self) -> Footer:
        """The footer of the file that pyarrow writes without rows."""
        memory = pa.BufferOutputStream()
        with pq.ParquetWriter(memory, self._schema, **self._options) as writer:
            if self._key_values:
                writer.add_key_value_metadata(self._key_values)
        return footer_of(memoryview(memory.getvalue()).cast("B"))

    def _finish(self, output: Output) -> FileOutcome:
        """Write the end of the file, with the filters folded."""
        writer = self._opened(None)
        self._sink.hold = True
        writer.close()
        end, first = self._sink.held(), self._sink.written
        size = first + len(end)
        footer = footer_of(end)

        def read(extents: list[Extent]) -> list[bytes]:
            return [bytes(end[start - first : stop - first]) for start, stop in extents]

        dead: list[Extent] = []
        for place, extent, bloom in filters_in(footer, end, first):
            dead.append(extent)
            self._filters[place] = self._fitted(place, bloom)
        filters = self._paying(footer)
        new = rewrite(self._path, size, footer, filters, dead, read)
        for start, stop in new.pieces:
            output.write(end[max(start - first, 0) : max(stop - first, 0)])
        for part in new.tail:
            output.write(part)
        output.commit()
        return FileOutcome(self._path, "written", 0, new.size, describe(footer, filters, self._chosen))

    def _finish_sealed(self, output: Output, sealed: SealedFile) -> FileOutcome:
        """The same of an encrypted file."""
        footer = sealed.footer()
        filters = self._paying(footer)
        size = sealed.finish(filters)
        output.commit()
        return FileOutcome(self._path, "written", 0, size, describe(footer, filters, self._chosen))

    def _fitted(self, place: Place, bloom: SplitBlockBloomFilter) -> SplitBlockBloomFilter | None:
        wanted = self._chosen.get(place[1])
        if wanted is None:  # a field whose dotted name is that of a column that was asked for
            return None
        insert_equals(self._leaves[place[1]], bloom)
        return bloom if wanted.ndv is not None else bloom.fitted(wanted.fpp)

    def _paying(self, footer: Footer) -> Filters:
        """The filters, less those that nobody has named and that are not worth their bytes."""
        filters = self._filters
        for leaf in self._unasked:
            if not _pays(footer, leaf, filters, self._chosen[leaf].fpp):
                filters.update(dict.fromkeys((place for place in filters if place[1] == leaf), None))
        return filters


def _room_for(leaf: LeafColumn, wanted: Bloom, rows: int, first: pa.Table | None) -> int:
    """The bytes to begin with. Of a list there may be any number of elements in a row; other row groups are taken to
    have no more than a few times as many as the first one."""
    if leaf.repeated and first is not None:
        elements = (len(each) for chunk in first.column(leaf.path[0]).chunks for each in leaf_arrays(chunk))
        rows = max(rows, _MORE_ELEMENTS * max(elements, default=0))
    return num_bytes_for(wanted, rows)


def _bytes_per_row(batch: pa.RecordBatch) -> int:
    """The mean, in Arrow's memory, without the dictionaries that batches share."""
    columns = (column.indices if pa.types.is_dictionary(column.type) else column for column in batch.columns)
    total: int = sum(column.nbytes for column in columns)
    return max(1, total // max(int(batch.num_rows), 1))


class _Sink(io.RawIOBase):
    """Hands on what pyarrow writes; from `hold` on, keeps it instead."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output: Output | None = output
        self._held = bytearray()
        self.hold = False
        self.written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.written + len(self._held)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self.hold:
            self._held += view
        elif self._output is not None:
            self._output.write(view)
            self.written += len(view)
        return len(view)

    def discard(self) -> None:
        """Forget what was kept, and whatever may come."""
        self._output, self.hold = None, False

    def held(self) -> memoryview:
        return memoryview(self._held)


def _pays(footer: Footer, leaf: int, filters: Filters, fpp: float) -> bool:
    """Whether filters of a column are worth their bytes that nobody has named."""
    chunks = [footer.read_chunk(row_group, leaf) for row_group in range(len(footer.rows))]
    blooms = [filters.get((row_group, leaf)) for row_group in range(len(footer.rows))]
    values, nulls = (np.array([-1 if chunk[i] is None else chunk[i] for chunk in chunks], np.int64) for i in (0, 1))
    ndv = np.array([math.nan if bloom is None else bloom.estimated_ndv for bloom in blooms])
    column, traits = footer.profile.schema.leaves[leaf], footer.profile.traits
    bounds = bounds_of(column, traits, chunks)
    filled = [(row_group, bloom) for row_group, bloom in enumerate(blooms) if bloom is not None]
    some = filled[:: -(-len(filled) // _COMPARED) or 1]
    shared = measure_shared(bounds, [row_group for row_group, _ in some], [bloom for _, bloom in some])
    facts = ColumnFacts(values, nulls, bounds, ndv, shared=shared, whole=False)
    return weigh(column, traits, facts, fpp=fpp).pays
