"""Verdicts and decisions over made-up evidence, compared with an oracle row group by row group: nothing that matches is
skipped, and everything else that the evidence excludes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from random import Random
from typing import Any

import numpy as np
import pytest

import bloomparquet as bp
from bloomparquet.errors import FormatError
from bloomparquet.planning.decisions import HAS_FILTER, KEPT, NO_FILTER
from bloomparquet.planning.judge import Errors, Judgement, Request, RowCondition, judge
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.partition_evidence import PartitionEvidence
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import Always, Junction, Predicate
from bloomparquet.query.verdict import DECISIONS, Decision
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

NULLS, BOUNDS, BLOOM = Decision.NULLS.code, Decision.BOUNDS.code, Decision.BLOOM.code


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
) -> tuple[FakeRanges, Judgement]:
    table = FakeRanges(ranges, **options)
    units: Any = table
    judgement = judge(units, [RowCondition(each, strict=True) for each in conditions], request)
    assert judgement.codes.dtype == np.uint8
    return table, judgement


def codes_of(*arguments: Any, **options: Any) -> list[int]:
    return judged(*arguments, **options)[1].codes.tolist()


def evidence_up_to(decision: Decision, oracle: Oracle) -> Judge:
    """What the evidence says of a leaf predicate that is not more expensive than `decision`."""
    return {
        Decision.CONSTANT: lambda leaf, each: True,
        Decision.PARTITION: oracle.by_partition,
        Decision.NULLS: oracle.by_nulls,
        Decision.BOUNDS: oracle.by_statistics,
        Decision.INDEX: lambda leaf, each: (
            oracle.by_filters(leaf, each)
            or (oracle.by_statistics(leaf, each) and not each.chunks[column_of(leaf)].in_index)
        ),
        Decision.BLOOM: oracle.by_filters,
    }[decision]


def is_kept(each: Range, conditions: list[Predicate], judge_leaf: Judge) -> bool:
    return bool(each.rows) and all(holds(condition, each, judge_leaf) for condition in conditions)


def assert_decided(code: int, each: Range, conditions: list[Predicate], oracle: Oracle) -> None:
    """What the evidence excludes is skipped, and the decision names evidence that suffices. For a single leaf
    predicate, it is the cheapest one: of the others, not every part is asked."""
    assert (code == KEPT) == is_kept(each, conditions, oracle.by_filters), (conditions, each)
    assert code == KEPT or not has_match(conditions, each), (conditions, each)
    if code == KEPT or not each.rows:
        assert code in (KEPT, *map(attrgetter("code"), (Decision.NULLS, Decision.CONSTANT, Decision.PARTITION)))
        return
    assert not is_kept(each, conditions, evidence_up_to(DECISIONS[code], oracle)), (conditions, each)
    if len(conditions) == 1 and not isinstance(conditions[0], Junction | Always):
        assert is_kept(each, conditions, evidence_up_to(DECISIONS[code - 1], oracle)), (conditions, each)


@SEEDS
def test_evidence_skips_exactly_what_it_excludes(seed: int, dataset: bp.Dataset) -> None:
    for ranges, conditions in cases(seed, in_parts=False):
        request = make_request(dataset)
        table, judgement = judged(ranges, conditions, request)
        assert judgement.counts is None
        oracle = Oracle()
        for each, code in zip(ranges, judgement.codes.tolist(), strict=True):
            assert_decided(code, each, conditions, oracle)
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
        _, judgement = judged(ranges, conditions, request)
        by_statistics, kept = [], []
        for i, (stripe, code) in enumerate(zip(ranges, judgement.codes.tolist(), strict=True)):
            of_parts = judgement.codes_of_ranges[judgement.owner == i].tolist()
            if of_parts:
                for part, of_part in zip(stripe.parts, of_parts, strict=True):
                    assert_decided(of_part, part, conditions, oracle)
                assert code == (KEPT if KEPT in of_parts else max(of_parts))
            else:
                assert not is_kept(stripe, conditions, oracle.by_statistics)
                assert not is_kept(stripe, conditions, evidence_up_to(DECISIONS[code], oracle))
            assert code == KEPT or not any(has_match(conditions, part) for part in stripe.parts)
            is_excluded = not is_kept(stripe, conditions, oracle.by_statistics)
            by_statistics += [is_excluded or not is_kept(p, conditions, oracle.by_statistics) for p in stripe.parts]
            kept += [not is_excluded and is_kept(part, conditions, oracle.by_filters) for part in stripe.parts]
        skipped = len(kept) - sum(kept)
        assert judgement.counts == (len(kept), sum(kept), sum(by_statistics), skipped - sum(by_statistics))


def simple(*files: int) -> list[Range]:
    """Row groups with the values 2 and 4 in each column."""
    return [Range(file, {name: Chunk((2, 4)) for name in "abc"}) for file in files]


def test_a_column_that_the_reader_converts_excludes_nothing(dataset: bp.Dataset) -> None:
    """Also where a file lacks it."""
    for column, expected in (("a", [KEPT, KEPT]), ("x", [BLOOM, BLOOM])):
        request = make_request(dataset, reader_types={(column,): "other", ("x",): "bigint"})
        assert codes_of(simple(0, 1), [bp.Eq("a", 3)], request) == expected
    request = make_request(dataset, reader_types={("b",): "other"})
    assert codes_of(simple(0, 1), [bp.Eq("b", 9)], request) == [KEPT, KEPT]


def test_an_unknown_column_excludes_nothing(dataset: bp.Dataset) -> None:
    """An unknown column is no column that some files lack: such columns are NULL there."""
    request = make_request(dataset)
    assert codes_of(simple(0, 1), [bp.Eq("x", 3)], request) == [NULLS, NULLS]
    request = replace(request, unknown=frozenset({("x",)}))
    assert codes_of(simple(0, 1), [bp.Eq("x", 3)], request) == [KEPT, KEPT]


def test_names_in_another_case(dataset: bp.Dataset) -> None:
    for case_sensitive, expected in ((True, KEPT), (False, BLOOM)):
        request = make_request(dataset, case_sensitive=case_sensitive)
        assert codes_of(simple(0), [bp.Eq("A", 3)], request) == [expected]


def test_a_strict_literal_of_the_wrong_type_is_an_error(dataset: bp.Dataset) -> None:
    table: Any = FakeRanges(simple(0, 1))
    conditions = [RowCondition(bp.Eq("a", "x"), strict=False), RowCondition(bp.Eq("b", 9), strict=True)]
    assert judge(table, conditions, make_request(dataset)).codes.tolist() == [BOUNDS, NULLS]
    assert judge(table, conditions[:1], make_request(dataset)).codes.tolist() == [KEPT, KEPT]
    partition = RowCondition(bp.Eq("p", "x"), strict=False)
    assert judge(table, [partition], make_request(dataset)).codes.tolist() == [KEPT, KEPT]
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
    table, judgement = judged(simple(0, 0), [bp.And(bp.Eq("a", 2), bp.In("b", [2, 3]))], make_request(dataset))
    assert judgement.codes.tolist() == [KEPT, KEPT]
    assert table.asked == [(0, 0), (1, 0), (0, 1), (1, 1)]
