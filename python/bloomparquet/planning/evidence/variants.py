"""Evidence about a field of a VARIANT column, which a shredded file may have in a typed leaf of its own.

The layout is that of VariantShredding.md of the Parquet specification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.interface import Chunks
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.predicate import Leaf
from bloomparquet.query.resolve import NoLeaf
from bloomparquet.query.shredded import find_shredded, implied_test
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Verdicts


class TypedChunks(NamedTuple):
    """The typed leaf of a field of a VARIANT column.

    ``conclusive[i]``: whether the field passes its test in no row of chunk i if no value there passes `test`.
    """

    test: Leaf
    leaf: LeafColumn
    chunks: Chunks
    conclusive: Verdicts


def find_typed_chunks(
    field: VariantField,
    schema: FileSchema,
    chunks_of: Callable[[LeafColumn], Chunks],
    rows: NDArray[np.int64],
    *,
    case_sensitive: bool,
) -> TypedChunks | NoLeaf:
    """The evidence about `field`. ABSENT if the file lacks the column, UNKNOWN if nothing is known of the field.

    A chunk is conclusive if each row has a value in the typed leaf, because readers take that value; or if no row has a
    value in the leaves for values of other types. `rows`: the number of rows of each unit.
    """
    shredded = find_shredded(schema, field, case_sensitive=case_sensitive)
    if isinstance(shredded, NoLeaf):
        return shredded
    test = implied_test(field, shredded.leaf.node)
    if test is None:
        return NoLeaf.UNKNOWN
    chunks = chunks_of(shredded.leaf)
    count = rows[chunks.members]
    conclusive = (chunks.counts.nulls == 0) & (chunks.counts.values == count)
    if not conclusive.all():
        residuals = [chunks_of(residual).counts for residual in shredded.residuals]
        conclusive |= np.all([(each.nulls == count) & (each.values == count) for each in residuals], axis=0)
    return TypedChunks(test, shredded.leaf, chunks, conclusive)
