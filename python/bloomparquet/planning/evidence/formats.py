"""The file formats that are read."""

from __future__ import annotations

from enum import Enum
from typing import Literal

Unit = Literal["row group", "stripe"]
"""The unit that is read or skipped as a whole."""


class FileFormat(Enum):
    """A file format, by the name that Spark gives it. :func:`bloomparquet.planning.open.open_table` chooses it once for
    each data set."""

    PARQUET = "parquet"
    ORC = "orc"

    @property
    def unit(self) -> Unit:
        return "row group" if self is FileFormat.PARQUET else "stripe"

    @property
    def has_element_evidence(self) -> bool:
        """Whether statistics and filters of elements of lists and maps are used."""
        return self is FileFormat.PARQUET
