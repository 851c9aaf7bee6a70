"""``ScanPlan.explain``: each part of a predicate alone, what it skipped, and how that is counted and shown."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.query.verdict import Decision
from tests.planning.test_why_not import EVEN
from tests.support.files import write_groups
from tests.support.orc_rewriting import write as write_orc


@pytest.fixture
def groups(tmp_path: Path) -> str:
    """Row groups of several kinds in two partitions; `c` has a filter in the first one only."""
    values = [EVEN, [None] * 50, [n + 1000 for n in EVEN], [None, *EVEN[1:]]]
    kinds = {"c": pa.int64(), "d": pa.int64(), "s": pa.string()}
    tables = [
        pa.table(
            {
                "c": pa.array(column, kinds["c"]),
                "d": pa.array([7] * 50, kinds["d"]),
                "s": pa.array([f"{'ab'[i % 2]}{n}" for n in EVEN], kinds["s"]),
            }
        )
        for i, column in enumerate(values)
    ]
    write_groups(tmp_path / "t" / "day=1" / "x.parquet", tables, ["c", "s"])
    write_groups(tmp_path / "t" / "day=2" / "x.parquet", tables)
    return str(tmp_path / "t")


LEAVES = (
    "c = 30", "c = 31", "c > 500", "c <= 20", "c IS NULL", "c IS NOT NULL", "c <> 4", "c IN (1, 3, 1002)", "d = 7",
    "d <> 7", "s = 'a3'", "s LIKE 'b%'", "s LIKE '%1'", "s LIKE 'a%1'", "day = 1", "day > 5", "c <=> 31",
    "NOT c <=> 30", "length(s) = 2", "lower(s) = 'a2'", "s NOT LIKE 'a%'", "c NOT IN (1, 2)",
)  # fmt: skip


def random_where(rng: random.Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(LEAVES)
    word = rng.choice([" AND ", " OR "])
    text = word.join(random_where(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    return f"NOT ({text})" if rng.random() < 0.2 else f"({text})"


@pytest.mark.parametrize("indexed", [False, True])
def test_a_part_skips_what_a_plan_of_it_alone_skips(groups: str, indexed: bool) -> None:
    if indexed:
        bp.build_index(groups)
    rng = random.Random(16)
    seen = set()
    for _ in range(60):
        plan = bp.plan(groups, random_where(rng))
        explanation = plan.explain()
        opened = len(plan.table)
        # What partition values exclude is not opened, and no part knows its row groups.
        (root,) = explanation.parts
        assert root.files == explanation.skipped_files == len(plan.excluded), plan.where
        assert (root.skipped, root.total) == (opened - plan.kept, opened), plan.where
        assert sum(used.skipped for used in root.used) == root.skipped
        assert (explanation.kept, explanation.total) == (plan.kept, opened)
        assert explanation.decided.get(Decision.READ, 0) == explanation.kept
        assert sum(explanation.decided.values()) == explanation.total
        for leaf in explanation.leaves():
            if leaf.predicate in ("TRUE", "FALSE") or opened < 8:
                continue
            alone = bp.plan(groups, leaf.predicate)
            files = sum(used.files for used in leaf.used)
            assert leaf.skipped + 4 * files == 8 - alone.kept, leaf
            assert (leaf.skipped == leaf.total) == (not leaf.not_used), leaf
            assert sum(each.count or 0 for each in leaf.not_used) == leaf.total - leaf.skipped, leaf
            seen |= {used.evidence for used in leaf.used}
    bloom = Decision.INDEX if indexed else Decision.BLOOM
    assert seen >= {Decision.PARTITION, Decision.NULLS, Decision.BOUNDS, bloom}


def test_an_explanation_names_evidence_reasons_and_remedies(groups: str) -> None:
    text = str(bp.plan(groups, "c = 31 AND (s LIKE '%1' OR d = 8) AND day < 9").explain())
    assert (
        text
        == f"""\
c = 31 AND (s LIKE '%1' OR d = 8) AND day < 9
2 of 8 row groups read; skipped: null counts 2, min/max 2, Bloom filters 2

c = 31: skips 6 of 8
  used: null counts 2, min/max 2, Bloom filters 2
  not skipped: 2 of 8 row groups have no Bloom filter on c
    remedy: bloomparquet add {groups} --columns c  # bloomparquet advise {groups} says whether it pays
s LIKE '%1' OR d = 8: skips 0 of 8
  not skipped: this part of the OR keeps 8 of 8 row groups that the rest of it would skip: s LIKE '%1'
    remedy: do what the reasons of this part say, or run it as a query of its own
  s LIKE '%1': skips 0 of 8
    not skipped: the pattern begins with a wildcard, so that any value might match
      remedy: begin the pattern with text, or add a condition on another column
  d = 8: skips 8 of 8
    used: min/max 8
day < 9: skips 0 of 8
  not skipped: the partition values of 8 of 8 row groups match
    remedy: name fewer partitions, or add a condition on another column"""
    )


def test_an_or_names_the_parts_that_keep_what_another_skips(groups: str) -> None:
    found = bp.plan(groups, "c = 31 OR length(s) = 3 OR s LIKE '%x' OR day = 1").explain().parts[0]
    assert [(each.reason.name, each.count, each.text.partition(": ")[2]) for each in found.not_used] == [
        ("OR_HALVES", 8, "c = 31, LENGTH(s) = 3, s LIKE '%x', day = 1")
    ]


def test_unopened_files_are_counted_apart_from_row_groups(groups: str) -> None:
    explanation = bp.plan(groups, "day = 2 AND c = 31").explain()
    day, c = explanation.leaves()
    assert (day.files, day.skipped, day.total, c.files, c.skipped, c.total) == (1, 0, 4, 0, 2, 4)
    assert (explanation.kept, explanation.total, explanation.skipped_files) == (2, 4, 1)
    assert explanation.decided == {Decision.READ: 2, Decision.NULLS: 1, Decision.BOUNDS: 1}
    assert "1 file skipped by partition values, unopened" in explanation._repr_html_()
    text = str(bp.plan(groups, "day = 2").explain())
    assert (
        text
        == """\
day = 2
4 of 4 row groups read; 1 file skipped by partition values, unopened

day = 2: skips 1 file and 0 of 4
  used: partition values 1 file
  not skipped: the partition values of 4 of 4 row groups match
    remedy: name fewer partitions, or add a condition on another column"""
    )


def test_explaining_does_not_change_the_plan(groups: str) -> None:
    plan = bp.plan(groups, "c > 500 AND c = 31")
    before = plan.requests, plan.bloom_bytes_read, plan.errors, repr(plan)
    explanation = plan.explain()
    assert (plan.requests, plan.bloom_bytes_read, plan.errors, repr(plan)) == before
    assert explanation.requests > 0  # the filters of the row groups that c > 500 had excluded
    assert plan.explain().requests == 0
    assert plan.explain().parts == explanation.parts


def test_stripes_are_explained(tmp_path: Path) -> None:
    path = write_orc(tmp_path / "x.orc", pa.table({"c": [2 * n for n in range(900)]}))
    assert bp.plan(path, "c = 601").explain().decided == {Decision.BOUNDS: 2, Decision.BLOOM: 1}
    explanation = bp.plan(path, "c = 600").explain()
    assert explanation.decided == {Decision.READ: 1, Decision.BOUNDS: 2}
    assert [(each.reason.name, each.count) for each in explanation.reasons()] == [("VALUE_EVERYWHERE", 1)]
    assert "1 of 3 stripes" in str(explanation)
