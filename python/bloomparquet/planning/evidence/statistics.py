"""Decisions about leaf predicates by min, max and null counts.

Verdicts answer, for n row groups at once: might the leaf be TRUE for a row of this row group? False is a proof.
Bounds may be wider than the values, never narrower, with one exception: bounds of floats ignore NaN, which Spark orders
above every number. So they prove nothing about >, >=, <> and NOT IN, unless a count says that there is no NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.interface import ChunkFilters, Chunks
from bloomparquet.query.case_mapping import CaseIn, require_text
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.like import Like
from bloomparquet.query.nulls import value_for_null
from bloomparquet.query.ordering import Bounds, Encoded, Point, is_nan
from bloomparquet.query.predicate import (
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Predicate,
    StartsWith,
)
from bloomparquet.query.verdict import Codes, Decision, Verdicts

_NULLS, _BOUNDS = np.uint8(Decision.NULLS.code), np.uint8(Decision.BOUNDS.code)

_Compare = Callable[[Any, Any], Any]


class Candidates(NamedTuple):
    """The values of an equality that chunks may hold, by their bounds: for chunk i, those with the hashes
    ``hashes[first[i]:last[i]]``. What is left to ask the `filters` about."""

    filters: ChunkFilters
    hashes: NDArray[np.uint64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def _within_bounds(encoded: Encoded, bounds: Bounds | None, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values within the bounds of each of n row groups: ``encoded.keys[first[i]:last[i]]``."""
    first = np.zeros(n, np.int64)
    last = np.full(n, len(encoded.keys), np.int64)
    if bounds is not None:
        known = bounds.known
        first[known] = np.searchsorted(encoded.keys, bounds.lower[known], "left")
        last[known] = np.searchsorted(encoded.keys, bounds.upper[known], "right")
    return first, last


def judge_nulls(leaf: Predicate, chunks: Chunks) -> Verdicts:
    """Verdicts (n,) on `leaf` by null counts alone."""
    counts = chunks.counts
    has_nulls: Verdicts = counts.nulls != 0
    if isinstance(leaf, IsNull):
        return has_nulls
    has_values: Verdicts = (counts.nulls != counts.values) | (counts.nulls < 0)
    return has_nulls | has_values if value_for_null(leaf) else has_values


def may_hold_nan(chunks: Chunks) -> Verdicts:
    """Whether each chunk may hold NaN, shape (n,)."""
    if chunks.family != "float":
        return np.zeros(len(chunks.members), np.bool_)
    return np.ones(len(chunks.members), np.bool_) if chunks.bounds is None else chunks.bounds.may_hold_nan


def judge_leaf(leaf: Predicate, chunks: Chunks, timezone: str | None) -> tuple[Codes, Candidates | None]:
    """The evidence that excludes each of n `chunks`, shape (n,); and the candidates for their filters if `leaf` is an
    equality. Raises PlanError for a literal of the wrong type."""
    verdicts, candidates = judge_bounds(leaf, chunks, timezone)
    return np.where(judge_nulls(leaf, chunks), np.where(verdicts, np.uint8(0), _BOUNDS), _NULLS), candidates


def judge_bounds(leaf: Predicate, chunks: Chunks, timezone: str | None) -> tuple[Verdicts, Candidates | None]:
    """Verdicts (n,) on the values of `chunks` that are not NULL, by their bounds; and the candidates."""
    keep = np.ones(len(chunks.members), np.bool_)
    if isinstance(leaf, IsNull | IsNotNull):
        return keep, None
    if isinstance(leaf, CaseIn):
        require_text(leaf, chunks.family, chunks.family)
        return keep, _case_candidates(leaf, chunks, timezone)
    if isinstance(leaf, Like):
        return _starts_with(StartsWith(leaf.column, leaf.prefix), chunks, timezone), None
    if isinstance(leaf, Not):  # in negation normal form, around EqNullSafe, StartsWith, Like and CaseIn only
        inner = leaf.child
        if isinstance(inner, CaseIn):
            return judge_bounds(inner, chunks, timezone)[0], None
        if isinstance(inner, Like):
            return keep, None
        if isinstance(inner, EqNullSafe):
            differs, _ = judge_bounds(NotEq(inner.column, inner.value), chunks, timezone)
            return (chunks.counts.nulls != 0) | differs, None
        assert isinstance(inner, StartsWith)
        return _starts_with(inner, chunks, timezone, negated=True), None
    if isinstance(leaf, StartsWith):
        return _starts_with(leaf, chunks, timezone), None
    if isinstance(leaf, NotIn | NotEq):
        encoded = chunks.encode(leaf.values if isinstance(leaf, NotIn) else (leaf.value,), timezone)
        return keep if encoded is None else _other_than(encoded, chunks), None
    if isinstance(leaf, Eq | EqNullSafe | In | ElementIn):
        values = leaf.values if isinstance(leaf, In | ElementIn) else (leaf.value,)
        encoded = chunks.encode(values, timezone)
        if encoded is None:
            only_nan = chunks.family == "float" and all(map(is_nan, values))
            return may_hold_nan(chunks) if only_nan else keep, None
        first, last = _within_bounds(encoded, chunks.bounds, len(keep))
        candidates = None if encoded.hashes is None else Candidates(chunks.filters, encoded.hashes, first, last)
        return first < last, candidates
    assert isinstance(leaf, Lt | LtEq | Gt | GtEq)
    return _compare(leaf, chunks, timezone), None


def _case_candidates(leaf: CaseIn, chunks: Chunks, timezone: str | None) -> Candidates | None:
    """The candidates for the filters of ``lower(column)`` or ``upper(column)``: all values, or None unless all of them
    are ASCII.

    Bounds of the column prove nothing about the mapped values. Readers agree on ASCII letters only, and others may be
    mapped to ASCII: the Kelvin sign in lower case is k. So a chunk with a value outside ASCII has no filter.
    """
    encoded, filters = chunks.encode(leaf.values, timezone), chunks.expression_filters(leaf.case)
    if filters is None or encoded is None or encoded.hashes is None or not all(map(_is_ascii, leaf.values)):
        return None
    n = len(chunks.members)
    return Candidates(filters, encoded.hashes, np.zeros(n, np.int64), np.full(n, len(encoded.hashes), np.int64))


def _is_ascii(value: Any) -> bool:
    return isinstance(value, str) and value.isascii()


def _other_than(encoded: Encoded, chunks: Chunks) -> Verdicts:
    """Verdicts on <> and NOT IN: a chunk is excluded if all its values are equal (min = max) to one of the literals."""
    bounds = chunks.bounds
    if bounds is None:
        return np.ones(len(chunks.members), np.bool_)
    first, last = _within_bounds(encoded, bounds, len(chunks.members))
    constant = np.asarray(bounds.lower == bounds.upper, np.bool_)
    return ~(bounds.known & constant & (first < last)) | may_hold_nan(chunks)


def _compare(leaf: Lt | LtEq | Gt | GtEq, chunks: Chunks, timezone: str | None) -> Verdicts:
    keep = np.ones(len(chunks.members), np.bool_)
    upwards = isinstance(leaf, Gt | GtEq)
    point = chunks.point(leaf.value, timezone, upwards=upwards)
    bounds = chunks.bounds
    if point is None or bounds is None:
        return keep
    edge = bounds.upper if upwards else bounds.lower
    known = bounds.known & ~may_hold_nan(chunks) if upwards else bounds.known
    key: Any = point.key
    if isinstance(key, bytes):
        # As a bytes scalar, numpy would drop trailing zeros.
        key = np.empty((), object)
        key[()] = point.key
    keep[known] = np.asarray(_operator(leaf, point)(edge[known], key), np.bool_)
    return keep


def _operator(leaf: Lt | LtEq | Gt | GtEq, point: Point) -> _Compare:
    """The operator that compares bounds with ``point.key``. If the literal falls between two storable values, < and
    <= mean the same, and so do > and >=."""
    if isinstance(leaf, Lt | LtEq):
        inclusive = isinstance(leaf, LtEq) if point.side == 0 else point.side > 0
        return operator.le if inclusive else operator.lt
    inclusive = isinstance(leaf, GtEq) if point.side == 0 else point.side < 0
    return operator.ge if inclusive else operator.gt


def _starts_with(leaf: StartsWith, chunks: Chunks, timezone: str | None, *, negated: bool = False) -> Verdicts:
    """Verdicts on LIKE and NOT LIKE. Where both bounds begin with the prefix, all values between them do."""
    keep = np.ones(len(chunks.members), np.bool_)
    bounds = chunks.bounds
    if bounds is None or chunks.family not in ("string", "binary"):
        return keep
    point = chunks.point(leaf.prefix, timezone, upwards=True)
    if point is None or not isinstance(point.key, bytes):
        return keep
    prefix = point.key
    for i in np.flatnonzero(bounds.known).tolist():
        lower, upper = bounds.lower[i], bounds.upper[i]
        if negated:
            keep[i] = not (lower.startswith(prefix) and upper.startswith(prefix))
        else:
            keep[i] = lower[: len(prefix)] <= prefix <= upper
    return keep
