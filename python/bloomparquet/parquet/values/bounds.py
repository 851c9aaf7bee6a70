"""The minima and maxima that footers give, as far as they can be relied on.

Source: parquet-format ``parquet.thrift`` (Statistics, ColumnOrder).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bloomparquet.parquet.metadata.column_chunks import ChunkFields
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.parquet.values.encoding import has_signed_order, order_keys
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.ordering import Bounds


def bounds_of(leaf: LeafColumn, traits: WriterTraits, chunks: Sequence[ChunkFields]) -> Bounds | None:
    """The bounds that can be relied on: min_value and max_value where the file defines their order, else the deprecated
    ones where every writer ordered them alike."""
    ordered, signed = traits.column_orders[leaf.index], has_signed_order(leaf)
    lower: list[bytes | None] = []
    upper: list[bytes | None] = []
    for chunk in chunks:
        deprecated = signed and chunk.min_value is None and chunk.max_value is None
        lower.append(chunk.deprecated_min if deprecated else chunk.min_value if ordered else None)
        upper.append(chunk.deprecated_max if deprecated else chunk.max_value if ordered else None)
    lows, highs = order_keys(leaf, lower), order_keys(leaf, upper)
    if lows is None or highs is None:
        return None
    known = lows[1] & highs[1]
    # Bounds the wrong way round prove nothing but that their writer erred.
    known &= np.asarray(lows[0] <= highs[0], np.bool_)
    return Bounds(lows[0], highs[0], known)
