"""Finds the reasons why one leaf predicate keeps row groups. ``explain.py`` puts the reasons of all leaves together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import EncryptionError, PlanError
from bloomparquet.planning.evidence.interface import ChunkFilters, Chunks, Question, RowRanges
from bloomparquet.planning.evidence.statistics import Candidates, judge_bounds, may_hold_nan
from bloomparquet.planning.evidence.variants import find_typed_chunks
from bloomparquet.planning.judge import Request
from bloomparquet.query.case_mapping import CaseIn
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.like import Like
from bloomparquet.query.names import column_to_sql
from bloomparquet.query.predicate import (
    Column,
    Gt,
    GtEq,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Predicate,
    StartsWith,
    columns,
    leaves,
)
from bloomparquet.query.resolve import NoLeaf, find_leaf_of
from bloomparquet.query.variants import VariantField
from bloomparquet.query.why_not import SATURATED_FPP, WhyNot, share_of_absent
from bloomparquet.storage.files import ReadCount, Storage

_SAMPLED_FILTERS = 16
_PROBES = 512  # random hashes that the sampled filters are asked for, all of them together


@dataclass(frozen=True, slots=True)
class Why:
    """A reason why row groups are kept. `detail`: what its sentence names. `column`: the column for its remedy, as a
    path or as SQL writes its name."""

    reason: WhyNot
    detail: str = ""
    column: Column | str = ()


Reasons = Iterator[tuple[NDArray[np.int64], Why]]
"""Positions of row groups, and why they are kept."""


def explain_kept(
    units: RowRanges, leaf: Predicate, kept: NDArray[np.bool_], asked: NDArray[np.bool_], request: Request
) -> Reasons:
    """Why evidence about `leaf` keeps the units that are `kept`. `leaf` is a leaf predicate in negation normal form, or
    the conditions on elements that stand for one. `asked`: the units of which judging `leaf` asked a usable filter."""
    options = request.options
    choices = [leaf] if isinstance(leaf, Not) else list(leaves(leaf))
    for i, schema in enumerate(units.schemas):
        members = units.members(i)
        members = members[kept[members]]
        if not len(members):
            continue
        leaf = choices[0]
        if isinstance(leaf, VariantField):
            yield from _explain_variant(units, leaf, i, members, asked, request)
            continue
        stored = find_leaf_of(schema, leaf, case_sensitive=options.case_sensitive)
        for other in choices[1:]:  # a list or a map: the first that this file has
            if isinstance(stored, NoLeaf):
                leaf, stored = other, find_leaf_of(schema, other, case_sensitive=options.case_sensitive)
        (column,) = columns(leaf)
        if column in request.unknown:
            yield members, Why(WhyNot.UNKNOWN_COLUMN, column=column)
        elif isinstance(leaf, ElementIn) and not units.format.has_element_evidence:
            yield members, Why(WhyNot.LIST_IN_ORC, column=column)
        elif stored is NoLeaf.UNKNOWN:
            yield members, Why(WhyNot.AMBIGUOUS_COLUMN, column=column)
        else:
            leaf_column = None if isinstance(stored, NoLeaf) else stored
            reader_type = options.reader_types.get((*column, leaf.part) if isinstance(leaf, ElementIn) else column)
            if not units.is_lossless(i, leaf_column, reader_type):
                yield members, Why(WhyNot.READER_TYPE, reader_type or "one type for all files", column)
            elif leaf_column is None:  # every value is NULL
                yield members, Why(WhyNot.NULLS_EVERYWHERE, column=column)
            else:
                chunks = units.chunks(i, leaf_column, request.footer_reads)
                positions = np.flatnonzero(kept[chunks.members])
                reasons = _ChunkReasons(leaf, leaf_column, chunks, asked[chunks.members], request)
                for some, why in reasons.explain(positions):
                    yield chunks.members[some], why


def _explain_variant(
    units: RowRanges,
    field: VariantField,
    profile: int,
    members: NDArray[np.int64],
    asked: NDArray[np.bool_],
    request: Request,
) -> Reasons:
    typed = find_typed_chunks(
        field, units.schemas[profile], lambda leaf: units.chunks(profile, leaf, request.footer_reads), units.rows,
        case_sensitive=request.options.case_sensitive,
    )  # fmt: skip
    if isinstance(typed, NoLeaf):
        yield members, Why(WhyNot.NOT_SHREDDED, field.path, field.column)
        return
    is_kept = np.isin(typed.chunks.members, members)
    yield typed.chunks.members[is_kept & ~typed.conclusive], Why(WhyNot.NOT_SHREDDED, field.path, field.column)
    reasons = _ChunkReasons(typed.test, typed.leaf, typed.chunks, asked[typed.chunks.members], request)
    for some, why in reasons.explain(np.flatnonzero(is_kept & typed.conclusive)):
        yield typed.chunks.members[some], why


class _ChunkReasons:
    """Why a leaf predicate does not exclude chunks of one column. ``asked[i]``: whether the filter of chunk i was
    asked."""

    def __init__(
        self, leaf: Predicate, leaf_column: LeafColumn, chunks: Chunks, asked: NDArray[np.bool_], request: Request
    ) -> None:
        self._leaf, self._chunks, self._asked, self._request = leaf, chunks, asked, request
        self._column, self._type = leaf_column.path, leaf_column.describe()

    def explain(self, kept: NDArray[np.int64]) -> Reasons:
        """The chunks at the positions `kept`, by the reason why they are kept."""
        leaf, chunks = self._leaf, self._chunks
        errors, present = chunks.filters.errors, chunks.filters.present
        for i in kept[[int(i) in errors and not present[i] for i in kept]].tolist():  # the metadata is unreadable
            yield np.array([i]), self._why_error(i)
        kept = kept[[int(i) not in errors or bool(present[i]) for i in kept]]
        is_shown = chunks.shown_as_stored[kept]
        yield kept[~is_shown], self._why(WhyNot.NARROW_TYPE, self._type)
        kept = kept[is_shown]
        if isinstance(leaf, IsNull):
            unknown = chunks.counts.nulls[kept] < 0
            yield kept[unknown], self._why(WhyNot.NO_NULL_COUNT)
            yield kept[~unknown], self._why(WhyNot.NULLS_EVERYWHERE)
        elif isinstance(leaf, IsNotNull):
            yield kept, self._why(WhyNot.NOT_NULL)
        elif isinstance(leaf, Not | NotEq | NotIn):
            yield kept, self._why(WhyNot.NEGATION)
        else:
            try:
                _, candidates = judge_bounds(leaf, chunks, self._request.options.timezone)
            except PlanError as error:
                yield kept, self._why(WhyNot.LITERAL_TYPE, str(error))
                return
            if isinstance(leaf, Like) and not leaf.prefix:
                yield kept, self._why(WhyNot.LEADING_WILDCARD)
            elif isinstance(leaf, Like):
                yield from self._range(StartsWith(leaf.column, leaf.prefix), kept)
            elif isinstance(leaf, StartsWith | Lt | LtEq | Gt | GtEq):
                yield from self._range(leaf, kept)
            elif isinstance(leaf, CaseIn):
                yield from self._case(leaf, candidates, kept)
            else:
                yield from self._equality(candidates, kept)

    def _why(self, reason: WhyNot, detail: str = "") -> Why:
        return Why(reason, detail, self._column)

    def _why_error(self, chunk: int) -> Why:
        error = self._chunks.filters.errors[chunk]
        return self._why(
            WhyNot.KEY_MISSING if isinstance(error, EncryptionError) else WhyNot.UNUSABLE_FILTER, _message(error)
        )

    def _proves_nothing(self) -> bool:
        """Whether no literal has a certain form among the values of this type."""
        return self._chunks.encode((), self._request.options.timezone) is None

    def _range(self, leaf: StartsWith | Lt | LtEq | Gt | GtEq, kept: NDArray[np.int64]) -> Reasons:
        chunks = self._chunks
        upwards = not isinstance(leaf, Lt | LtEq)
        value = leaf.prefix if isinstance(leaf, StartsWith) else leaf.value
        if self._proves_nothing() or (isinstance(leaf, StartsWith) and chunks.family not in ("string", "binary")):
            yield kept, self._why(WhyNot.TYPE, self._type)
        elif not chunks.has_order:
            yield kept, self._why(WhyNot.BOUNDS_TYPE, self._type)
        else:
            if upwards:
                is_uncertain = may_hold_nan(chunks)[kept]
                yield kept[is_uncertain], self._why(WhyNot.FLOAT_BOUNDS)
                kept = kept[~is_uncertain]
            if chunks.point(value, self._request.options.timezone, upwards=upwards) is None:
                yield kept, self._why(WhyNot.LITERAL)
                return
            known = np.zeros(len(kept), np.bool_) if chunks.bounds is None else chunks.bounds.known[kept]
            yield kept[~known], self._why(WhyNot.NO_BOUNDS)
            yield kept[known], self._why(WhyNot.RANGE_OVERLAPS)

    def _case(self, leaf: CaseIn, candidates: Candidates | None, kept: NDArray[np.int64]) -> Reasons:
        expression = f"{leaf.case}({column_to_sql(self._column)})"
        if not all(isinstance(value, str) and value.isascii() for value in leaf.values):
            yield kept, self._why(WhyNot.NON_ASCII, expression)
            return
        yield kept[~self._asked[kept]], self._why(WhyNot.NO_CASE_FILTER, expression)
        if candidates is not None:
            yield from self._maybe(candidates, kept[self._asked[kept]])

    def _equality(self, candidates: Candidates | None, kept: NDArray[np.int64]) -> Reasons:
        if candidates is None and self._chunks.family == "boolean":
            yield kept, self._why(WhyNot.BOOLEAN)
            return
        unusable = self._chunks.why_filters_unusable
        if candidates is None and unusable:
            yield kept, self._why(WhyNot.DISTRUSTED_FILTER, unusable)
            return
        if candidates is None:
            reason = WhyNot.TYPE if self._proves_nothing() or self._is_hashless() else WhyNot.LITERAL
            yield kept, self._why(reason, self._type)
            return
        asked, errors = self._asked[kept], candidates.filters.errors
        failed = ~asked & np.array([int(i) in errors for i in kept], np.bool_)
        for i in kept[failed].tolist():
            yield np.array([i]), self._why_error(i)
        has_filter = candidates.filters.present[kept]
        if not unusable:
            yield kept[~asked & ~failed & has_filter], self._why(WhyNot.SAMPLE_SAYS_MAYBE)
            failed |= has_filter
        yield kept[~asked & ~failed], self._why(WhyNot.DISTRUSTED_FILTER if unusable else WhyNot.NO_FILTER, unusable)
        yield from self._maybe(candidates, kept[asked])

    def _is_hashless(self) -> bool:
        """Whether filters of this type prove nothing."""
        encoded = self._chunks.encode((), self._request.options.timezone)
        return encoded is not None and encoded.hashes is None

    def _maybe(self, candidates: Candidates, kept: NDArray[np.int64]) -> Reasons:
        """The chunks whose filter says maybe."""
        if not len(kept):
            return
        request = self._request
        share = false_positives(candidates.filters, kept, request.dataset.storage, request.filter_reads)
        if share >= SATURATED_FPP:
            yield kept, self._why(WhyNot.SATURATED, share_of_absent(share))
            return
        asked = candidates.last[kept] - candidates.first[kept]
        many = (asked > 1) & (1 - (1 - share) ** asked >= 0.5)
        if many.any():
            yield kept[many], self._why(WhyNot.MANY_VALUES, f"{int(asked[many].max()):,}")
        yield kept[~many], self._why(WhyNot.VALUE_EVERYWHERE)


def false_positives(filters: ChunkFilters, chunks: NDArray[np.int64], storage: Storage, reads: ReadCount) -> float:
    """The share of random values for which the filters of `chunks` say maybe, from a sample of a few filters."""
    sample = chunks[np.unique(np.linspace(0, len(chunks) - 1, min(len(chunks), _SAMPLED_FILTERS)).astype(np.int64))]
    probes = _PROBES // len(sample)
    # The upper bits of a hash choose the block. These are zero, so that all hashes ask the first sixteenth of the
    # blocks: one short read for each filter.
    hashes = np.random.default_rng(0).integers(0, 2**60, probes, np.uint64)
    first = np.tile(np.arange(probes), len(sample))
    answers = filters.check(Question(storage, np.repeat(sample, probes), first, first + 1, hashes, reads))
    return int(np.count_nonzero(answers)) / len(first)


def _message(error: Exception) -> str:
    """The message of an error, without the place, which differs from chunk to chunk."""
    return str(error).rpartition(": ")[2] if isinstance(error, EncryptionError) else str(error).partition(": ")[2]
