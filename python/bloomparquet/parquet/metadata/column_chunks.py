"""Reads the column chunks of a footer, decoding only the fields that planning needs.

pyarrow is not used: it ends the whole process over some footers (an encrypted column without its key, a size statistic
that it holds impossible). A plan must not end a driver.

The chunks of one column have the same fields in every row group of every file, and are read by templates
(:mod:`bloomparquet.parquet.thrift.template`). Columns of one physical type share their templates. A chunk that matches
none is decoded field by field and gives another template. Compiling a template takes long, so the number of templates
and their length are limited: a hostile file could have another form in every chunk. Beyond the limits, chunks are
decoded field by field each time.

Source: parquet-format ``parquet.thrift`` (RowGroup, ColumnChunk, ColumnMetaData, Statistics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError, LimitError
from bloomparquet.parquet.metadata.chunk_fields import (
    BOUNDS,
    DEPRECATED_BOUNDS,
    KINDS,
    NUMBERS,
    ORDERED_BOUNDS,
    PATH_IN_SCHEMA,
    PRESENCE_ONLY,
    SLOTS,
    ChunkColumns,
    ChunkFields,
)
from bloomparquet.parquet.thrift.definitions import EncryptionWithColumnKey
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.parquet.thrift.struct_arrays import Buffer, Matches, match
from bloomparquet.parquet.thrift.template import Template, Wanted, compile_template, zigzag
from bloomparquet.parquet.thrift.writer import write_struct

_KEPT_TEMPLATES = 64  # of a pool
_MAX_LEARNED = 256  # templates of one pool; the files of many writers have a dozen forms
_CHUNKS_PER_TEMPLATE = 64  # beyond that: decoding so many chunks takes as long as compiling a template
_MAX_STEPWISE, _STEPWISE_PER_COLUMN = 1 << 15, 256  # chunks of one footer that are decoded field by field
_MAX_VALUES = 1 << 13  # Thrift values of one chunk
_ROUNDS = 8  # how many forms of chunks are read many at a time; the others one by one
_MANY_TO_READ = 64  # from this number of chunks on, reading them all at once takes less time than one after the other
MANY = 160
"""From this number of structs on, finding the ends of all at once takes less time than one after the other."""

_NOTHING = [None] * len(SLOTS)
_WANTED = Wanted(SLOTS, KINDS, PRESENCE_ONLY, BOUNDS, PATH_IN_SCHEMA)


class DecodeBudget:
    """Limits how many chunks of one footer are decoded field by field, which takes a hundred times as long as matching
    a template."""

    def __init__(self, columns: int) -> None:
        self._limit = self._left = _MAX_STEPWISE + _STEPWISE_PER_COLUMN * columns

    def take(self) -> None:
        """Count one chunk. LimitError if the limit is exceeded."""
        self._left -= 1
        if self._left < 0:
            raise LimitError(
                f"more than {self._limit:,} column chunks have metadata of a form of their own; the file is damaged or "
                "malicious"
            )


class TemplatePool:
    """The templates of a schema's columns of one physical type, whose chunks differ in their path alone.

    `fixed_width`: all values of the columns, and so all bounds, have the same number of bytes.
    """

    def __init__(self, *, fixed_width: bool) -> None:
        self._fixed_width = fixed_width
        self._learned = self._stepwise = 0
        self.templates: tuple[Template, ...] = ()  # the latest first; replaced, never changed: threads may share it

    def learn(self, buffer: bytes, position: int) -> tuple[Template, bytes] | None:
        """Make a template of the chunk at `position`. Returns it with the column's path; None if the chunk must be
        decoded field by field."""
        # Templates are made beyond the limit too, but rarely: a hostile file must not slow down all files after it.
        learns = self._learned < _MAX_LEARNED or self._stepwise % _CHUNKS_PER_TEMPLATE == 0
        learned = compile_template(buffer, position, _WANTED, one_width=self._fixed_width) if learns else None
        self._stepwise += 1
        if learned is not None:
            self._learned += 1
            self.templates = (learned[0], *self.templates[: _KEPT_TEMPLATES - 1])
        return learned


class ChunkTemplates:
    """Reads the chunks of one column, with the templates of its `pool`."""

    __slots__ = ("_best", "_path", "_pool")

    def __init__(self, pool: TemplatePool, path: tuple[str, ...]) -> None:
        names = [name.encode("utf-8", "surrogateescape") for name in path]
        self._path = write_struct(EncryptionWithColumnKey(path_in_schema=names))[1:-1]  # the list alone
        self._pool = pool
        self._best: tuple[Template, bytes] | None = None  # the template that matched last, with the path

    def skip(self, buffer: bytes, position: int, budget: DecodeBudget) -> int:
        """The end of the chunk at `position`. FormatError if it is damaged."""
        return self._match(buffer, position, None, budget)

    def read(self, buffer: bytes, position: int) -> ChunkFields:
        """The fields of the chunk at `position`. FormatError if it is damaged."""
        values: list[Any] = _NOTHING.copy()
        self._match(buffer, position, values)
        for i in range(NUMBERS):
            if isinstance(values[i], bytes):
                values[i] = zigzag(values[i])
        return ChunkFields(*values)

    def skip_all(
        self, buffer: Buffer, positions: NDArray[np.int64], limits: NDArray[np.int64], budget: DecodeBudget
    ) -> NDArray[np.int64]:
        """The ends of the chunks at `positions`; -1 for a chunk that is damaged or ends after its limit."""
        ends = np.full(len(positions), -1, np.int64)

        def skip_one(i: int) -> None:
            with suppress(BloomParquetError):
                end = self.skip(buffer.data, int(positions[i]), budget)
                ends[i] = end if end <= limits[i] else -1

        for _, matches, matched, chunks in self._match_all(buffer, positions, limits, skip_one, MANY):
            ends[chunks] = matches.ends[matched]
        return ends

    def read_all(
        self,
        buffer: Buffer,
        positions: NDArray[np.int64],
        limits: NDArray[np.int64],
        columns: ChunkColumns,
        rows: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Read the chunks at `positions`; the i-th goes into ``columns`` at ``rows[i]``. Returns which were read: not
        those that are encrypted or damaged, or end after their limit."""
        is_read = np.zeros(len(positions), np.bool_)

        def read_one(i: int) -> None:
            with suppress(BloomParquetError):
                if self.skip(buffer.data, int(positions[i]), DecodeBudget(1)) <= limits[i]:
                    fields = self.read(buffer.data, int(positions[i]))
                    if not fields.is_encrypted:
                        columns.put(int(rows[i]), fields)
                        is_read[i] = True

        for template, matches, matched, chunks in self._match_all(buffer, positions, limits, read_one, _MANY_TO_READ):
            if template.present or any(slot not in BOUNDS for slot in matches.strings):
                continue  # encrypted
            at = rows[chunks]
            for slot, column in enumerate(columns.numbers):
                if slot in matches.integers:
                    column[at] = matches.integers[slot][matched]
            is_deprecated = not any(slot in matches.strings for slot in ORDERED_BOUNDS)
            columns.deprecated[at] = is_deprecated
            bounds = DEPRECATED_BOUNDS if is_deprecated else ORDERED_BOUNDS
            for slot, texts in zip(bounds, (columns.lower, columns.upper), strict=True):
                if slot in matches.strings:
                    start, size = (array[matched] for array in matches.strings[slot])
                    ends = (start + size).tolist()
                    for row, i, j in zip(at.tolist(), start.tolist(), ends, strict=True):
                        texts[row] = buffer.data[i:j]
            is_read[chunks] = True
        return is_read

    def _match_all(
        self,
        buffer: Buffer,
        positions: NDArray[np.int64],
        limits: NDArray[np.int64],
        read_one: Callable[[int], None],
        many: int,
    ) -> Iterator[tuple[Template, Matches, NDArray[np.bool_], NDArray[np.int64]]]:
        """Read the chunks at `positions` in rounds. In each, `read_one` reads one chunk, which finds the template that
        many others may match. Yields the template, what it read, where it matched, and the numbers of these chunks.

        Chunks of rare forms, and the last ones if they are not `many`, are left to `read_one`.
        """
        left = np.arange(len(positions))
        for _ in range(_ROUNDS):
            if len(left) < many:
                break
            read_one(int(left[0]))
            left = left[1:]
            if self._best is not None:
                template, path = self._best
                matches = match(template, path, buffer, positions[left], limits[left])
                matched = matches.ends >= 0
                yield template, matches, matched, left[matched]
                left = left[~matched]
        for i in left.tolist():
            read_one(i)

    def _match(self, buffer: bytes, position: int, values: list[Any] | None, budget: DecodeBudget | None = None) -> int:
        """The end of the chunk at `position`; its fields go into `values`."""
        best = self._best
        if best is not None and (end := best[0].match(best[1], buffer, position, values)) is not None:
            return end
        for template in self._pool.templates:
            if values is not None:
                values[:] = _NOTHING  # another template has set some
            if (end := template.match(self._path, buffer, position, values)) is not None:
                self._best = template, self._path
                return end
        learned = self._pool.learn(buffer, position)
        if learned is None:
            if budget is not None:
                budget.take()
            return _decode(buffer, position, values)
        self._best = template, path = learned
        if values is not None:
            values[:] = _NOTHING
        if (end := template.match(path, buffer, position, values)) is None:
            raise FormatError(f"the column chunk at byte {position} of the footer is truncated")
        return end


def _decode(buffer: bytes, position: int, values: list[Any] | None) -> int:
    """Decode the chunk at `position` field by field into `values`. Returns its end."""
    reader = CompactReader(buffer, position, most=_MAX_VALUES)
    chunk = reader.read_struct(ThriftStruct)
    if values is not None:
        values[:] = [_field(chunk, path) for path in SLOTS]
    return reader.position


def _field(struct: ThriftStruct, path: tuple[int, ...]) -> Any:
    for field_id in path[:-1]:
        inner = struct.get(field_id)
        if not isinstance(inner, ThriftStruct):
            return None
        struct = inner
    if path in PRESENCE_ONLY:
        return b"" if path[-1] in struct else None
    return struct[path[-1]] if struct.kinds.get(path[-1]) == KINDS[path] else None
