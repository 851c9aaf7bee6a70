"""Chooses the columns that are written with a dictionary.

pyarrow starts every column with a dictionary, and gives it up at ``dictionary_pagesize_limit``. For values that hardly
repeat, the dictionary is as large as the values, and a reader of one row must decode it whole. A lower limit for all
columns would be no remedy: it takes the dictionary from columns that repeat some ten thousand values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.query.columns import LeafColumn

_SAMPLE = 1 << 14
_MOST_PAIRS = 0.05  # of equal values, for each row
_CHOICES = ("use_dictionary", "column_encoding", "dictionary_pagesize_limit")


def dictionary_options(
    rows: pa.Table | None, leaves: Sequence[LeafColumn], options: Mapping[str, Any]
) -> dict[str, list[str]]:
    """pyarrow's ``use_dictionary``, unless `options` choose encodings: all `leaves` but the top-level columns that
    hardly repeat a value in `rows`, the first row group. Empty if these are none."""
    if rows is None or any(name in options for name in _CHOICES):
        return {}
    positions = np.unique(np.random.default_rng(0).integers(0, rows.num_rows, _SAMPLE))
    columns = zip(rows.column_names, rows.columns, strict=True)
    plain = {(name,) for name, column in columns if _hardly_repeats(column, positions)}
    return {"use_dictionary": [".".join(leaf.path) for leaf in leaves if leaf.path not in plain]} if plain else {}


def _hardly_repeats(column: pa.ChunkedArray, positions: NDArray[np.int64]) -> bool:
    """Whether few values of `column` are equal, by a sample. Equal pairs in it stand for all pairs of the column."""
    sample = column.take(pa.array(positions)).drop_null().combine_chunks()
    if isinstance(sample, pa.ExtensionArray):
        sample = sample.storage
    with suppress(pa.ArrowNotImplementedError):  # nested, or encoded with a dictionary already
        repeated: int = len(sample) - pc.count_distinct(sample).as_py()
        return repeated * len(column) < _MOST_PAIRS * len(sample) * len(positions)
    return False
