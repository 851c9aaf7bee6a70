"""Predicates of any shape, and settings of Spark: the rows are those of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark users give it

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Readers, run, texts
from tests.support.spark import conf
from tests.support.spark_rows import assert_same_rows

pytestmark = pytest.mark.slow


def test_unknown_functions_do_not_skip_their_rows(readers: Readers, tmp_path: Path) -> None:
    ids = list(range(12))
    path = files.write(
        tmp_path / "t.parquet", {"id": ids, "s": [f"s{i % 5}" for i in ids]}, ["id", "s"], rows_per_group=2
    )
    wheres = [
        "NOT (id = 1 AND trim(s) = 'X')",
        "NOT (id = 1 OR trim(s) = 's2')",
        "NOT (id <> 1 OR trim(s) = 'X')",
        "NOT (NOT (id = 1 AND trim(s) = 's1'))",
        "id = 1 OR trim(s) = 's3'",
        "id = 1 AND (trim(s) = 's1' OR s = 's4')",
        "NOT (NOT (id = 1 OR trim(s) = 's3') AND s <> 's2')",
        "(id = 1) = (s = 's1')",
        "(id = 1) <=> NULL",
        "NOT (id IN (1, 2, NULL))",
        "id NOT IN (0, 1, 2) AND NOT (s LIKE '%3' OR id = 5)",
        "if(id = 3, s = 's3', id = 4)",
        "(id = 3) != (s = 's3')",
        "id % 5 = 2 OR id = 11",
        "id BETWEEN 3 AND 4 OR length(s) = 7",
        "id = 1 OR s = 's2' OR id = 10 OR s IS NULL",
        "(id = 1 OR s = 's2') OR (id = 10 OR s < 's1')",
        "(id > 1 AND s > 's1') AND (id < 9 AND s < 's4')",
        "NOT (id BETWEEN 1 AND 10 AND length(s) = 2)",
    ]
    assert assert_same_rows(readers, path, wheres) > 0


def test_an_in_list_of_100000_values_is_planned(readers: Readers, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": [i * 1000 for i in range(40)]}, ["id"], rows_per_group=4)
    among = [*range(1, 100_001, 2), 12_000, None, *range(-50_000, 0)]
    frame = readers.jar(path).where(F.col("id").isin(among[:1000]) | (F.col("id") == 5))
    assert run(frame).rows == []
    listed = ", ".join("NULL" if each is None else str(each) for each in among)
    ran = run(readers.jar(path).where(f"id IN ({listed})"))
    assert ran.rows == ["(12000,)"]
    assert ran.plan.planned


def test_a_replaced_file_is_planned_again(readers: Readers, tmp_path: Path) -> None:
    spark = readers.spark
    path = tmp_path / "t" / "a.parquet"
    files.write(path, {"id": [1, 2]}, ["id"], rows_per_group=1)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW replaced USING bloomparquet OPTIONS (path '{path.parent}')")
    assert texts(spark.sql("SELECT * FROM replaced WHERE id = 1").collect()) == ["(1,)"]
    for value in (2, 3, 4):
        files.write(path, {"id": [value + 10] * value + [value]}, ["id"], rows_per_group=1)
        assert texts(readers.jar(path.parent).where(f"id = {value}").collect()) == [f"({value},)"]
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW replaced USING bloomparquet OPTIONS (path '{path.parent}')")
        assert texts(spark.sql(f"SELECT * FROM replaced WHERE id = {value}").collect()) == [f"({value},)"]
        assert texts(readers.jar(path.parent).where("id = 1").collect()) == []


NUMBERS = [None, -1, 0, 1, 2, 5, 100]


TEXTS = [None, "", "a", "b", "ab", "é"]


DOUBLES = [None, -0.0, 0.0, 1.5, float("nan"), 1e300]


_leaf = (
    st.builds(
        lambda name, op, value: op(F.col(name), F.lit(value)),
        st.sampled_from(["i", "st.x"]),
        st.sampled_from(
            [Column.__eq__, Column.__ne__, Column.__lt__, Column.__ge__, Column.eqNullSafe, lambda c, v: c % 3 == v]
        ),
        st.sampled_from(NUMBERS[1:]),
    )
    | st.builds(lambda values: F.col("i").isin(values), st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4))
    | st.builds(lambda value: F.col("s") == value, st.sampled_from(TEXTS[1:]))
    | st.builds(lambda value: F.col("s").startswith(value), st.sampled_from(TEXTS[1:]))
    | st.builds(
        lambda case, value: case("s") == value,
        st.sampled_from([F.upper, F.lower, F.trim]),
        st.sampled_from(["A", "AB", "a"]),
    )
    | st.builds(
        lambda value, op: op(F.col("d"), value),
        st.sampled_from(DOUBLES[1:]),
        st.sampled_from([Column.__eq__, Column.__gt__]),
    )
    | st.sampled_from(["i", "s", "d", "st", "st.x"]).map(lambda name: F.col(name).isNull())
    | st.sampled_from(["i", "s", "st.x"]).map(lambda name: F.col(name).isNotNull())
    | st.builds(lambda: F.col("i") == F.col("st.x"))
    | st.sampled_from([True, False]).map(F.lit)
)


_predicate = st.recursive(
    _leaf,
    lambda inner: (
        st.builds(Column.__and__, inner, inner) | st.builds(Column.__or__, inner, inner) | inner.map(Column.__invert__)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """36 rows in row groups of two; equal values are adjacent."""
    root = tmp_path_factory.mktemp("mixture")
    rows = [(NUMBERS[i % 7], TEXTS[i // 2 % 6], DOUBLES[i // 3 % 6], NUMBERS[i // 5 % 7]) for i in range(36)]
    table = pa.table(
        {
            "k": range(36),
            "i": pa.array([row[0] for row in rows], pa.int64()),
            "s": pa.array([row[1] for row in rows]),
            "d": pa.array([row[2] for row in rows]),
            "st": pa.array([None if row[3] is None else {"x": row[3]} for row in rows], pa.struct([("x", pa.int64())])),
        }
    )
    return files.write(root / "t.parquet", table, ["i", "s", "d", "st.x"], rows_per_group=2)


def test_any_predicate_finds_what_spark_finds(readers: Readers, mixture: str) -> None:
    skipped = 0

    @settings(max_examples=50)
    @given(predicate=st.deferred(lambda: _predicate))
    def holds(predicate: Column) -> None:
        nonlocal skipped
        rows = (
            readers.oracle(mixture).select("k", predicate.alias("true")).collect()
        )  # computes the predicate as a column, so nothing is filtered
        expected = sorted(row["k"] for row in rows if row["true"])
        with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
            frame = readers.jar(mixture).where(predicate).select("k")
            assert sorted(row["k"] for row in frame.collect()) == expected
        skipped += sum(plan.skipped.total() for plan in last_plan(frame))

    holds()
    assert skipped > 100
