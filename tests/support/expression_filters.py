"""Filters of ``lower(column)`` and ``upper(column)`` for plans of one file."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.parquet.columns import ColumnChunks

Cells = list[str | None]


class FilterOfExpression:
    """Exact sets in place of Bloom filters, made as the contract of `expression_filters` says: a chunk with a value
    outside ASCII has none."""

    def __init__(self, chunks: ColumnChunks, case: str, groups: list[Cells], missing: Set[int]) -> None:
        self.errors: dict[int, Any] = {}
        self.asked: list[int] = []
        cells = [[cell for cell in groups[i] if cell is not None] for i in chunks.members.tolist()]
        present = [all(map(str.isascii, group)) and i not in missing for i, group in enumerate(cells)]
        self.present = self.in_index = np.array(present, np.bool_)
        mapped = [[getattr(cell.encode(), case)().decode() for cell in group if cell.isascii()] for group in cells]
        self._hashes = [set(_hashes(chunks, group)) for group in mapped]

    def check(self, question: Question) -> NDArray[np.bool_]:
        assert self.present[question.chunks].all()
        self.asked += question.chunks.tolist()
        spans = zip(question.chunks.tolist(), question.first.tolist(), question.last.tolist(), strict=True)
        hits = [bool(self._hashes[chunk] & set(question.hashes[first:last].tolist())) for chunk, first, last in spans]
        return np.array(hits, np.bool_)


def _hashes(chunks: ColumnChunks, values: list[str]) -> list[int]:
    encoded = chunks.encode(values, "UTC")
    assert encoded is not None
    assert encoded.hashes is not None
    return encoded.hashes.tolist()


def with_filters(patch: pytest.MonkeyPatch, groups: list[Cells], missing: Set[int] = frozenset()) -> list[Any]:
    """Give column c of the only file filters of its expressions. Returns the filters that plans have used."""
    used: list[Any] = []

    def expression_filters(chunks: ColumnChunks, case: str) -> FilterOfExpression:
        used.append(FilterOfExpression(chunks, case, groups, missing))
        return used[-1]  # type: ignore[no-any-return]

    patch.setattr(ColumnChunks, "expression_filters", expression_filters)
    return used
