"""``ScanPlan.explain``: every reason of the closed set why a row group was not skipped, and its remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest

import bloomparquet as bp
from bloomparquet.planning.explanation import Explanation
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.query.why_not import WhyNot
from tests.planning import test_narrow_integers as narrow
from tests.support import encrypted_table
from tests.support.core import empty_filters
from tests.support.files import hive, write, write_groups
from tests.support.orc_rewriting import write as write_orc

EVEN = list(range(0, 100, 2))
UNPLANNED = {WhyNot.PLANNER_FAILED, WhyNot.NOT_PLANNED}  # see tests/jar/test_explain_pruning.py
JOINS = {reason for reason in WhyNot if reason.name.startswith("JOIN_")}  # likewise
Provoke = Callable[[Path], "Explanation"]


def of(where: Any, column: Any = EVEN, bloom: tuple[str, ...] = ("c",), **options: Any) -> Provoke:
    """Explain a predicate about the column `c`, and a column `d` without a filter, of one file."""

    def provoke(tmp_path: Path) -> Explanation:
        data = pa.table({"c": column, "d": list(range(len(column)))})
        path = write(tmp_path / "x.parquet", data, bloom, **options)
        return bp.plan(path, where).explain()

    return provoke


def pushed(where: str, **options: Any) -> Provoke:
    """Explain a predicate that a reader with its own rules pushed."""

    def provoke(tmp_path: Path) -> Explanation:
        write(tmp_path / "x.parquet", {"c": EVEN, "s": [{"a": 1}] * 50}, ["c"])
        dataset = bp.Dataset.open(tmp_path)
        return plan_dataset(dataset, None, PlanOptions(pushed=parse_where(where), **options)).explain()

    return provoke


def orc(where: str, column: Any) -> Provoke:
    def provoke(tmp_path: Path) -> Explanation:
        return bp.plan(write_orc(tmp_path / "x.orc", pa.table({"c": column})), where).explain()

    return provoke


def partitioned(where: str) -> Provoke:
    def provoke(tmp_path: Path) -> Explanation:
        root = hive(tmp_path / "t", {f"day=2026-01-0{i}": {"c": EVEN} for i in (1, 2)}, ["c"])
        options = PlanOptions(strict=False)
        return plan_dataset(bp.Dataset.open(root), where, options).explain()

    return provoke


def changed(tmp_path: Path) -> Explanation:
    path = write(tmp_path / "x.parquet", {"c": EVEN}, ["c"])
    dataset = bp.Dataset.open(path)
    plan = plan_dataset(dataset, "c = 1000 AND c = 30")  # no value: no filter is asked
    os.utime(path, ns=(1, 1))
    return plan.explain()


def unusable(tmp_path: Path) -> Explanation:
    path = empty_filters(write(tmp_path / "x.parquet", {"c": EVEN}, ["c"]))
    return bp.plan(path, "c = 30").explain()


def without_statistics(tmp_path: Path) -> Explanation:
    path = write(tmp_path / "x.parquet", {"c": EVEN}, write_statistics=False)
    return bp.plan(path, "c > 1000 AND c IS NULL").explain()


def undecryptable(tmp_path: Path) -> Explanation:
    path = encrypted_table.write(tmp_path / "x.parquet")
    return bp.plan(path, "id = 7", keys=bp.Keys(encrypted_table.FOOTER, {"text": encrypted_table.OTHER})).explain()


def unreadable(tmp_path: Path) -> Explanation:
    write(tmp_path / "x.parquet", {"c": EVEN}, ["c"])
    plan = bp.plan(tmp_path, "c = 30")
    (file,) = plan.dataset.files
    return replace(plan, unreadable={file: bp.LimitError("x.parquet: the footer is too large")}).explain()


def half_shredded(tmp_path: Path) -> Explanation:
    """A VARIANT column with values outside its typed leaf in one row group of two."""
    typed = pa.struct([pa.field("metadata", pa.binary(), False), ("value", pa.binary()), ("typed_value", pa.int64())])
    rows = [{"metadata": b"", "value": None, "typed_value": n} for n in range(3)]
    outside = [{"metadata": b"", "value": b"\x0c\x07", "typed_value": None}]
    return bp.plan(
        write_groups(
            tmp_path / "x.parquet", [pa.table({"v": pa.array(each, typed)}) for each in (rows, rows + outside)]
        ),
        "variant_get(v, '$', 'bigint') = 2",
    ).explain()


MANY = {"column": [n * 7919 % 100_003 for n in range(2000)], "fpp": 0.15}
TEXT = [f"name {n}" for n in EVEN]
PROVOKED: dict[WhyNot, Provoke] = {
    WhyNot.NO_PREDICATE: of(None),
    WhyNot.ALWAYS_TRUE: of("1 = 1"),
    WhyNot.FUNCTION: of("d % 3 = 1 AND c = 30"),
    WhyNot.LEADING_WILDCARD: of("c LIKE '%5'", TEXT),
    WhyNot.TWO_COLUMNS: of("c = d"),
    WhyNot.NOT_A_COMPARISON: of("c = 30 OR c = (SELECT 1)"),
    WhyNot.DOUBLE_QUOTES: of('c = 30 AND "d" = 20'),
    WhyNot.OR_HALF: of("c = 31 OR d = 20"),
    WhyNot.OR_HALVES: of("c = 31 OR d = 20 OR length(d) = 3"),
    WhyNot.NEGATION: of("c <> 30"),
    WhyNot.NOT_NULL: of("c IS NOT NULL"),
    WhyNot.NULLS_EVERYWHERE: of("c IS NULL", [None, *EVEN]),
    WhyNot.LITERAL: of(bp.Eq("c", float("nan")), [float(n) for n in EVEN]),
    WhyNot.LITERAL_TYPE: pushed("c = 'text'"),
    WhyNot.NON_ASCII: of("lower(c) = 'ä'", TEXT),
    WhyNot.MANY_VALUES: of(bp.In("c", range(0, 4000, 2)), **MANY),
    WhyNot.SAMPLE_SAYS_MAYBE: of(
        bp.In("c", range(20_000)), [n * 7919 % 20_000 for n in range(20_000)], rows_per_group=100
    ),
    WhyNot.UNKNOWN_COLUMN: pushed("no_such = 1"),
    WhyNot.AMBIGUOUS_COLUMN: pushed("s = 1"),
    WhyNot.TYPE: of("c = '2020-01-01'", pa.array(EVEN, pa.timestamp("us")), (), use_deprecated_int96_timestamps=True),
    WhyNot.BOOLEAN: of("c = TRUE", [True, False] * 25, ()),
    WhyNot.READER_TYPE: pushed("c = 30", reader_types={("c",): "smallint"}),
    WhyNot.NARROW_TYPE: lambda tmp: bp.plan(narrow.write(tmp / "x.parquet", narrow.INT_8, [300]), "x = 44").explain(),
    WhyNot.FLOAT_BOUNDS: of("c > 3.5", [float(n) for n in EVEN]),
    WhyNot.BOUNDS_TYPE: of("c > 3.5", pa.array(EVEN, pa.float16())),
    WhyNot.LIST_IN_ORC: orc("array_contains(c, 3)", [[1, 2]] * 50),
    WhyNot.NOT_SHREDDED: half_shredded,
    WhyNot.NO_FILTER: of("d = 20"),
    WhyNot.DISTRUSTED_FILTER: orc("c = 30", pa.array(EVEN, pa.int8())),
    WhyNot.NO_CASE_FILTER: of("lower(c) = 'name 2'", TEXT),
    WhyNot.SATURATED: lambda tmp: bp.plan(
        write(tmp / "x.parquet", {"c": MANY["column"]}, {"c": {"ndv": 100, "fpp": 0.1}}), "c = 7919"
    ).explain(),
    WhyNot.UNUSABLE_FILTER: unusable,
    WhyNot.NO_BOUNDS: without_statistics,
    WhyNot.NO_NULL_COUNT: without_statistics,
    WhyNot.RANGE_OVERLAPS: of("c < 30"),
    WhyNot.VALUE_EVERYWHERE: of("c = 30"),
    WhyNot.PARTITIONS: partitioned("day >= DATE '2026-01-01'"),
    WhyNot.PARTITION_TYPE: partitioned("day = 'no date'"),
    WhyNot.FILE_CHANGED: changed,
    WhyNot.KEY_MISSING: undecryptable,
    WhyNot.UNREADABLE_FOOTER: unreadable,
}


def test_every_reason_of_the_set_is_provoked() -> None:
    assert PROVOKED.keys() | UNPLANNED | JOINS == set(WhyNot)
    assert all("unknown" not in (reason.sentence + reason.remedy).lower() for reason in WhyNot)


@pytest.mark.parametrize("reason", PROVOKED)
def test_a_reason_is_given_with_its_sentence_and_remedy(reason: WhyNot, tmp_path: Path) -> None:
    explanation = PROVOKED[reason](tmp_path)
    (found, *_) = [each for each in explanation.reasons() if each.reason is reason]
    for text in (found.text, found.remedy):
        assert text
        assert "{" not in text
        assert text in str(explanation) == repr(explanation)
    assert Explanation.from_dict(json.loads(json.dumps(explanation.to_dict()))) == explanation


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["half", "plain.parquet"], "half plain.parquet"),
        ("half/*.parquet", "'half/*.parquet'"),
        ("plain.parquet", "plain.parquet"),
    ],
)
def test_commands_name_the_paths_as_they_were_given(
    given: Any, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("half/1.parquet", "half/2.parquet", "plain.parquet"):
        write(tmp_path / path, {"id": EVEN, "s": TEXT})
    by_column, by_case = (bp.plan(given, where).explain().reasons()[0] for where in ("id = 4", "lower(s) = 'a'"))
    add, _, advise = by_column.remedy.partition("  # ")
    assert add == f"bloomparquet add {named} --columns id"
    assert advise.startswith(f"bloomparquet advise {named} says")
    assert by_case.remedy.startswith(f"bloomparquet index build {named} --fpp 0.01 --columns 'lower(s)'")


def test_commands_name_only_planned_files_and_no_secret(tmp_path: Path) -> None:
    for path in ("1.parquet", "2.parquet", "other.parquet"):
        write(tmp_path / path, {"id": EVEN})
    listed = bp.Dataset.open(tmp_path)
    two = replace(listed, files=listed.files[:2], partition_values=((), ()), paths=())
    for dataset in (two, replace(listed, paths=("s3://key:secret@bucket/t",))):
        remedy = plan_dataset(dataset, "id = 4").explain().reasons()[0].remedy
        assert remedy.startswith("bloomparquet add PATH --columns id  # bloomparquet advise PATH ")


def test_no_command_is_named_that_orc_files_do_not_have(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    pa_orc.write_table(pa.table({"s": ["a", "b"]}), str(path))
    remedies = [each.remedy for each in bp.plan(path, "s = 'b' AND lower(s) = 'b'").explain().reasons()]
    assert len(remedies) == 2
    assert all("write the files again with" in each and "bloomparquet" not in each for each in remedies)
