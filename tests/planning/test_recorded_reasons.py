"""The reason that ``explain`` gives for a leaf predicate is what was recorded while that leaf was judged.

The environment variable LEAVES is the number of random leaves, 400 by default.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.planning import explain, judge
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks
from bloomparquet.planning.judge import Equality, LeafDecisions
from bloomparquet.planning.leaf_reasons import explain_kept
from bloomparquet.query.like import Like
from bloomparquet.query.predicate import Gt, GtEq, IsNotNull, IsNull, Lt, LtEq, Not, NotEq, NotIn, Predicate, StartsWith
from bloomparquet.query.verdict import Codes, Verdicts
from bloomparquet.query.why_not import WhyNot
from tests.planning.test_narrow_integers import INT_8, INT_16, write
from tests.support.core import empty_filters

LEAVES = int(os.environ.get("LEAVES", "400"))
RECORDED = {
    "the filter says maybe": {WhyNot.VALUE_EVERYWHERE, WhyNot.MANY_VALUES, WhyNot.SATURATED},
    "the filter failed": {WhyNot.UNUSABLE_FILTER},
    "the values are not trusted": {WhyNot.NARROW_TYPE},
    "the bounds overlap": {WhyNot.RANGE_OVERLAPS},
    "there are nulls": {WhyNot.NULLS_EVERYWHERE},
    "no proof by nulls": {WhyNot.NO_NULL_COUNT, WhyNot.NOT_NULL},
    "negated": {WhyNot.NEGATION},
}
OTHERWISE = "nothing was asked"
OF_REASON = {reason.name: name for name, reasons in RECORDED.items() for reason in reasons}


class Recorder(LeafDecisions):
    """Records, for each row group, what was asked of it when a leaf was judged by all evidence."""

    judged: list[Recorder]
    kept: list[Verdicts]

    def __init__(self, table: Any, condition: Any, request: Any) -> None:
        super().__init__(table, condition, request)
        self.record = ["there are nulls"] * len(table)  # unless the file has the column
        Recorder.judged.append(self)

    def _judge_chunks(
        self, leaf: Predicate, test: Predicate, chunks: Chunks, conclusive: Verdicts, codes: Codes
    ) -> None:
        super()._judge_chunks(leaf, test, chunks, conclusive, codes)
        for i, row in enumerate(chunks.members.tolist()):
            self.record[row] = OTHERWISE
            if not chunks.shown_as_stored[i]:
                self.record[row] = "the values are not trusted"
            elif isinstance(leaf, IsNull):
                self.record[row] = "there are nulls" if chunks.counts.nulls[i] >= 0 else "no proof by nulls"
            elif isinstance(leaf, IsNotNull):
                self.record[row] = "no proof by nulls"
            elif isinstance(leaf, Not | NotEq | NotIn):
                self.record[row] = "negated"
            elif _is_compared(leaf, chunks, i):
                self.record[row] = "the bounds overlap"

    def _ask(self, equality: Equality, alive: Verdicts, codes: Codes) -> None:
        asked = equality.candidates.filters.check

        def check(question: Any) -> Any:
            result = asked(question)
            for i in question.chunks.tolist():
                is_failed = i in equality.candidates.filters.errors
                self.record[equality.chunks.members[i]] = "the filter failed" if is_failed else "the filter says maybe"
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(equality.candidates.filters), "check", lambda _, question: check(question))
            super()._ask(equality, alive, codes)


def _is_compared(leaf: Any, chunks: Chunks, i: int) -> bool:
    if not isinstance(leaf, Lt | LtEq | Gt | GtEq | StartsWith | Like) or (isinstance(leaf, Like) and not leaf.prefix):
        return False
    upwards = not isinstance(leaf, Lt | LtEq)
    value = leaf.prefix if isinstance(leaf, StartsWith | Like) else leaf.value
    try:
        point = chunks.point(value, "UTC", upwards=upwards)
    except PlanError:
        return False
    is_text = not isinstance(leaf, StartsWith | Like) or chunks.family in ("string", "binary")
    is_known = chunks.bounds is not None and bool(chunks.bounds.known[i])
    return is_text and point is not None and is_known and not (upwards and statistics.may_hold_nan(chunks)[i])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Columns of many types in row groups with and without bounds, filters, values and the column itself."""
    root = tmp_path_factory.mktemp("t")
    rng = np.random.default_rng(1)
    for n in range(4):
        ids = rng.integers(-100, 100, 60)
        nothing = [None] * 60
        table = pa.table(
            {
                "i": pa.array(np.where(ids % 7, ids, None), [pa.int32(), pa.int64()][n % 2]),
                "b": pa.array(ids.astype(np.int8)), "h": pa.array(ids.astype(np.int16)),
                "d": pa.array([Decimal(int(v)) / 10 for v in ids], pa.decimal128(5, 1)),
                "f": pa.array([float("nan") if k % 9 == 0 else v / 2 for k, v in enumerate(ids)]),
                "s": pa.array(nothing if n == 3 else [f"s{v}" for v in ids], pa.string()),
                "o": pa.array(ids > 0), "l": pa.array([[int(v)] for v in ids], pa.list_(pa.int64())),
                "e": pa.array(ids), **({"only": ids} if n == 0 else {}),
            }
        )  # fmt: skip
        named = [name for name in table.column_names if n != 2 and name not in ("o", "l")] + ["l.list.element"]
        options = {name: {"ndv": 20 if n else 3, "fpp": 0.01} for name in named}
        pq.write_table(
            table, root / f"{n}.parquet", row_group_size=20, write_statistics=n != 1, bloom_filter_options=options,
            store_decimal_as_integer=n == 0,
        )  # fmt: skip
    empty_filters(str(root / "0.parquet"), column=9)
    for i, (kind, statistics_too) in enumerate([(INT_8, True), (INT_16, True), (INT_8, False)]):
        write(root / f"x{i}.parquet", kind, [1, 300, 70_000, None, 5], rows=2, write_statistics=statistics_too)
    return str(root)


def random_leaf(rng: random.Random) -> str:
    name = rng.choice(["i", "b", "h", "d", "f", "s", "o", "e", "only", "x"])
    number = rng.choice([str(rng.randint(-120, 120)), "44", "5", "1.5", "double('NaN')", "1.25BD"])
    value = {"s": f"'s{rng.randint(-120, 120)}'", "o": "TRUE"}.get(name, number)
    forms = [
        f"{name} = {value}", f"{name} <=> {value}", f"{name} IN ({value}, {'NULL' if name in 'so' else '7'})",
        f"{name} <> {value}", f"{name} NOT IN ({value})", f"NOT {name} <=> {value}", f"{name} IS NULL",
        f"{name} IS NOT NULL",
        *(f"{name} {operator} {value}" for operator in ("<", "<=", ">", ">=")),
    ]  # fmt: skip
    more = [
        "s LIKE 's1%'",
        "s LIKE 's%1'",
        "s LIKE '%1'",
        "s NOT LIKE 's1%'",
        "array_contains(l, 5)",
        "lower(s) = 's1'",
    ]
    return rng.choice([*forms, *(more if name == "s" else ())])


def test_each_reason_is_what_was_recorded_while_judging(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(units: Any, leaf: Any, kept: Verdicts, *rest: Any) -> Any:
        Recorder.kept.append(kept)
        return explain_kept(units, leaf, kept, *rest)

    monkeypatch.setattr(explain, "explain_kept", recorded)
    rng, seen, leaves = random.Random(12), Counter[str](), 0
    while leaves < LEAVES:
        where = rng.choice([" AND ", " OR "]).join(random_leaf(rng) for _ in range(rng.randint(1, 3)))
        try:
            plan = bp.plan(files, where)
        except PlanError:  # a literal of the wrong type, such as NaN among booleans
            continue
        Recorder.judged, Recorder.kept = [], []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judge, "LeafDecisions", Recorder)
            explanation = plan.explain()
        for leaf in explanation.leaves():
            if leaf.predicate in ("TRUE", "FALSE"):
                continue
            leaves += 1
            record = Recorder.judged.pop(0).record
            expected = Counter(record[row] for row in np.flatnonzero(Recorder.kept.pop(0)).tolist())
            given = Counter[str]()
            for each in leaf.not_used:
                given[OF_REASON.get(each.reason.name, OTHERWISE)] += each.count or 0
            assert given == expected, (where, leaf, record)
            seen += given
        assert not Recorder.judged
    assert seen.keys() == {*RECORDED, OTHERWISE}
