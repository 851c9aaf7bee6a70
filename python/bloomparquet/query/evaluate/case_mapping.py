"""Maps the case of text as Spark's ``lower`` and ``upper`` do.

Spark maps ASCII text letter by letter, and other text by ICU in the JVM's default locale. A few locales have rules of
their own (Azeri, Armenian, Greek, Lithuanian, Turkish); this module follows all others. Arrow's functions for text
outside ASCII do not serve, because they map each letter by itself: no final sigma, no letter that becomes two. Python's
`str.lower` and `str.upper` have ICU's rules, in the Unicode version of the Python release.

Source: The Unicode Standard, section 3.13, "Default Case Algorithms".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.query.arrow_values import TRUE, make_array
from bloomparquet.query.case_mapping import Case


def map_case(column: Any, case: Case) -> Any:
    """``lower(column)`` or ``upper(column)`` of an Arrow column of text. Null stays null."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([map_case(chunk, case) for chunk in column.chunks], column.type)
    mapped = pc.ascii_lower(column) if case == "lower" else pc.ascii_upper(column)
    is_ascii = pc.fill_null(pc.string_is_ascii(column), TRUE)
    if pc.all(is_ascii).as_py() is not False:
        return mapped
    is_other = pc.invert(is_ascii)
    texts = column.filter(is_other).cast(pa.large_binary()).to_pylist()
    change = str.lower if case == "lower" else str.upper
    others = [change(text.decode("utf-8", "replace")) for text in texts]
    return pc.replace_with_mask(mapped, is_other, make_array(others, column.type))
