"""Files of Spark 2 and Hive: which of their columns count old days in the hybrid Julian calendar.

Source: Spark's ``DataSourceUtils.datetimeRebaseSpec`` and ``int96RebaseSpec``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomparquet.parquet.metadata.footer import Footer

_VERSION = "org.apache.spark.version"
_DATES = "org.apache.spark.legacyDateTime"
_INT96 = "org.apache.spark.legacyINT96"


def columns(footer: Footer) -> tuple[str, ...]:
    """The top-level DATE and TIMESTAMP columns whose old values are in the old calendar; none for nearly every file."""
    metadata = footer.key_values
    written = re.match(r"(\d+)\.(\d+)", metadata.get(_VERSION, ""))
    if written is None:  # not Spark's: taken as it stands, which is Spark's default too
        return ()
    version = (int(written.group(1)), int(written.group(2)))
    dates = version < (3, 0) or _DATES in metadata
    int96 = version < (3, 1) or _INT96 in metadata
    if not dates and not int96:
        return ()
    found = []
    for node in footer.layout.schema.root.children:
        kind = node.annotation.kind if node.annotation else None
        if (int96 and node.physical_type == "INT96") or (dates and kind in ("DATE", "TIMESTAMP")):
            found.append(node.name)
    return tuple(found)
