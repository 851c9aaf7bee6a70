"""``explain_pruning``: why scans of a Spark query skip what they skip."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bloomparquet.query.why_not import WhyNot
from pyspark_bloomparquet import ScanExplanation, explain_pruning, last_plan
from tests.planning.test_why_not import JOINS, UNPLANNED
from tests.support import files
from tests.support.scenarios import JAR, ORACLE, Readers, read
from tests.support.spark import application_conf

JAVA = Path(__file__).parents[2] / "jvm-shim/src/main/java/io/bloomparquet/spark/planner/WhyNot.java"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files of one row group, in two partitions. Statistics tell the first four from the others, and filters on
    `id` tell each from the others; no other column has a filter."""
    root = tmp_path_factory.mktemp("why") / "t"
    for i in range(8):
        ids = [(i >= 4) * 1000 + i % 4 + 4 * (row * 7 % 100) for row in range(100)]
        data = {"id": ids, "m": ids, "s": [f"s{n}" for n in ids], "n": [n % 9 for n in ids], "k": [n % 9 for n in ids]}
        files.write(root / f"day={i % 2}" / f"{i}.parquet", data, {"id": {"ndv": 100, "fpp": 1e-4}})
    return str(root)


def one(frame: Any) -> ScanExplanation:
    (explanation,) = explain_pruning(frame)
    return explanation


def reasons(explanation: ScanExplanation) -> dict[str, set[str]]:
    """The reasons of each part, by its text."""
    parts = explanation.explanation.parts
    every = [part for top in parts for part in (top, *top.parts, *(leaf for each in top.parts for leaf in each.parts))]
    return {part.predicate: {each.reason.name for each in part.not_used} for part in every if part.not_used}


def test_each_condition_is_explained(readers: Readers, path: str) -> None:
    frame = readers.jar(path).where(
        "id = 6 AND m = 6 AND length(s) = 2 AND s LIKE '%6' AND n <= k AND n <> 77 AND (n = 88 OR trim(s) = 's6')"
    )
    for _ in range(2):  # before the query runs, and after
        explanation = one(frame)
        parts = {part.predicate: part for part in explanation.explanation.leaves()}
        assert (parts["id = 6"].skipped, parts["id = 6"].total) == (7, 8)
        assert {used.evidence.value: used.skipped for used in parts["id = 6"].used} == {"min/max": 4, "bloom": 3}
        found = reasons(explanation)
        assert found["id = 6"] == {"VALUE_EVERYWHERE"}
        assert found["m = 6"] == {"NO_FILTER"}
        assert found["n <> 77"] == {"NEGATION"}
        assert found["n <= k"] == {"TWO_COLUMNS"}
        assert found["length(s) = 2"] == {"FUNCTION"}
        (wildcard,) = [part for part in found if "LIKE" in part or "endswith" in part.lower()]
        assert found[wildcard] == {"LEADING_WILDCARD"}
        (half,) = [part for part in found if part.startswith("trim(")]
        assert (found[half], found[f"n = 88 OR {half}"]) == ({"FUNCTION"}, {"OR_HALF"})
        assert (explanation.explanation.kept, explanation.explanation.total) == (1, 8)
        assert str(explanation).startswith(f"scan of file:{path}")
        rows = frame.collect()
    assert [row["id"] for row in rows] == [6]
    (plan,) = last_plan(frame)
    assert (plan.kept, plan.total) == (1, 8)


@pytest.mark.usefixtures("transparent")
def test_all_scans_of_a_query_are_explained(readers: Readers, path: str) -> None:
    plain, ours = (read(readers.spark, source, path) for source in (ORACLE, JAR))
    frame = plain.where("id = 6 AND day = 0").unionAll(ours.where("id = 1007")).unionAll(plain)
    frame.collect()
    scans = explain_pruning(frame)
    assert [scan.planned for scan in scans] == [True, True, False]
    # Spark goes by partition values; the planner gets the files that they keep.
    assert [leaf.predicate for scan in scans for leaf in scan.explanation.leaves()] == ["id = 6", "id = 1007"]
    assert [scan.explanation.total for scan in scans] == [4, 8, 0]
    assert [each.reason for each in scans[2].explanation.reasons()] == [WhyNot.NOT_PLANNED]
    assert "the query has no filter that can skip row groups" in str(scans[2])


WHY_JOINS_DO_NOT_PRUNE = {
    "JOIN_NOT_BROADCAST": "SELECT /*+ MERGE(d) */ e.id FROM e JOIN d ON e.m = d.d_id",
    "JOIN_BROADCASTS_THIS": "SELECT /*+ BROADCAST(e) */ e.id FROM e JOIN d ON e.m = d.d_id",
    "JOIN_KEEPS_ROWS": "SELECT e.id FROM e LEFT JOIN d ON e.m = d.d_id",
    "JOIN_KEY": "SELECT e.id FROM e JOIN d ON e.m + 1 = d.d_id",
    "JOIN_MANY_KEYS": "SELECT /*+ BROADCAST(r) */ e.id FROM e JOIN range(10001) AS r(d_id) ON e.m = r.d_id",
    "JOIN_NOT_PUSHED": "SELECT e.id FROM (SELECT * FROM e LIMIT 100) e JOIN d ON e.m = d.d_id",
}


@pytest.mark.usefixtures("transparent")
@pytest.mark.parametrize("reason", WHY_JOINS_DO_NOT_PRUNE)
def test_a_join_that_does_not_prune_is_named(readers: Readers, path: str, reason: str) -> None:
    """With a filter of the scan's own, and without one."""
    assert set(WHY_JOINS_DO_NOT_PRUNE) == {reason.name for reason in JOINS}
    read(readers.spark, ORACLE, path).createOrReplaceTempView("e")
    read(readers.spark, ORACLE, f"{path}/day=1/1.parquet").selectExpr("id AS d_id").createOrReplaceTempView("d")
    sql = WHY_JOINS_DO_NOT_PRUNE[reason]
    for each in (sql, sql.replace("FROM e ", "FROM (SELECT * FROM e WHERE n < 9) e ")):
        frame = readers.spark.sql(each)
        frame.collect()
        explanation = explain_pruning(frame)[0]
        assert "d_id" in str(explanation)
        if explanation.planned:
            (join,) = [part for part in explanation.explanation.leaves() if "d_id" in part.predicate]
            assert [used.reason.name for used in join.not_used] == [reason]
            assert "compare m with a value" not in str(explanation)
    for view in ("e", "d"):
        readers.spark.catalog.dropTempView(view)


def test_the_reasons_of_scans_without_a_plan(readers: Readers, path: str, tmp_path: Path) -> None:
    with application_conf(readers.spark, {"spark.bloomparquet.python": str(tmp_path / "missing")}):
        failed = readers.jar(path).where("id = 6")
        assert [row["id"] for row in failed.collect()] == [6]
        explanations = [one(failed), one(readers.jar(path, planning="off").where("id = 6"))]
        explanations.append(one(readers.oracle(path).where("id = 6")))
    found = [explanation.explanation.reasons()[0] for explanation in explanations]
    assert {each.reason for each in found} == UNPLANNED
    assert [each.reason.name for each in found] == ["PLANNER_FAILED", "NOT_PLANNED", "NOT_PLANNED"]
    for part, each in zip((str(tmp_path / "missing"), "planning is off", "transparent is false"), found, strict=True):
        assert part in each.text
    assert not any(explanation.planned for explanation in explanations)


def test_the_jar_names_reasons_of_the_closed_set() -> None:
    names = re.findall(r"^  ([A-Z_]+)\(\"", JAVA.read_text(), re.MULTILINE)
    assert len(names) == 11
    assert set(names) <= set(WhyNot.__members__)


@pytest.mark.usefixtures("transparent")
def test_literals_are_written_as_sql_writes_them(readers: Readers, tmp_path: Path) -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 600_000)
    columns = {
        "s": pa.array(["it's"]), "b": pa.array([b"\x00\xff"]), "d": pa.array([dt.date(2026, 1, 2)]),
        "t": pa.array([moment], pa.timestamp("us", "UTC")), "z": pa.array([moment], pa.timestamp("us")),
        "n": pa.array([Decimal("1.50")]), "f": pa.array([1.5]), "i": pa.array([7]),
    }  # fmt: skip
    path = files.write(tmp_path / "x.parquet", columns)
    conditions = [
        r"s = 'it\'s'", "b = X'00ff'", "d = DATE '2026-01-02'", "t = TIMESTAMP '2026-01-02 03:04:05.6+00:00'",
        "z = TIMESTAMP_NTZ '2026-01-02 03:04:05.6'", "n = 1.50", "f = 1.5D", "i = 7",
    ]  # fmt: skip
    frame = read(readers.spark, ORACLE, path).where(" AND ".join(conditions))
    (plan,) = last_plan(frame)
    assert plan.where is not None
    assert [part for part in plan.where.split(" AND ") if "NOT NULL" not in part] == conditions
    assert len(frame.collect()) == 1
    python = [leaf.predicate for leaf in one(frame).explanation.leaves()]
    same = {"TIMESTAMP_NTZ": "TIMESTAMP", "05.6+": "05.600000+", "05.6'": "05.600000'"}
    for short, long in same.items():
        conditions = [part.replace(short, long) for part in conditions]
    assert python == conditions
