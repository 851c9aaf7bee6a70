"""Chooses the reader of a table by its file format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.reading.parquet import ParquetInspector, ParquetReader

if TYPE_CHECKING:
    from bloomparquet.reading.orc import OrcInspector, OrcReader

FormatReader: TypeAlias = "ParquetReader | OrcReader"


def reader_of(table: Table) -> FormatReader:
    """The reader of the files of `table`."""
    if table.format is FileFormat.PARQUET:
        return ParquetReader(table)
    from bloomparquet.reading.orc import OrcReader  # lazy imports: they keep ORC off the start-up path

    return OrcReader(table)


def inspector_of(part: Any) -> ParquetInspector | OrcInspector:
    """The inspector of the filters of the files of `part`, a table that is one part."""
    if part.format is FileFormat.PARQUET:
        return ParquetInspector(part)
    from bloomparquet.reading.orc import OrcInspector

    return OrcInspector(part)
