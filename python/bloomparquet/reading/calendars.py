"""Refuses old dates and timestamps of Spark 2 and Hive: Spark reads them as other days than Arrow.

The calendar of these programs is Julian before 1582-10-15. Newer releases of Spark write it to Parquet files on
request, and to ORC files always.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import UnsupportedError
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.query.nested import leaf_arrays

_VERSION = "org.apache.spark.version"
_LEGACY_DATETIME = "org.apache.spark.legacyDateTime"
_LEGACY_INT96 = "org.apache.spark.legacyINT96"
_FIRST_DAY = np.datetime64("1582-10-15")  # of the Gregorian calendar
_FIRST_INSTANT = np.datetime64("1900-01-01")  # from then on, instants are equal in both calendars in every zone

NO_CONDITION = "read the rows in Spark, or without a condition on the column"
"""The remedy for a column that a condition compares."""

NOT_SHOWN = "use Spark's own reader of this format, or leave the column out"
"""The remedy for a value that Spark's own reader shows as another day."""


def legacy_calendar_columns(footer: Footer) -> frozenset[str]:
    """The top-level columns of a Parquet file with dates or timestamps in the calendar of Spark 2.

    Source: Spark's ``DataSourceUtils.datetimeRebaseSpec`` and ``int96RebaseSpec``.
    """
    metadata = footer.key_values
    match = re.match(r"(\d+)\.(\d+)", metadata.get(_VERSION, ""))
    if match is None:  # not written by Spark: Spark, too, takes such values as they are
        return frozenset()
    version = (int(match[1]), int(match[2]))
    datetime = version < (3, 0) or _LEGACY_DATETIME in metadata
    int96 = version < (3, 1) or _LEGACY_INT96 in metadata
    columns = set()
    for leaf in footer.profile.schema.leaves if datetime or int96 else ():
        kind = leaf.node.annotation.kind if leaf.node.annotation else None
        if (int96 and leaf.node.physical_type == "INT96") or (datetime and kind in ("DATE", "TIMESTAMP")):
            columns.add(leaf.path[0])
    return frozenset(columns)


def require_gregorian(column: pa.Array, label: str, remedy: str) -> None:
    """UnsupportedError if a column in the calendar of Spark 2 has values from before the two calendars agree."""
    for leaf in leaf_arrays(column):
        if pa.types.is_date32(leaf.type):
            first, stored = _FIRST_DAY, leaf.cast(pa.int32())
        elif pa.types.is_timestamp(leaf.type):
            first, stored = _FIRST_INSTANT.astype(f"datetime64[{leaf.type.unit}]"), leaf.cast(pa.int64())
        else:
            continue
        oldest = pc.min(stored).as_py()
        if oldest is not None and oldest < first.astype(np.int64):
            raise UnsupportedError(
                f"{label} was written in the calendar of Spark 2 and has values from before the two calendars agree; "
                f"{remedy}"
            )
