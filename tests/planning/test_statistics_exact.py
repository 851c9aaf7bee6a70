"""The proofs of bounds and null counts, for every combination of few values: no more than is true, and no less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.planning.evidence.interface import Counts
from bloomparquet.planning.evidence.statistics import Candidates, judge_bounds, judge_leaf, judge_nulls
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.like import Like
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds, Encoded, Point, ValueOrder, objects
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.verdict import Decision

ZONE = "Asia/Tokyo"
COUNTS = [(0, 3), (1, 3), (3, 3), (-1, 3), (0, -1), (2, -1), (-1, -1), (0, 0)]  # of nulls, and of values with nulls
FILTERS = object()
KINDS = {"integer": pa.int64(), "float": pa.float64(), "string": pa.string()}
# Values that a chunk without bounds may hold too. NaN is never in the bounds; only a count says that there is none.
BEYOND: dict[str, list[Any]] = {"integer": [-3, 4], "float": [math.nan, -2.0, 5.0], "string": ["bbb", "c"]}


@dataclass
class FakeChunks:
    """Chunks for every pair of bounds among `values`, known and unknown, and for each of COUNTS."""

    family: Family
    values_between: Sequence[Any]
    has_bounds: bool = True
    has_hashes: bool = True
    expression: object = None
    upwards: bool | None = None
    counts_nan: bool = False

    def __post_init__(self) -> None:
        positions = range(len(self.values_between))
        self.rows = [
            (low, high, known, *counts)
            for (low, high), known, counts in product(
                combinations_with_replacement(positions, 2), (True, False), COUNTS
            )
        ]
        low, high, known, nulls, values = map(np.array, zip(*self.rows, strict=True))
        self.counts = Counts(nulls, values)
        self.members = np.arange(len(self.rows)) + 7
        self.filters: Any = FILTERS
        self.shown_as_stored = np.ones(len(self.rows), np.bool_)
        self.order = ValueOrder(self.family, "x")
        keys = [value.encode() if isinstance(value, str) else value for value in self.values_between]
        table = objects(keys) if self.family == "string" else np.array(keys)
        self.without_nan = np.arange(len(self.rows)) % 3 == 0 if self.counts_nan else None
        self.bounds = Bounds(table[low], table[high], known, self.without_nan) if self.has_bounds else None

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        assert timezone == ZONE
        keys = self.order.keys(values, timezone)
        return (
            None if keys is None else Encoded(keys, np.arange(len(keys), dtype=np.uint64) if self.has_hashes else None)
        )

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        assert (timezone, upwards) == (ZONE, self.upwards)
        return self.order.point(value, timezone)

    def expression_filters(self, case: str) -> object:
        return self.expression if case == "lower" else None

    def expected(self, leaf: Predicate, null_counts_only: bool = False) -> NDArray[np.bool_]:
        """Whether a value between the bounds, or a null, makes `leaf` TRUE."""
        cells = [*self.values_between, None, *BEYOND[self.family]]
        matching = [
            value is True for value in mask(leaf, pa.table({"x": pa.array(cells, KINDS[self.family])})).to_pylist()
        ]
        n = len(self.values_between)
        of_values, of_null, beyond = matching[:n], matching[n], matching[n + 1 :]
        of_nan = self.family == "float" and beyond[0]
        of_any = any(of_values) or any(beyond) or isinstance(leaf, bp.Lt | bp.LtEq | bp.Gt | bp.GtEq | bp.Not)
        no_bounds = null_counts_only or not self.has_bounds
        has_nan = [of_nan] * len(self.rows) if self.without_nan is None else of_nan & ~self.without_nan
        return np.array(
            [
                (nulls != 0 and of_null)
                or (
                    (nulls != values or nulls < 0)
                    and (of_any if no_bounds or not known else any(of_values[low : high + 1]) or nan)
                )
                for (low, high, known, nulls, values), nan in zip(self.rows, has_nan, strict=True)
            ]
        )


INTEGERS = FakeChunks("integer", range(-2, 4))
FLOATS = FakeChunks("float", [-math.inf, -1.0, 0.0, 0.5, 1.0, math.inf])
COUNTED = FakeChunks("float", FLOATS.values_between, counts_nan=True)
STRINGS = FakeChunks("string", sorted("".join(text) for n in (0, 1, 2) for text in product("\0ab", repeat=n)))
LITERALS: list[tuple[FakeChunks, list[Any]]] = [
    (INTEGERS, [-3, -2, 0, 2, 3, 4, 0.5, -1.5]),
    (INTEGERS, [-2, 4, 2**70, -(2**70)]),
    (FLOATS, [-math.inf, -1.0, 0, 0.5, 1.0, math.inf]),
    (COUNTED, [-math.inf, -1.0, 0, 0.5, 1.0, math.inf]),
    (STRINGS, ["", "\0", "a", "a\0", "ab", "b", "bb", "c"]),
]
CASES = [(chunks, literal) for chunks, literals in LITERALS for literal in literals]
NAMES = ["integer", "integers beyond the type", "float", "float with NaN counts", "string"]
IDS = [f"{name}-{literal!r}" for name, (_, literals) in zip(NAMES, LITERALS, strict=True) for literal in literals]


def judged(leaf: Predicate, chunks: FakeChunks, upwards: bool | None = None) -> tuple[NDArray[np.bool_], Any]:
    """The verdicts, and the candidates. Null counts decide wherever they suffice, and bounds elsewhere."""
    chunks.upwards = upwards
    codes, candidates = judge_leaf(leaf, chunks, ZONE)
    assert (codes.dtype, judge_bounds(leaf, chunks, ZONE)[0].dtype) == (np.uint8, np.bool_)
    assert ((codes == Decision.NULLS.code) == ~judge_nulls(leaf, chunks)).all()
    assert set(codes.tolist()) <= {0, Decision.NULLS.code, Decision.BOUNDS.code}
    return codes == 0, candidates


@pytest.mark.parametrize(("chunks", "literal"), CASES, ids=IDS)
@pytest.mark.parametrize(("kind", "upwards"), [(bp.Lt, False), (bp.LtEq, False), (bp.Gt, True), (bp.GtEq, True)])
def test_comparisons_are_exact(chunks: FakeChunks, literal: Any, kind: Any, upwards: bool) -> None:
    leaf = kind("x", literal)
    verdicts, candidates = judged(leaf, chunks, upwards)
    assert candidates is None
    assert verdicts.tolist() == chunks.expected(leaf).tolist()


@pytest.mark.parametrize(("chunks", "literal"), CASES, ids=IDS)
def test_equalities_and_their_negations_are_exact(chunks: FakeChunks, literal: Any) -> None:
    for leaf in (bp.Eq("x", literal), bp.EqNullSafe("x", literal), bp.In("x", [literal])):
        verdicts, candidates = judged(leaf, chunks)
        assert verdicts.tolist() == chunks.expected(leaf).tolist(), leaf
        assert isinstance(candidates, Candidates)
    for leaf in (bp.NotEq("x", literal), bp.NotIn("x", [literal]), bp.Not(bp.EqNullSafe("x", literal))):
        verdicts, candidates = judged(leaf, chunks)
        assert verdicts.tolist() == chunks.expected(leaf).tolist(), leaf
        assert candidates is None


@pytest.mark.parametrize(("chunks", "literals"), LITERALS, ids=NAMES)
def test_filters_are_asked_for_the_values_within_bounds(chunks: FakeChunks, literals: list[Any]) -> None:
    for some in combinations(literals, 3):
        leaf = bp.In("x", some)
        verdicts, candidates = judged(leaf, chunks)
        assert verdicts.tolist() == chunks.expected(leaf).tolist()
        assert candidates.filters is FILTERS
        assert candidates.first.dtype == candidates.last.dtype == np.int64
        encoded = chunks.encode(some, ZONE)
        for i, (first, last) in enumerate(zip(candidates.first, candidates.last, strict=True)):
            low, high, known = chunks.bounds.lower[i], chunks.bounds.upper[i], chunks.bounds.known[i]
            inside = [k for k, key in enumerate(encoded.keys) if not known or low <= key <= high]
            assert candidates.hashes[first:last].tolist() == inside


@pytest.mark.parametrize(("chunks", "literals"), LITERALS, ids=NAMES)
def test_not_in_excludes_constant_chunks(chunks: FakeChunks, literals: list[Any]) -> None:
    for some in combinations(literals, 2):
        leaf = bp.NotIn("x", some)
        bounds = chunks.bounds
        constant = bounds.known & (bounds.lower == bounds.upper)
        expected = np.where(constant, chunks.expected(leaf), chunks.expected(leaf, null_counts_only=True))
        assert judged(leaf, chunks)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("chunks", [INTEGERS, FLOATS, STRINGS])
def test_null_counts_are_exact(chunks: FakeChunks) -> None:
    for leaf in (bp.IsNull("x"), bp.IsNotNull("x")):
        verdicts, candidates = judged(leaf, chunks)
        assert verdicts.tolist() == chunks.expected(leaf, null_counts_only=True).tolist()
        assert candidates is None
    value = "a" if chunks.family == "string" else 1
    for leaf in (bp.Eq("x", value), bp.Lt("x", value), bp.IsNull("x"), bp.Not(bp.EqNullSafe("x", value))):
        assert judge_nulls(leaf, chunks).tolist() == chunks.expected(leaf, null_counts_only=True).tolist()


@pytest.mark.parametrize("prefix", ["", "\0", "a", "ab", "b", "c"])
def test_prefixes_are_exact(prefix: str) -> None:
    starts = bp.StartsWith("x", prefix)
    for leaf in (starts, bp.Not(starts)):
        verdicts, candidates = judged(leaf, STRINGS, upwards=True)
        assert verdicts.tolist() == STRINGS.expected(leaf).tolist(), leaf
        assert candidates is None
    pattern = Like("x", f"{prefix}%b")
    assert judged(pattern, STRINGS, upwards=True)[0].tolist() == STRINGS.expected(starts).tolist()
    by_nulls = STRINGS.expected(starts, null_counts_only=True).tolist()
    assert judged(bp.Not(pattern), STRINGS)[0].tolist() == by_nulls
    without = FakeChunks("string", STRINGS.values_between, has_bounds=False)
    assert judged(starts, without, upwards=True)[0].tolist() == by_nulls


@pytest.mark.parametrize(("chunks", "literals"), LITERALS, ids=NAMES)
def test_missing_bounds_exclude_nothing_but_nulls(chunks: FakeChunks, literals: list[Any]) -> None:
    without = FakeChunks(chunks.family, chunks.values_between, has_bounds=False)
    for leaf in [kind("x", literal) for literal in literals for kind in (bp.Eq, bp.NotEq, bp.Lt)]:
        verdicts, candidates = judged(leaf, without, upwards=False)
        assert verdicts.tolist() == without.expected(leaf).tolist()
        if candidates is not None:
            span = 0, len(candidates.hashes)  # empty for a value that no chunk can hold
            assert set(zip(candidates.first.tolist(), candidates.last.tolist(), strict=True)) == {span}


def test_an_uncertain_literal_excludes_nothing_but_nulls() -> None:
    for leaf in (bp.Eq("x", math.nan), bp.NotEq("x", math.nan), bp.Lt("x", math.nan)):
        verdicts, candidates = judged(leaf, FLOATS, upwards=False)
        assert verdicts.tolist() == judge_nulls(leaf, FLOATS).tolist()
        assert candidates is None


def test_nan_is_excluded_where_none_is_counted() -> None:
    for leaf in (bp.Eq("x", math.nan), bp.EqNullSafe("x", math.nan), bp.In("x", [math.nan, math.nan])):
        verdicts, candidates = judged(leaf, COUNTED)
        assert verdicts.tolist() == (judge_nulls(leaf, COUNTED) & ~COUNTED.without_nan).tolist()
        assert candidates is None
    without_bounds = FakeChunks("float", FLOATS.values_between, has_bounds=False)
    leaf = bp.Eq("x", math.nan)
    assert judged(leaf, without_bounds)[0].tolist() == judge_nulls(leaf, without_bounds).tolist()
    for leaf in (bp.In("x", [math.nan, 1.0]), bp.NotEq("x", math.nan), bp.NotIn("x", [math.nan]), bp.Gt("x", math.nan)):
        verdicts, candidates = judged(leaf, COUNTED, upwards=True)
        assert verdicts.tolist() == judge_nulls(leaf, COUNTED).tolist()
        assert candidates is None


def test_text_of_unknown_order_excludes_nothing_but_nulls() -> None:
    class Padded(FakeChunks):
        def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
            return None

        def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
            return None

    chunks = Padded("string", STRINGS.values_between, expression=object())
    leaves = [bp.Eq("x", "a"), bp.NotEq("x", "a"), bp.Lt("x", "a"), bp.StartsWith("x", "a")]
    for leaf in (*leaves, bp.Not(leaves[-1]), bp.CaseIn("x", "lower", ["a"])):
        verdicts, candidates = judged(leaf, chunks)
        assert verdicts.tolist() == judge_nulls(leaf, chunks).tolist()
        assert candidates is None


def test_prefixes_of_bytes_are_exact() -> None:
    chunks = FakeChunks("string", STRINGS.values_between)
    chunks.family, chunks.order = "binary", ValueOrder("binary", "x")
    for leaf in (bp.StartsWith("x", "a"), bp.Not(bp.StartsWith("x", "a"))):
        assert judged(leaf, chunks, upwards=True)[0].tolist() == STRINGS.expected(leaf).tolist()


def test_columns_without_hashes_ask_no_filter() -> None:
    chunks = FakeChunks("integer", range(3), has_hashes=False)
    verdicts, candidates = judged(bp.Eq("x", 1), chunks)
    assert verdicts.tolist() == chunks.expected(bp.Eq("x", 1)).tolist()
    assert candidates is None


def test_mapped_text_is_asked_of_its_own_filters_only() -> None:
    own = object()
    chunks = FakeChunks("string", STRINGS.values_between, expression=own)
    by_nulls = judge_nulls(bp.IsNotNull("x"), chunks).tolist()
    verdicts, candidates = judged(bp.CaseIn("x", "lower", ["zz", "a"]), chunks)
    assert verdicts.tolist() == by_nulls
    assert candidates.filters is own
    assert candidates.hashes.tolist() == [0, 1]
    assert set(zip(candidates.first.tolist(), candidates.last.tolist(), strict=True)) == {(0, 2)}
    assert candidates.first.dtype == candidates.last.dtype == np.int64
    assert len(candidates.first) == len(candidates.last) == len(chunks.members)
    for leaf in (bp.CaseIn("x", "upper", ["A"]), bp.CaseIn("x", "lower", ["a", "\u212a"])):
        verdicts, candidates = judged(leaf, chunks)
        assert (verdicts.tolist(), candidates) == (by_nulls, None)
    verdicts, candidates = judged(bp.Not(bp.CaseIn("x", "lower", ["a"])), chunks)
    assert (verdicts.tolist(), candidates) == (by_nulls, None)
    unhashed = FakeChunks("string", STRINGS.values_between, has_hashes=False, expression=own)
    assert judged(bp.CaseIn("x", "lower", ["a"]), unhashed)[1] is None


def test_prefixes_of_other_columns_prove_nothing() -> None:
    chunks = FakeChunks("integer", range(3))
    chunks.family = "date"  # its keys are no bytes
    assert judged(bp.StartsWith("x", "a"), chunks)[0].tolist() == judge_nulls(bp.IsNotNull("x"), chunks).tolist()


@pytest.mark.parametrize("leaf", [bp.Eq("x", "a"), bp.Lt("x", "a"), bp.CaseIn("x", "lower", ["a"])])
def test_literals_of_the_wrong_type_are_errors(leaf: Predicate) -> None:
    with pytest.raises(PlanError):
        judged(leaf, INTEGERS, upwards=False)
