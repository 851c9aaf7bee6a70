"""The keys of a broadcast side prune Spark's own scan of the other side.

The facts are ten files of one row group each, which share no key. The keys are mixed, so statistics cannot tell the
files apart. The oracle is the same query with pruning off.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.joins import FILES, OFF, ROWS, Kept, assert_same_rows, inserted, kept, make_views
from tests.support.scenarios import read, texts
from tests.support.spark import COMPILED, conf

pytestmark = pytest.mark.usefixtures("transparent")


@pytest.fixture(scope="module")
def joined(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the views of :func:`make_views`."""
    make_views(jar_spark, tmp_path_factory.mktemp("joins"))
    yield jar_spark
    for view in ("f", "m", "d"):
        jar_spark.catalog.dropTempView(view)


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not-adaptive"])
def adaptive(request: pytest.FixtureRequest, joined: SparkSession) -> Iterator[None]:
    with conf(joined, {"spark.sql.adaptive.enabled": request.param}):
        yield


PRUNED: dict[str, tuple[str, Kept]] = {
    "several keys": ("SELECT F.ID, d.name FROM f JOIN d ON F.ID = d.k WHERE d.name IN ('n44', 'n48', 'n52')", [3]),
    "a semi join": ("SELECT f.s FROM f LEFT SEMI JOIN d ON f.id = d.k AND d.name = 'n44'", [1]),
    "IN of a subquery": ("SELECT s, id FROM f WHERE id IN (SELECT k FROM d WHERE name = 'n44')", [1]),
    "a scalar subquery": ("SELECT * FROM f WHERE id = (SELECT max(k) FROM d WHERE name LIKE 'n4%')", [1]),
    "a scalar subquery without a value": ("SELECT * FROM f WHERE id = 1 + (SELECT k FROM d WHERE k < 0)", [0]),
    "an aggregate below": (
        (
            "SELECT g.id, g.n FROM (SELECT id, count(*) AS n FROM f GROUP BY id) g JOIN d ON g.id = d.k "
            "WHERE d.name = 'n44'"
        ),
        [1],
    ),
    "two keys that no row has together": (
        "SELECT f.id FROM f JOIN d ON f.id = d.k AND f.s = d.name WHERE d.name = 'n44'",
        [0],
    ),
    "an INT column and a BIGINT key": ("SELECT f.s FROM f JOIN d ON f.narrow = d.k WHERE d.name = 'n44'", [1]),
    "keys that no INT has": ("SELECT f.s FROM f JOIN d ON f.narrow = d.huge WHERE d.name > 'n'", [0]),
    "INT columns have no fractions": ("SELECT f.s FROM f JOIN d ON f.narrow = d.real WHERE d.name = 'n44'", [0]),
    "doubles, of both zeros": ("SELECT f.s, f.x FROM f JOIN d ON f.x = d.x WHERE d.name IN ('n0', 'n44')", [2]),
    "NaN equals NaN": ("SELECT f.s, f.x FROM f JOIN d ON f.x = d.x WHERE d.name = 'n8'", [FILES]),
    "a field of a struct": ("SELECT f.s FROM f JOIN d ON f.st.id = d.k WHERE d.name = 'n44'", [1]),
    "a name with a dot": ("SELECT f.s FROM f JOIN d ON f.`a.b` = d.k WHERE d.name = 'n44'", [1]),
    "no row on the other side": ("SELECT f.id FROM f JOIN d ON f.id = d.k WHERE d.name = 'nobody'", [0]),
    "nulls among the keys": ("SELECT f.id FROM f JOIN d ON f.id = d.maybe WHERE d.name IN ('n0', 'n44')", [1]),
    "a star of tables without filters": (
        "SELECT f.s FROM f JOIN d a ON f.id = a.k JOIN d b ON f.narrow = b.k JOIN d c ON f.s = c.s",
        [5],
    ),
    "two joins": (
        (
            "SELECT f.id, a.name, b.name AS other FROM f JOIN d a ON f.id = a.k JOIN d b ON f.s = b.s "
            "WHERE a.name IN ('n44', 'n48') AND b.name IN ('n48', 'n52')"
        ),
        [1],  # neither alone: 44 is in file 4, 48 in file 8, 52 in file 2
    ),
    "a union below": (
        (
            "SELECT u.id FROM (SELECT id FROM f WHERE part = 0 UNION ALL SELECT narrow FROM f WHERE s > 's') u "
            "JOIN d ON u.id = d.k WHERE d.name = 'n44'"
        ),
        [1, 1],
    ),
    "other keys for the same facts": (
        (
            "WITH c AS (SELECT id, s FROM f) SELECT c.s FROM c JOIN d ON c.id = d.k WHERE d.name = 'n44' "
            "UNION ALL SELECT c.s FROM c JOIN d ON c.id = d.k WHERE d.name IN ('n12', 'n16') "
            "UNION ALL SELECT s FROM c WHERE id = 5"
        ),
        [1, 2, 1],
    ),
    "other keys for exchanges that look equal": (
        (
            "SELECT * FROM (SELECT f.id, count(*) FROM f JOIN d ON f.id = d.k WHERE d.name = 'n44' GROUP BY f.id) a, "
            "(SELECT f.id, count(*) FROM f JOIN d ON f.id = d.k WHERE d.name = 'n16' GROUP BY f.id) b"
        ),
        [1, 1],
    ),
    "a column of the file's metadata": (
        "SELECT m.id, m._metadata.file_name FROM m JOIN d ON m.id = d.k WHERE d.name = 'n44'",
        [1],
    ),
    "a self join": ("SELECT a.id, b.s FROM f a JOIN f b ON a.id = b.id WHERE a.s = 's044'", [1, 1]),
}


ADAPTIVE_IN_TURN = itertools.cycle(["true", "false"])
COMPILED_CASES = list(PRUNED)[0::4] + list(PRUNED)[1::4]
"""Two of four: what keys prune does not depend on how Spark runs a query, and to compile takes longer."""


def unpruned(spark: SparkSession, sql: str) -> list[str]:
    with conf(spark, OFF):
        return texts(spark.sql(sql).collect())


@pytest.mark.parametrize(("case", "adaptive"), list(zip(PRUNED, ADAPTIVE_IN_TURN)), indirect=["adaptive"])
def test_the_keys_of_one_side_prune_the_other(joined: SparkSession, adaptive: None, case: str) -> None:
    sql, expected = PRUNED[case]
    with conf(joined, COMPILED if case in COMPILED_CASES else {}):
        frame = joined.sql(sql)
        rows = texts(frame.collect())
    assert rows == unpruned(joined, sql)
    if kept(frame):
        assert kept(frame) == expected
    else:  # adaptive execution dropped the scan, because a side is empty
        assert rows == []


NOT_PRUNED = {
    "the preserved side": "SELECT f.id, d.name FROM f LEFT JOIN (SELECT * FROM d WHERE name = 'n44') d ON f.id = d.k",
    "a side that Spark broadcasts": (
        "SELECT d.name, f.s FROM f RIGHT JOIN (SELECT * FROM d WHERE name = 'n44') d ON f.id = d.k"
    ),
    "an anti join": "SELECT f.id FROM f LEFT ANTI JOIN d ON f.id = d.k AND d.name = 'n44'",
    "NOT IN": "SELECT id FROM f WHERE id NOT IN (SELECT k FROM d WHERE name = 'n44')",
    "keys that equal nulls": "SELECT f.s FROM f JOIN d ON f.id <=> d.maybe WHERE d.name IN ('n0', 'n44')",
    "a BIGINT column and a DOUBLE key": "SELECT f.s FROM f JOIN d ON f.id = d.x WHERE d.name = 'n44'",
    "a collation": "SELECT f.id FROM f JOIN d ON f.s COLLATE UTF8_LCASE = upper(d.s) WHERE d.name = 'n44'",
}


@pytest.mark.parametrize("case", NOT_PRUNED)
def test_spark_s_plan_stays_where_keys_cannot_prune(joined: SparkSession, case: str) -> None:
    rows, frame = assert_same_rows(joined, NOT_PRUNED[case])
    assert rows
    assert not inserted(frame)
    assert set(kept(frame)) <= {None, FILES}


def test_keys_prune_a_load_with_where(joined: SparkSession) -> None:
    (path,) = {plan.paths[0] for plan in last_plan(joined.table("f"))}
    facts = read(joined, "bloomparquet", path, where="s IN ('s044', 's045', 's049')")
    dimension = joined.table("d").where("name IN ('n44', 'n48')")
    frame = facts.join(dimension, facts.id == dimension.k).select("id", facts.s)
    assert texts(frame.collect()) == ["(44, 's044')"]
    assert kept(frame) == [1]


@pytest.mark.usefixtures("compiled")
def test_keys_prune_partitions_and_row_groups_together(joined: SparkSession, adaptive: None) -> None:
    """Spark prunes the partitions, and the row groups of the rest are pruned by the other key."""
    by_part = "SELECT f.id FROM f JOIN d ON f.part = d.p WHERE d.name = 'n12'"
    rows, frame = assert_same_rows(joined, by_part)
    assert len(rows) == FILES * ROWS // 2
    rows, frame = assert_same_rows(joined, by_part.replace("WHERE", "AND f.id + 1 > 0 AND f.s = 's013' WHERE"))
    (plan,) = (plan for plan in last_plan(frame) if plan.paths[0].endswith("facts"))
    assert (rows, plan.total, plan.kept) == (["(13,)"], FILES // 2, 1)
    two_joins = (
        "SELECT f.id FROM f JOIN d a ON f.part = a.p JOIN d b ON f.id = b.k WHERE a.name = 'n40' AND b.name = 'n44'"
    )
    rows, frame = assert_same_rows(joined, two_joins)
    (plan,) = (plan for plan in last_plan(frame) if plan.paths[0].endswith("facts"))
    assert (rows, plan.total, plan.kept) == (["(44,)"], FILES // 2, 1)


A_KEY = "SELECT f.id, f.s, d.name FROM f JOIN d ON f.id = d.k WHERE d.name = 'n44'"
WITHOUT_KEYS = {
    "pruning is off": OFF,
    "Spark's dynamic pruning is off": {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"},
    "no broadcast": {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    "no reuse of exchanges": {"spark.sql.exchange.reuse": "false"},
}


@pytest.mark.parametrize("case", WITHOUT_KEYS)
def test_nothing_is_inserted_that_nothing_takes_out(joined: SparkSession, case: str) -> None:
    with conf(joined, WITHOUT_KEYS[case]):
        frame = joined.sql(A_KEY)
        assert texts(frame.collect()) == ["(44, 's044', 'n44')"]
        assert not inserted(frame)


def test_a_join_that_does_not_broadcast_is_not_pruned(joined: SparkSession, adaptive: None) -> None:
    """If it was to broadcast when the keys were inserted, Spark replaces them by TRUE."""
    rows, frame = assert_same_rows(joined, A_KEY.replace("SELECT", "SELECT /*+ MERGE(d) */", 1))
    assert (rows, kept(frame), inserted(frame)) == (["(44, 's044', 'n44')"], [None], False)
    frame = joined.sql(A_KEY)
    frame._jdf.queryExecution().optimizedPlan()
    with conf(joined, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}):
        assert (texts(frame.collect()), kept(frame)) == (rows, [None])


def test_a_limit_without_an_order_returns_its_rows(joined: SparkSession, adaptive: None) -> None:
    """Adaptive execution may drop the limit from the side that it broadcasts, and then the keys are not found."""
    rows, frame = assert_same_rows(joined, "SELECT f.s FROM f JOIN (SELECT k FROM d LIMIT 2) d ON f.id = d.k")
    is_adaptive = joined.conf.get("spark.sql.adaptive.enabled") == "true"
    assert (len(rows), kept(frame)) == (2, [None if is_adaptive else 2])


def test_a_long_chain_of_build_sides_is_planned_in_time(joined: SparkSession) -> None:
    """Each side is part of the keys of the next one, which would double with each join."""
    chain = joined.table("d").selectExpr("k AS k0")
    for i in range(1, 12):
        table = joined.table("d").selectExpr(f"k AS k{i}", f"k AS j{i}")
        chain = chain.hint("broadcast").join(table, expr(f"k{i - 1} = j{i}"))
    plan = chain._jdf.queryExecution().optimizedPlan().toString()
    assert 0 < plan.count("dynamicpruning") < 100


def test_interpreted_filters_do_not_evaluate_the_keys(joined: SparkSession) -> None:
    """A filter that kept the keys would fail in the tasks; also if pruning is switched off after they were inserted."""
    for sql in (A_KEY, PRUNED["a union below"][0], PRUNED["a column of the file's metadata"][0]):
        assert_same_rows(joined, sql)
    frame = joined.sql(A_KEY)
    frame._jdf.queryExecution().optimizedPlan()
    with conf(joined, OFF):
        assert texts(frame.collect()) == ["(44, 's044', 'n44')"]


def test_more_than_ten_thousand_keys_are_not_looked_up(joined: SparkSession) -> None:
    for count, expected in ((10_000, 0), (10_001, FILES)):
        keys = f"range(1000, {1000 + count})"
        sql = f"SELECT /*+ BROADCAST(r) */ f.s FROM f JOIN {keys} r ON f.narrow = r.id WHERE r.id > 0 AND f.s > 's'"
        rows, frame = assert_same_rows(joined, sql)
        assert (rows, kept(frame)) == ([], [expected])


def test_keys_of_char_columns_lose_no_row(joined: SparkSession, tmp_path: Path) -> None:
    joined.sql(f"CREATE TABLE padded (c CHAR(5), v VARCHAR(5)) USING parquet LOCATION '{tmp_path / 'padded'}'")
    try:
        joined.sql("INSERT INTO padded VALUES ('ab', 'ab'), ('cd ', 'cd'), ('x', 'x')")
        for setting in ("true", "false"):
            with conf(joined, {"spark.sql.readSideCharPadding": setting}):
                for column in ("c", "v"):
                    sql = f"SELECT * FROM padded JOIN (VALUES ('ab'), ('ab   ')) AS o(k) ON padded.{column} = o.k"
                    assert_same_rows(joined, sql)
    finally:
        joined.sql("DROP TABLE padded")


def test_a_dimension_that_changes_is_read_again(joined: SparkSession, tmp_path: Path) -> None:
    for wanted in (44, 45, 44):
        files.write(tmp_path / "d.parquet", {"k": [wanted, 1], "name": ["it", "not"]})
        joined.read.parquet(str(tmp_path / "d.parquet")).where("name = 'it'").createOrReplaceTempView("chosen")
        rows, frame = assert_same_rows(joined, "SELECT f.id FROM f JOIN chosen ON f.id = chosen.k")
        assert (rows, kept(frame)) == ([f"({wanted},)"], [1])


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_that_overflows_is_an_error_where_spark_has_one(joined: SparkSession, ansi: str) -> None:
    def answer(condition: str) -> Any:
        try:
            return texts(joined.sql(f"SELECT s FROM f WHERE {condition}").collect())
        except ArithmeticException as error:
            return error.getCondition()

    overflow = "id = (SELECT max(k) FROM d) + 9223372036854775807"
    with_others = ["{}", "id < -1 AND {}", "id = 4 OR {}", "id = 4 AND ({} OR s = 's004')"]
    conditions = [each.format(overflow) for each in with_others]
    with conf(joined, {"spark.sql.ansi.enabled": ansi}):
        with conf(joined, OFF):
            expected = [answer(condition) for condition in conditions]
        assert [answer(condition) for condition in conditions] == expected
    assert expected[0] == ("ARITHMETIC_OVERFLOW" if ansi == "true" else [])


def test_streams_are_not_pruned_by_keys(joined: SparkSession, tmp_path: Path) -> None:
    """Each batch may bring other rows."""
    facts = joined.table("f").drop("part")
    facts.where("id < 50").coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = joined.readStream.schema(facts.schema).parquet(str(tmp_path / "in"))
    result = stream.join(joined.table("d").where("name = 'n44'"), stream.id == joined.table("d").k).select(stream.s)
    query = result.writeStream.format("memory").queryName("joined_stream").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert texts(joined.table("joined_stream").collect()) == ["('s044',)"]
    joined.catalog.dropTempView("joined_stream")
    assert "dynamicpruning" not in query._jsq.streamingQuery().lastExecution().toString()  # type: ignore[attr-defined]


# -- random joins ------------------------------------------------------------------------------------------------------

CASES = int(os.environ.get("BLOOMPARQUET_CASES", "300")) // 10  # how many joins to try
JOIN_KEYS = [
    "f.id = d.k", "f.narrow = d.k", "f.narrow = d.small", "f.s = d.s", "f.dec = d.dec", "f.x = d.x", "f.id = d.x",
    "f.real = d.real", "f.st.id = d.k", "f.id = d.maybe", "f.id <=> d.maybe", "f.narrow = d.huge", "f.part = d.p",
    "f.id + 1 = d.k", "CAST(f.id AS STRING) = d.k", "f.x = d.dec", "f.dec = d.x", "f.s = d.name", "f.id < d.k",
]  # fmt: skip
BUILDS = [
    "d", "(SELECT * FROM d WHERE k < 24)", "(SELECT * FROM d WHERE name = 'nobody')", "(SELECT DISTINCT * FROM d)",
    "(SELECT * FROM d ORDER BY k DESC LIMIT 3)", "(SELECT a.* FROM d a JOIN d b ON a.k = b.k WHERE b.small > 40)",
    "(SELECT * FROM d UNION ALL SELECT * FROM d)", "(SELECT d.* FROM d LEFT JOIN f ON d.k = f.id WHERE f.id IS NULL)",
]  # fmt: skip
FACTS = [
    "f", "(SELECT * FROM f WHERE s > 's04')", "(SELECT * FROM f WHERE part = 1)",
    "(SELECT * FROM f UNION ALL SELECT * FROM f)", "(SELECT f.* FROM f JOIN d e ON f.narrow = e.small)",
]  # fmt: skip
KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
HINTS = ["", "/*+ BROADCAST(f) */", "/*+ BROADCAST(d) */", "/*+ MERGE(d) */", "/*+ SHUFFLE_HASH(d) */"]
SETTINGS = {
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.autoBroadcastJoinThreshold": ["-1", "10mb"],
    "spark.sql.adaptive.autoBroadcastJoinThreshold": ["-1", "10mb"],
    "spark.sql.exchange.reuse": ["true", "true", "false"],
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.parquet.enableVectorizedReader": ["true", "false"],
}


@pytest.mark.slow
def test_random_joins_lose_no_row(joined: SparkSession) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=CASES)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        kind, hint = draws.draw(st.sampled_from(KINDS)), draws.draw(st.sampled_from(HINTS))
        on = " AND ".join(draws.draw(st.lists(st.sampled_from(JOIN_KEYS), min_size=1, max_size=2, unique=True)))
        facts, build = draws.draw(st.sampled_from(FACTS)), draws.draw(st.sampled_from(BUILDS))
        columns = "f.*" if kind in KINDS[4:] else "f.*, d.*"
        sql = f"SELECT {hint} {columns} FROM {facts} f {kind} {build} d ON {on}"
        if draws.draw(st.booleans()):
            sql = sql.replace(columns, "count(*), max(f.s)", 1)
        note(sql)
        values = draws.draw(st.fixed_dictionaries({key: st.sampled_from(of) for key, of in SETTINGS.items()}))
        with conf(joined, {**values, "spark.sql.ansi.enabled": "false"} if "STRING" in on else values):
            rows, frame = assert_same_rows(joined, sql)
            tally["rows"] += bool(rows)
            tally["pruned"] += any(plan.kept < plan.total for plan in last_plan(frame))

    check()
    assert tally["rows"] > CASES // 4
    assert tally["pruned"] > CASES // 20
