"""Chooses the reader of a table by its file format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.reading.interface import FormatReader
from bloomparquet.reading.parquet import ParquetReader


def reader_of(table: Table) -> FormatReader:
    """The reader of the files of `table`."""
    return _READERS[table.format](table)


def _orc_reader(table: Any) -> FormatReader:
    from bloomparquet.reading.orc import OrcReader  # lazy import: keeps ORC off the start-up path

    return OrcReader(table)


_READERS: dict[FileFormat, Callable[[Any], FormatReader]] = {
    FileFormat.PARQUET: ParquetReader,
    FileFormat.ORC: _orc_reader,
}
