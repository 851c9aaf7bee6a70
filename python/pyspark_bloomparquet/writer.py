"""The writer behind ``df.write.format("bloomparquet")`` and ``"bloomorc"`` without the jar: Arrow batches to files with
filters.

Made and checked on the driver, pickled to the tasks, which stage files, and to another process of the driver, which
commits them (see :mod:`pyspark_bloomparquet.commit`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from bloomparquet.errors import BloomParquetError, OptionError, UnsupportedError
from bloomparquet.partitions import parse_directories
from bloomparquet.storage import open_storage
from bloomparquet.writing.logged import require_no_log
from pyspark_bloomparquet.batches import arrow_schema
from pyspark_bloomparquet.commit import Overwrite, abandon, begin, commit, is_written
from pyspark_bloomparquet.directories import check_partition_type, split
from pyspark_bloomparquet.formats import format_of
from pyspark_bloomparquet.places import open_places
from pyspark_bloomparquet.staging import make_task_directory

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_bloomparquet.formats import Layout, OpenFile
    from pyspark_bloomparquet.staging import Job
    from pyspark_bloomparquet.write_options import TableOptions

_SESSION_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"
_SORTED_BYTES = 256 << 20  # of Arrow's memory that a task holds to bring the rows of a partition together


@dataclass(frozen=True)
class Partitions:
    """The partition columns: what their directories are called, and their places among the columns."""

    names: tuple[str, ...] = ()
    places: tuple[int, ...] = ()


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged: (where in the staging directory, where in the table), and the columns whose filters
    `bloomMaxBytes` has made worse than asked, with the worst fpp of each. `dynamic` is what the session says of
    overwriting partitions, which only tasks are told."""

    files: tuple[tuple[str, str], ...] = ()
    limited: tuple[tuple[str, float], ...] = ()
    dynamic: bool = False


def make_writer(options: TableOptions, schema: StructType, overwrite: bool) -> BloomParquetWriter:
    """The writer of one job, when all that can be said without the rows has been checked. On the driver."""
    files = format_of(options).files
    files.check(schema, case_sensitive=options.case_sensitive)
    try:
        sparks = arrow_schema(schema)
    except Exception as error:
        raise UnsupportedError(
            f"the DataFrame has a type that Spark hands over to no Python data source: {error}; cast the column"
        ) from error
    places, root = open_places(options.path)
    storage, inner = open_storage(options.path)
    require_no_log(storage, [inner])
    files.require_plain(storage, inner, options.path)
    existing = None if overwrite else _existing_partitions(options.path)
    partitions = _partitions(options, sparks.names, existing)
    for place in partitions.places:
        check_partition_type(sparks.names[place], sparks.field(place).type)
    kept = [i for i in range(len(sparks)) if i not in partitions.places]
    layout = files.layout(options, type(schema)([schema.fields[i] for i in kept]))
    job = begin(options.path)
    skip = False
    if not overwrite and options.if_exists != "append" and is_written(places, root):
        abandon(job)
        if options.if_exists == "error":
            raise _exists(options)
        skip = True
    return BloomParquetWriter(options, job, layout, kept, partitions, overwrite, skip)


class BloomParquetWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame; `skip` says that there are rows already, and that none are wanted then."""

    def __init__(
        self,
        options: TableOptions,
        job: Job,
        layout: Layout,
        kept: Sequence[int],
        partitions: Partitions,
        overwrite: bool,
        skip: bool,
    ) -> None:
        self.options, self.job, self.layout, self.kept, self.partitions = options, job, layout, list(kept), partitions
        self.overwrite, self.skip = overwrite, skip

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one task. On an executor."""
        if self.skip:
            return Staged()
        task = _Task(self)
        try:
            return task.write(iterator)
        except BaseException:
            task.give_up()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make all of it visible at once. On the driver, when every task is done."""
        if self.skip:
            return
        staged = [message for message in messages if isinstance(message, Staged)]
        moves = [move for message in staged for move in message.files]
        dynamic = self.options.dynamic_overwrite
        if dynamic is None:
            dynamic = any(message.dynamic for message in staged)
        whole: Overwrite = "partitions" if dynamic and self.partitions.names else "everything"
        only_new = not self.overwrite and self.options.if_exists != "append"
        done = commit(self.job, moves, whole if self.overwrite else "nothing", only_new=only_new)
        if not done and self.options.if_exists == "error":
            raise _exists(self.options)
        self.layout.tell([limit for message in staged for limit in message.limited])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave nothing of it. On the driver, when a task has failed for good, or the commit has."""
        if not self.skip:
            abandon(self.job)


class _Task:
    """One attempt of a task: its files, under names that no other attempt has."""

    def __init__(self, writer: BloomParquetWriter) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        self._writer = writer
        self._partition = context.partitionId() if context else 0
        self._name = f"{self._partition:05d}-{context.taskAttemptId() if context else 0}"
        self._codec = writer.layout.codec(partial(_session_value, context))
        self._dynamic = (_session_value(context, _SESSION_OVERWRITE) or "").lower() == "dynamic"
        self._files: list[tuple[str, str]] = []
        self._limited: list[tuple[str, float]] = []
        self._open: tuple[str, OpenFile] | None = None

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        make_task_directory(self._writer.job, self._name)
        if self._writer.partitions.names:
            self._write_partitions(batches)
        else:
            for batch in batches:
                if batch.num_rows:
                    self._append("", self._stored(batch))
            # As Spark has it, one file at least, so that the table has a schema.
            if self._partition == 0 and self._open is None:
                self._start("")
        self._finish()
        return Staged(tuple(self._files), tuple(self._limited), self._dynamic)

    def give_up(self) -> None:
        if self._open is not None:
            self._open[1].abort()
        places, _ = open_places(self._writer.job.url)
        places.remove_tree(self._writer.job.task_directory(self._name))

    def _write_partitions(self, batches: Iterator[pa.RecordBatch]) -> None:
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= _SORTED_BYTES:
                self._distribute(held)
                held, size = [], 0
        if held:
            self._distribute(held)

    def _distribute(self, batches: list[pa.RecordBatch]) -> None:
        (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
        zone = self._writer.options.time_zone or _zone_of(batch.schema)
        parts = list(split(batch, self._writer.partitions.names, self._writer.partitions.places, zone))
        # Rows that come sorted go on where the last ones have ended: no file is begun that need not be.
        before = self._open[0] if self._open is not None else None
        for directory, rows in sorted(parts, key=lambda part: part[0] != before):
            self._append(directory, self._stored(_taken(batch, rows)))

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._writer.layout.stored(batch.select(self._writer.kept))

    def _append(self, directory: str, batch: pa.RecordBatch) -> None:
        if self._open is None or self._open[0] != directory:
            self._finish()
            self._start(directory)
        assert self._open is not None
        self._open[1].write_batch(batch)

    def _start(self, directory: str) -> None:
        writer = self._writer
        below = f"{directory}/" if directory else ""
        number = sum(os.path.dirname(target) == directory for _, target in self._files)
        counter = f"{'.' if directory else '-'}c{number:03d}"
        file = f"part-{self._partition:05d}-{writer.job.id}{counter}{writer.layout.extension(self._codec)}"
        place = make_task_directory(writer.job, self._name, directory)
        self._files.append((f"data/{self._name}/{below}{file}", f"{below}{file}"))
        storage, _ = open_storage(writer.options.path)
        self._open = directory, writer.layout.open(f"{place}/{file}", storage, self._codec)

    def _finish(self) -> None:
        if self._open is not None:
            _, file = self._open
            self._limited += file.close()
            self._open = None


def _taken(batch: pa.RecordBatch, rows: Any) -> pa.RecordBatch:
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows.astype(np.int64)))


def _session_value(context: Any, name: str) -> str | None:
    """What the session's configuration says, which Spark hands to tasks alone."""
    return None if context is None else context.getLocalProperty(name)


def _zone_of(schema: pa.Schema) -> str:
    """The session's time zone, which is that of Spark's batches."""
    return next((field.type.tz for field in schema if pa.types.is_timestamp(field.type) and field.type.tz), "UTC")


def _exists(options: TableOptions) -> BloomParquetError:
    return BloomParquetError(
        f"{options.path}: there is something already, and the option ifExists is 'error'; write to another path, or "
        "say append or overwrite"
    )


def _existing_partitions(url: str) -> tuple[str, ...] | None:
    """The partition columns of the files at `url`; None where there are no files."""
    storage, inner = open_storage(url)
    try:
        files = storage.list_files(inner, recursive=True)
    except FileNotFoundError:
        return None
    root = inner.rstrip("/")
    found = {
        tuple(name for name, _ in parse_directories(os.path.dirname(file.path[len(root) + 1 :]).split("/")))
        for file in files
    }
    if len(found) > 1:
        layouts = "; ".join(sorted(", ".join(names) or "none" for names in found))
        raise UnsupportedError(f"{url}: the files that are there have different partition columns: {layouts}")
    return found.pop() if found else None


def _partitions(options: TableOptions, names: Sequence[str], existing: tuple[str, ...] | None) -> Partitions:
    """The partition columns that were asked for, or else those that there are."""
    asked = options.partition_by if options.partition_by is not None else existing or ()
    by_folded = {name if options.case_sensitive else name.lower(): i for i, name in enumerate(names)}
    places: list[int] = []
    for column in asked:
        place = by_folded.get(column if options.case_sensitive else column.lower())
        if place is None:
            origin = (
                f"option partitionBy is {','.join(asked)!r} and names {column!r}"
                if options.partition_by is not None
                else f"the files at {options.path} are partitioned by {', '.join(asked)}"
            )
            raise OptionError(f"{origin}, and there is no column {column!r}; the columns are {', '.join(names)}")
        if place in places:
            raise OptionError(f"option partitionBy is {','.join(asked)!r} and names {column!r} twice")
        places.append(place)
    found = tuple(names[place] for place in places)
    if existing is not None:
        if [name.lower() for name in found] != [name.lower() for name in existing]:
            raise OptionError(
                f"option partitionBy is {','.join(asked)!r}, and the files at {options.path} are partitioned by "
                f"{', '.join(existing) or 'nothing'}; leave the option out to go on as they are"
            )
        found = existing
    if places and len(places) == len(names):
        raise OptionError("all columns are partition columns; files need one column at least")
    return Partitions(found, tuple(places))
