"""The values of one side of a join prune the other side at run time, but never a preserved side.

The facts are ten files of one row group each, which share no key. The keys are mixed, so statistics cannot tell the
files apart. Dimensions are files too, or rows of a query.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Ran, Readers, metric, run, scans, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

FILES, ROWS = 10, 20
FILTERS = {name: {"ndv": ROWS, "fpp": 0.0001} for name in ("id", "s", "dec", "day", "other", "x")}


def facts_of(file: int) -> pa.Table:
    ids = [file + FILES * (row * 7 % ROWS) for row in range(ROWS)]
    return pa.table(
        {
            "id": pa.array([None if i == 3 else i for i in ids], pa.int64()),
            "s": pa.array([f"s{i:03}" for i in ids]),
            "dec": pa.array([Decimal(i) for i in ids], pa.decimal128(12, 2)),
            "day": pa.array([dt.date(2026, 1, 1) + dt.timedelta(i) for i in ids]),
            "other": pa.array([i * 3 for i in ids], pa.int32()),
            "x": pa.array([float(i) or -0.0 for i in ids]),
            "payload": pa.array(["p"] * ROWS),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("joins")
    for i in range(FILES):
        files.write(root / "facts" / f"part={i % 2}" / f"{i}.parquet", facts_of(i), FILTERS)
    keys = list(range(0, 200, 4))
    dimension = {
        "k": keys,
        "name": [f"n{k}" for k in keys],
        "s": [f"s{k:03}" for k in keys],
        "dec": pa.array([Decimal(k) for k in keys], pa.decimal128(12, 2)),
        "day": [dt.date(2026, 1, 1) + dt.timedelta(k) for k in keys],
        "o": pa.array([3 * k for k in keys], pa.int32()),
        "x": [float(k) for k in keys],
        "p": pa.array([k % 3 for k in keys], pa.int32()),
        "maybe": pa.array([None if k < 8 else k for k in keys], pa.int64()),
    }
    files.write(root / "dimension" / "d.parquet", dimension)
    return root


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not-adaptive"])
def adaptive(request: pytest.FixtureRequest, jar_spark: SparkSession) -> Iterator[None]:
    with conf(jar_spark, {"spark.sql.adaptive.enabled": request.param}):
        yield


def ask(readers: Readers, lake: Path, sql: str) -> Ran:
    """Run `sql` over views `f` and `d`, by Spark's own reader and by the jar, and compare rows and types."""
    runs = []
    for reader in (readers.oracle, readers.jar):
        reader(lake / "facts").createOrReplaceTempView("f")
        reader(lake / "dimension").createOrReplaceTempView("d")
        frame = readers.spark.sql(sql)
        runs.append((frame.schema, frame))
    (schema, oracle), (ours, frame) = runs
    assert ours == schema
    rows = texts(frame.collect())
    assert rows == texts(oracle.collect())
    # Not by `run`: without adaptive execution, the plan shows a copy of a reused broadcast that never ran.
    scanned = sum(metric(node, "numOutputRows") for node in scans(frame._jdf.queryExecution().executedPlan()))
    return Ran(rows, last_plan(frame), 0, scanned)


def kept(ran: Ran, table: str = "facts") -> list[int | None]:
    """The number of row groups that each scan of `table` kept; None for a scan that was not planned."""
    return [plan.kept if plan.planned else None for plan in ran.plans if plan.paths[0].endswith(table)]


PRUNED = {
    "a key": ("SELECT f.id, f.payload, d.name FROM f JOIN d ON f.id = d.k WHERE d.name = 'n44'", 1),
    "several values": ("SELECT f.id, d.name FROM f JOIN d ON f.id = d.k WHERE d.name IN ('n44', 'n48', 'n148')", 2),
    "a semi join": ("SELECT f.id FROM f LEFT SEMI JOIN d ON f.id = d.k AND d.name = 'n44'", 1),
    "IN of a subquery": ("SELECT payload, id FROM f WHERE id IN (SELECT k FROM d WHERE name = 'n44')", 1),
    "EXISTS": ("SELECT id FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.id AND d.name = 'n44')", 1),
    "two keys": ("SELECT f.id FROM f JOIN d ON f.id = d.k AND f.other = d.o WHERE d.name = 'n44'", 1),
    "two keys that no row has together": (
        "SELECT f.id FROM f JOIN d ON f.id = d.k AND f.s = d.name WHERE d.name = 'n44'",
        0,
    ),
    "strings": ("SELECT f.payload FROM f JOIN d ON f.s = d.s WHERE d.name = 'n44'", 1),
    "decimals": ("SELECT f.payload FROM f JOIN d ON f.dec = d.dec WHERE d.name = 'n44'", 1),
    "dates": ("SELECT f.payload FROM f JOIN d ON f.day = d.day WHERE d.name = 'n44'", 1),
    "a key that is not selected": ("SELECT f.payload FROM f JOIN d ON f.id = d.k WHERE d.name = 'n44'", 1),
    "a predicate of its own as well": (
        "SELECT f.id FROM f JOIN d ON f.id = d.k WHERE d.name IN ('n44', 'n48') AND f.s IN ('s044', 's045', 's046')",
        1,
    ),
    "no row on the other side": ("SELECT f.id FROM f JOIN d ON f.id = d.k WHERE d.name = 'nobody'", 0),
    "only nulls on the other side": ("SELECT f.id FROM f JOIN d ON f.id = d.maybe WHERE d.name IN ('n0', 'n4')", 0),
    "nulls among the values": ("SELECT f.id FROM f JOIN d ON f.id = d.maybe WHERE d.name IN ('n0', 'n4', 'n44')", 1),
}


@pytest.mark.parametrize("case", PRUNED)
def test_one_side_prunes_the_other(readers: Readers, lake: Path, adaptive: None, case: str) -> None:
    sql, expected = PRUNED[case]
    # Join reordering must not affect the result.
    ran = ask(readers, lake, sql)
    assert kept(ran) in ([expected], [])  # []: adaptive execution dropped the scan, because a side is empty
    if kept(ran) == []:
        assert ran.rows == []


NOT_PRUNED = {
    # Spark broadcasts this side, so it cannot prune it.
    "the nullable side of an outer join": (
        "SELECT d.name, f.payload FROM f RIGHT JOIN (SELECT * FROM d WHERE name = 'n44') d ON f.id = d.k"
    ),
    "the preserved side": "SELECT f.id, d.name FROM f LEFT JOIN (SELECT * FROM d WHERE name = 'n44') d ON f.id = d.k",
    "both sides preserved": (
        "SELECT f.id, d.name FROM f FULL JOIN (SELECT * FROM d WHERE name = 'n44') d ON f.id = d.k"
    ),
    "an anti join": "SELECT f.id FROM f LEFT ANTI JOIN d ON f.id = d.k AND d.name = 'n44'",
    "NOT EXISTS": "SELECT id FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = f.id AND d.name = 'n44')",
    "NOT IN of a subquery": "SELECT id FROM f WHERE id NOT IN (SELECT k FROM d WHERE name = 'n44')",
    "a side that selects nothing": "SELECT f.id, d.name FROM f JOIN d ON f.id = d.k",
    "an inequality": "SELECT f.id FROM f JOIN d ON f.id < d.k WHERE d.name = 'n4'",
    "keys of an expression": "SELECT f.id FROM f JOIN d ON f.id + 1 = d.k WHERE d.name = 'n44'",
    "keys that equal nulls": "SELECT f.s FROM f JOIN d ON f.id <=> d.maybe WHERE d.name IN ('n0', 'n44')",
    "IN under OR": "SELECT id FROM f WHERE id IN (SELECT k FROM d WHERE name = 'n44') OR s = 's001'",
}


@pytest.mark.parametrize("case", NOT_PRUNED)
def test_a_preserved_side_is_not_pruned(readers: Readers, lake: Path, case: str) -> None:
    ran = ask(readers, lake, NOT_PRUNED[case])
    assert kept(ran) in ([None], [FILES])
    assert ran.rows


def test_not_in_with_a_null_returns_no_row(readers: Readers, lake: Path) -> None:
    sql = "SELECT id FROM f WHERE id NOT IN (SELECT maybe FROM d WHERE name IN ('n0', 'n44'))"
    assert ask(readers, lake, sql).rows == []


def test_a_float_key_matches_both_zeros(readers: Readers, lake: Path) -> None:
    ran = ask(readers, lake, "SELECT f.s, f.x FROM f JOIN d ON f.x = d.x WHERE d.name IN ('n0', 'n44')")
    assert len(ran.rows) == 2
    assert any("-0.0" in row for row in ran.rows)


def test_a_star_join_is_pruned_by_both_dimensions(readers: Readers, lake: Path) -> None:
    ran = ask(
        readers,
        lake,
        "SELECT f.id, a.name, b.name AS other FROM f JOIN d a ON f.id = a.k JOIN d b ON f.s = b.s "
        "WHERE a.name IN ('n44', 'n48') AND b.name IN ('n48', 'n52')",
    )
    assert len(ran.rows) == 1
    assert kept(ran) == [1]  # neither side alone: 44 is in file 4, 48 in 8, 52 in 2


def test_a_join_on_a_partition_and_a_filtered_column(readers: Readers, lake: Path) -> None:
    by_part = ask(readers, lake, "SELECT f.id FROM f JOIN d ON f.part = d.p WHERE d.name = 'n4'")
    assert len(by_part.rows) == FILES * ROWS // 2
    dimension = readers.oracle(lake / "dimension").count()
    assert by_part.scanned <= FILES * ROWS // 2 + dimension, "only one partition was read, and the dimension"
    both = ask(readers, lake, "SELECT f.id FROM f JOIN d ON f.part = d.p AND f.id = d.k WHERE d.name = 'n12'")
    assert both.rows == ["(12,)"]
    (plan,) = [plan for plan in both.plans if plan.paths[0].endswith("facts")]
    assert (plan.total, plan.kept) == (FILES // 2, 1)


def test_one_scan_in_two_joins_with_other_keys(readers: Readers, lake: Path) -> None:
    ran = ask(
        readers,
        lake,
        "WITH c AS (SELECT id, s FROM f) "
        "SELECT c.id, c.s FROM c JOIN d ON c.id = d.k WHERE d.name = 'n44' UNION ALL "
        "SELECT c.id, c.s FROM c JOIN d ON c.id = d.k WHERE d.name = 'n148' UNION ALL SELECT id, s FROM c WHERE id = 5",
    )
    assert ran.rows == ["(148, 's148')", "(44, 's044')", "(5, 's005')"]
    assert kept(ran) == [1, 1, 1]


def test_a_self_join_prunes_both_scans(readers: Readers, lake: Path) -> None:
    ran = ask(readers, lake, "SELECT a.id, b.s FROM f a JOIN f b ON a.id = b.id WHERE a.s = 's044'")
    assert ran.rows == ["(44, 's044')"]
    assert kept(ran) == [1, 1]


def test_a_dimension_that_changes_between_two_runs(readers: Readers, lake: Path, tmp_path: Path) -> None:
    """Runtime predicates of one run must not prune the next."""
    facts = readers.jar(lake / "facts")

    def joined() -> DataFrame:
        dimension = readers.oracle(tmp_path / "d.parquet").where("name = 'it'")
        return facts.join(dimension, facts.id == dimension.k).select("id")

    for wanted in (44, 45, 44):
        files.write(tmp_path / "d.parquet", {"k": [wanted, 1], "name": ["it", "not"]})
        ran = run(joined())
        assert ran.rows == [f"({wanted},)"]
        assert kept(ran) == [1]


def test_a_view_that_replaces_another(readers: Readers, lake: Path) -> None:
    readers.jar(lake / "facts").createOrReplaceTempView("f")
    frames: list[DataFrame] = []
    for wanted in ("n44", "n48"):
        readers.jar(lake / "dimension").where(f"name = '{wanted}'").createOrReplaceTempView("chosen")
        frames.append(readers.spark.sql("SELECT f.id FROM f JOIN chosen ON f.id = chosen.k"))
    assert [run(frame).rows for frame in frames] == [["(44,)"], ["(48,)"]]
    assert [texts(frame.collect()) for frame in reversed(frames)] == [["(48,)"], ["(44,)"]]


def test_a_join_with_a_cached_dimension_loses_no_row(readers: Readers, lake: Path) -> None:
    facts = readers.jar(lake / "facts")
    dimension = readers.oracle(lake / "dimension").where("name = 'n44'").cache()
    try:
        assert dimension.count() == 1
        joined = facts.join(dimension, facts.id == dimension.k).select("id", "name")
        assert texts(joined.collect()) == ["(44, 'n44')"]
        narrowed = dimension.where("k > 0")
        joined = facts.join(narrowed, facts.id == narrowed.k).select("id", "name")
        assert texts(joined.collect()) == ["(44, 'n44')"]
    finally:
        dimension.unpersist()


def test_no_task_reads_facts_without_a_partner(readers: Readers, lake: Path) -> None:
    ran = ask(readers, lake, "SELECT f.id FROM f JOIN d ON f.id = d.k WHERE d.name = 'n44' AND d.s = 's000'")
    assert ran.rows == []
    assert kept(ran) in ([0], [])
    assert ran.scanned <= 1


def test_join_filters_can_be_switched_off(readers: Readers, lake: Path) -> None:
    sql = PRUNED["a key"][0]
    with conf(readers.spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
        assert kept(ask(readers, lake, sql)) == [None]
    assert kept(ask(readers, lake, sql)) == [1]


def test_a_join_over_a_load_with_where(readers: Readers, lake: Path) -> None:
    facts = readers.jar(lake / "facts", where="s IN ('s044', 's045', 's149')")
    dimension = readers.oracle(lake / "dimension").where("name IN ('n44', 'n48')")
    joined = facts.join(dimension, facts.id == dimension.k).select("id", "payload")
    assert run(joined).rows == ["(44, 'p')"]
    (plan,) = (each for each in last_plan(joined) if each.planned)
    assert (plan.planned, plan.kept) == (True, 1)
