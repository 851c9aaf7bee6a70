"""Verdicts and decisions over made-up evidence, compared with an oracle row group by row group: nothing that matches is
skipped, and everything else that the evidence excludes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bloomparquet as bp
from bloomparquet.errors import FormatError
from bloomparquet.planning.decisions import DECISIONS, Decision
from bloomparquet.planning.judge import (
    HAS_FILTER,
    NO_FILTER,
    Errors,
    Request,
    RowCondition,
    decide,
    judge,
)
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.partition_evidence import PartitionEvidence
from bloomparquet.planning.plan import KEPT, REASONS
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import And, Predicate, leaves
from bloomparquet.query.verdict import Reason, might_match
from bloomparquet.storage.files import ReadCount
from tests.support.evidence import (
    FILES,
    PARTITIONS,
    ZONE,
    Chunk,
    FakeRanges,
    Judge,
    Oracle,
    Range,
    column_of,
    columns_of,
    has_match,
    holds,
    random_predicate,
    random_ranges,
)
from tests.support.files import hive

STATISTICS, BLOOM = (REASONS.index(reason) for reason in (Reason.STATISTICS, Reason.BLOOM))


def make_request(dataset: bp.Dataset, **options: Any) -> Request:
    given = PlanOptions(timezone=ZONE, **options)
    positions, errors = np.array(FILES), Errors(given.on_filter_error)
    partitions = PartitionEvidence(dataset, given)
    return Request(dataset, given, partitions, positions, frozenset(), ReadCount(), ReadCount(), errors)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> bp.Dataset:
    names = ["__HIVE_DEFAULT_PARTITION__" if value is None else value for value in PARTITIONS]
    root = hive(tmp_path_factory.mktemp("data"), {f"i={i}/p={name}": {"a": [1]} for i, name in enumerate(names)})
    return bp.Dataset.open(root)


SEEDS = pytest.mark.parametrize("seed", range(15))  # quick tests, so that mutants of `judge` end early


def cases(seed: int, *, in_parts: bool) -> Iterator[tuple[list[Range], list[Predicate]]]:
    random = Random(seed)
    for _ in range(10):
        conditions = [normalize(random_predicate(random)) for _ in range(random.choice([1, 1, 2]))]
        yield random_ranges(random, in_parts), conditions


def judged(
    ranges: list[Range], conditions: list[Predicate], request: Request, **options: Any
) -> tuple[FakeRanges, NDArray[np.uint8], Any]:
    table = FakeRanges(ranges, **options)
    units: Any = table
    codes, counts = judge(units, [RowCondition(each, strict=True) for each in conditions], request)
    assert codes.dtype == np.uint8
    return table, codes, counts


def expected_code(each: Range, conditions: list[Predicate], oracle: Oracle) -> int:
    if not each.rows or not all(holds(condition, each, oracle.by_statistics) for condition in conditions):
        return STATISTICS
    if not all(holds(condition, each, oracle.by_filters) for condition in conditions):
        return BLOOM
    return KEPT


@SEEDS
def test_evidence_skips_exactly_what_it_excludes(seed: int, dataset: bp.Dataset) -> None:
    for ranges, conditions in cases(seed, in_parts=False):
        request = make_request(dataset)
        table, codes, counts = judged(ranges, conditions, request)
        assert counts is None
        oracle = Oracle()
        assert codes.tolist() == [expected_code(each, conditions, oracle) for each in ranges], conditions
        for each, code in zip(ranges, codes.tolist(), strict=True):
            assert code == KEPT or not has_match(conditions, each), (conditions, each)
        assert request.filter_reads.requests == len(table.asked)
        for member, _ in table.asked:
            alive = [holds(condition, ranges[member], oracle.by_statistics) for condition in conditions]
            assert all(alive), "a filter of what statistics exclude was read"
        unusable = {
            f"filter {leaf} of {member}"
            for member, leaf in table.asked
            if not ranges[member].chunks[columns_of(ranges[member])[leaf]].is_usable
        }
        assert {str(error) for error in request.errors.errors} == unusable


@SEEDS
def test_stripes_are_judged_by_their_row_groups(seed: int, dataset: bp.Dataset) -> None:
    for ranges, conditions in cases(seed, in_parts=True):
        request, oracle = make_request(dataset), Oracle()
        _, codes, counts = judged(ranges, conditions, request)
        expected, of_parts = [], []
        for stripe in ranges:
            of_stripe = [expected_code(part, conditions, oracle) for part in stripe.parts]
            if expected_code(stripe, conditions, oracle) != KEPT:
                of_stripe = [STATISTICS] * len(of_stripe)
            assert KEPT in of_stripe or not any(has_match(conditions, part) for part in stripe.parts)
            # The order of reasons is kept, statistics, Bloom filters: one row group decides about its stripe.
            expected.append(KEPT if KEPT in of_stripe else BLOOM if BLOOM in of_stripe else STATISTICS)
            of_parts += of_stripe
        assert codes.tolist() == expected, conditions
        reasons = [of_parts.count(code) for code in (KEPT, STATISTICS, BLOOM)]
        assert list(counts) == [len(of_parts), *reasons]


def known_leaves(ranges: Sequence[Range], conditions: Sequence[Predicate], oracle: Oracle) -> set[int]:
    """The ids of the leaf predicates that statistics are asked about."""
    asked: set[int] = set()
    alive = np.array([each.rows > 0 for each in ranges], np.bool_)

    def judge_leaf(leaf: Predicate, _: Any) -> NDArray[np.bool_]:
        asked.add(id(leaf))
        return np.array([oracle.by_statistics(leaf, each) for each in ranges], np.bool_)

    for condition in conditions:
        alive = might_match(condition, alive, judge_leaf)
    return asked


def expected_decisions(
    ranges: list[Range], codes: list[int], conditions: list[Predicate], oracle: Oracle
) -> Iterator[Decision]:
    by_bloom = [each for each, code in zip(ranges, codes, strict=True) if code == BLOOM]
    asked = [part for each in by_bloom for part in each.parts] or ranges
    of_filters = {leaf for condition in conditions for leaf in known_leaves(asked, [condition], oracle)}
    judged_leaves = known_leaves(ranges, conditions, oracle)

    def might_hold(each: Range, judge_leaf: Judge) -> bool:
        """By evidence about the leaf predicates that the plan judged."""

        def judge_known(leaf: Predicate, each: Range) -> bool:
            return id(leaf) not in judged_leaves or judge_leaf(leaf, each)

        return all(holds(condition, each, judge_known) for condition in conditions)

    for each, code in zip(ranges, codes, strict=True):
        if code == KEPT:
            yield Decision.READ
        elif each in by_bloom:
            filters = (
                part.chunks[column_of(leaf)].in_index
                for leaf in leaves(And(*conditions))
                for part in each.parts or (each,)
                if id(leaf) in of_filters and oracle.asks(leaf, part)
            )
            yield Decision.INDEX if any(filters) else Decision.BLOOM
        elif not each.rows:
            yield Decision.NULLS
        elif not might_hold(each, lambda leaf, _: True):
            yield Decision.CONSTANT
        elif not might_hold(each, oracle.by_partition):
            yield Decision.PARTITION
        else:
            yield Decision.BOUNDS if might_hold(each, oracle.by_nulls) else Decision.NULLS


@SEEDS
@pytest.mark.parametrize("in_parts", [False, True], ids=["row groups", "stripes"])
def test_decisions_name_the_cheapest_evidence(in_parts: bool, seed: int, dataset: bp.Dataset) -> None:
    """And asking for them reads nothing."""
    for ranges, conditions in cases(seed, in_parts=in_parts):
        request = make_request(dataset)
        table, codes, _ = judged(ranges, conditions, request)
        before = repr((request.footer_reads, request.filter_reads, request.errors.errors, request.watch.seconds))
        units: Any = table
        decisions = decide(units, [RowCondition(each, strict=True) for each in conditions], request, codes)
        assert (
            repr((request.footer_reads, request.filter_reads, request.errors.errors, request.watch.seconds)) == before
        )
        expected = list(expected_decisions(ranges, codes.tolist(), conditions, Oracle()))
        assert [DECISIONS[code] for code in decisions.tolist()] == expected, conditions


def test_what_a_plan_keeps_is_read(dataset: bp.Dataset) -> None:
    """Also if it has no rows: a plan keeps the row groups of files that changed meanwhile."""
    table: Any = FakeRanges([Range(0, {name: Chunk(()) for name in "abc"}), *simple(0)])
    conditions, codes = [RowCondition(bp.Eq("a", 9), strict=True)], np.full(2, KEPT, np.uint8)
    assert decide(table, conditions, make_request(dataset), codes).tolist() == [DECISIONS.index(Decision.READ)] * 2


def simple(*files: int) -> list[Range]:
    """Row groups with the values 2 and 4 in each column."""
    return [Range(file, {name: Chunk((2, 4)) for name in "abc"}) for file in files]


def test_a_column_that_the_reader_converts_excludes_nothing(dataset: bp.Dataset) -> None:
    """Also where a file lacks it."""
    for column, expected in (("a", [KEPT, KEPT]), ("x", [3, 3])):
        request = make_request(dataset, reader_types={(column,): "other", ("x",): "bigint"})
        assert judged(simple(0, 1), [bp.Eq("a", 3)], request)[1].tolist() == expected
    request = make_request(dataset, reader_types={("b",): "other"})
    assert judged(simple(0, 1), [bp.Eq("b", 9)], request)[1].tolist() == [KEPT, KEPT]


def test_an_unknown_column_excludes_nothing(dataset: bp.Dataset) -> None:
    """An unknown column is no column that some files lack: such columns are NULL there."""
    request = make_request(dataset)
    assert judged(simple(0, 1), [bp.Eq("x", 3)], request)[1].tolist() == [2, 2]
    request = replace(request, unknown=frozenset({("x",)}))
    assert judged(simple(0, 1), [bp.Eq("x", 3)], request)[1].tolist() == [KEPT, KEPT]


def test_names_in_another_case(dataset: bp.Dataset) -> None:
    for case_sensitive, expected in ((True, KEPT), (False, 3)):
        request = make_request(dataset, case_sensitive=case_sensitive)
        assert judged(simple(0), [bp.Eq("A", 3)], request)[1].tolist() == [expected]


def test_a_strict_literal_of_the_wrong_type_is_an_error(dataset: bp.Dataset) -> None:
    table: Any = FakeRanges(simple(0, 1))
    conditions = [RowCondition(bp.Eq("a", "x"), strict=False), RowCondition(bp.Eq("b", 9), strict=True)]
    assert judge(table, conditions, make_request(dataset))[0].tolist() == [2, 2]
    assert judge(table, conditions[:1], make_request(dataset))[0].tolist() == [KEPT, KEPT]
    partition = RowCondition(bp.Eq("p", "x"), strict=False)
    assert judge(table, [partition], make_request(dataset))[0].tolist() == [KEPT, KEPT]
    for column in "ap":
        with pytest.raises(bp.PlanError, match="'x'"):
            judge(table, [RowCondition(bp.Eq(column, "x"), strict=True)], make_request(dataset))


def test_evidence_that_cannot_be_read_is_an_error_of_the_plan(dataset: bp.Dataset) -> None:
    error = FormatError("no key")
    for column, errors in (("a", [error]), ("b", [])):
        request = make_request(dataset)
        judged(simple(0, 1), [bp.Eq("a", 3)], request, unreadable={column: error})
        assert list(request.errors.errors) == errors
    with pytest.raises(FormatError, match="no key"):
        judged(simple(0), [bp.Eq("a", 3)], make_request(dataset, on_filter_error="fail"), unreadable={"a": error})


def test_columns_are_read_once_and_those_without_filters_known(dataset: bp.Dataset) -> None:
    ranges = [*simple(0), Range(1, {name: Chunk((2, 4), has_filter=False) for name in "abc"})]
    for where, reads, filters in (
        (bp.Or(bp.Eq("a", 3), bp.In("a", [3, 5])), 2, {("a",): [HAS_FILTER, NO_FILTER]}),
        (bp.Or(bp.Eq("c", 3), bp.Gt("b", 9)), 2, {("c",): [NO_FILTER, 0]}),
        (bp.Eq("p", 1), 0, {}),
        (bp.Eq("a", 9), 2, {("a",): [HAS_FILTER, NO_FILTER]}),
    ):
        for order in (ranges, ranges[::-1]):
            request = make_request(dataset)
            judged(order, [where], request)
            found = {column: sorted(of.tolist(), reverse=True) for column, of in request.filters.items()}
            assert (request.footer_reads.requests, found) == (reads, filters)


def test_a_filter_is_asked_once(dataset: bp.Dataset) -> None:
    table, codes, _ = judged(simple(0, 0), [bp.And(bp.Eq("a", 2), bp.In("b", [2, 3]))], make_request(dataset))
    assert codes.tolist() == [KEPT, KEPT]
    assert table.asked == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_time_is_counted_for_statistics_and_filters(dataset: bp.Dataset) -> None:
    for value, parts in ((3, ["min/max and null counts", "Bloom filters"]), (9, ["min/max and null counts"])):
        request = make_request(dataset)
        judged([Range(0, {name: Chunk((2, 4), has_filter=value == 3) for name in "abc"})], [bp.Eq("a", value)], request)
        assert list(request.watch.seconds) == parts
