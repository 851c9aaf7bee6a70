"""Statements that change Iceberg tables, alone and several at once, change the rows that they would change unpruned."""

from __future__ import annotations

import datetime as dt
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.connectors import iceberg_api
from tests.connectors.iceberg_api import ROWS, create
from tests.connectors.pairs import check, run
from tests.support import connectors
from tests.support.scenarios import PRUNED, UNPRUNED, ask_all, texts
from tests.support.spark import conf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("iceberg" not in connectors.TABLES, reason="Iceberg has no connector for this Spark"),
]
ROUNDS = int(os.environ.get("BLOOMPARQUET_ROUNDS", "5"))


@pytest.fixture(scope="module")
def spark(table_spark: SparkSession) -> SparkSession:
    table_spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    return table_spark


STATEMENTS = (
    "DELETE FROM {t} WHERE id = 7",
    "UPDATE {t} SET v = 'new' WHERE id = 8",
    "DELETE FROM {t} WHERE id IN (SELECT * FROM VALUES (9L), (10L), (5000L))",
    ("MERGE INTO {t} t USING (SELECT * FROM VALUES (11L, 'x'), (5001L, 'y') AS v(id, v)) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"),
    "MERGE INTO {t} t USING (SELECT * FROM VALUES (12L, 'x') AS v(id, v)) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ("MERGE INTO {t} t USING (SELECT * FROM VALUES (13L, 'x'), (5002L, 'y') AS v(id, v)) s ON t.id = s.id"
    " WHEN NOT MATCHED THEN INSERT *"),
    ("MERGE INTO {t} t USING (SELECT * FROM VALUES (14L, 'x') AS v(id, v)) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE AND t.id < 30 THEN DELETE"),
)  # fmt: skip


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)])
def test_a_statement_changes_its_rows_only(spark: SparkSession, mode: str, version: int) -> None:
    modes = {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
    name = f"changed_{mode[0]}{version}"
    tables = [create(spark, f"{name}_{each}", **modes, **{"format-version": version}) for each in ("off", "on")]
    skipped = []
    for statement in STATEMENTS:
        for table, pruning in zip(tables, (UNPRUNED, PRUNED), strict=True):
            with conf(spark, pruning):
                plans = last_plan(spark.sql(statement.replace("{t}", table)))
        with conf(spark, UNPRUNED):
            rows, _ = ask_all(map(spark.table, tables))
        assert texts(rows[0]) == texts(rows[1]), statement
        skipped.append(sum(plan.skipped.total() for plan in plans if plan.planned))
    assert len(rows[1]) == ROWS - 1 - 2 + 1 - 1 + 1 - 25  # of the 30 below 30, four are gone, and 14 stays
    assert all(skipped[:5]), skipped
    assert not skipped[6], "rows that match no source are asked for, too"


def test_deletes_apply_to_what_is_left(spark: SparkSession) -> None:
    table = create(spark, "deleted", **{"format-version": 2, "write.delete.mode": "merge-on-read"})
    spark.sql(f"DELETE FROM {table} WHERE id IN (77, 78, 900)")
    iceberg_api.delete_by_equality(spark, table, "id", [79, 80, 901])
    rows, (plan,) = check(spark, f"SELECT * FROM {table} WHERE id IN (77, 79, 81)")
    assert rows == ["(81, 'v81')"]
    assert plan.kept < plan.total


def test_a_source_that_changes_between_two_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Each id stays unique: a row of the source that has a match is not inserted."""

    spark.udf.register("now", lambda number: number * 25 + time.time_ns() // 1000 % 25, "long")
    spark.range(0, 1000, 25).write.parquet(f"{tmp_path}/source")
    spark.createDataFrame([(25 * i,) for i in range(40)], "id LONG").createOrReplaceTempView("frame")
    sources = (
        "(SELECT id * 25 + CAST(rand() * 25 AS BIGINT) AS id FROM range(40))",
        "(SELECT now(id) AS id FROM range(40))",
        f"parquet.`{tmp_path}/source`",
        "frame",
    )
    modes = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
    table = create(spark, "twice", **modes)
    for i, source in enumerate(sources):
        plans = last_plan(
            spark.sql(
                f"MERGE INTO {table} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'new{i}'"
                " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'extra')"
            )
        )
        assert not any(plan.planned for plan in plans if plan.paths[0].endswith("twice")), source
        assert spark.sql(f"SELECT count(*), count(DISTINCT id), max(v) FROM {table}").collect() == [
            (1000, 1000, "v999")
        ]


def test_a_frame_keeps_its_version(spark: SparkSession) -> None:
    table = create(spark, "kept", **{"write.delete.mode": "copy-on-write"})
    frames = [spark.sql(f"SELECT * FROM {table} WHERE id IN (77, 78)") for _ in range(2)]
    assert [len(frame.collect()) for frame in frames] == [2, 2]
    spark.sql(f"DELETE FROM {table} WHERE id = 77")
    answers = []
    for frame, pruning in zip(frames, (UNPRUNED, PRUNED), strict=True):
        with conf(spark, pruning):
            answers.append(texts(frame.collect()))
    assert answers[0] == answers[1]
    # The files of an older version are gone: an error, or all rows that it had.
    old = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at LIMIT 1").first()[0]  # type: ignore[index]
    gone = spark.sql(f"SELECT * FROM {table} VERSION AS OF {old} WHERE id = 77")
    assert len(gone.collect()) == 1
    now = dt.datetime.now() + dt.timedelta(days=1)
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => 'db.kept', older_than => TIMESTAMP '{now}', retain_last => 1)"
    )
    outcome = run(lambda: gone)
    assert outcome.error or len(outcome.rows) == 1


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 3), ("merge-on-read", 2)])
def test_sessions_that_write_at_once(spark: SparkSession, mode: str, version: int) -> None:
    """A statement that commits has changed its row, whatever others committed; one that fails has changed nothing."""
    properties: dict[str, object] = {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
    properties |= {"format-version": version, "commit.retry.num-retries": 50, "commit.retry.min-wait-ms": 1}
    table = create(spark, f"shared_{version}", **properties)
    sessions = [spark.newSession() for _ in range(3)]
    rows, committed = {id_: f"v{id_}" for id_ in range(ROWS)}, []
    for number in range(ROUNDS):
        gone, changed, new = 2 * number, 2 * number + 1, ROWS + number
        insert = "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
        statements = (
            f"DELETE FROM {table} WHERE id = {gone}",
            f"UPDATE {table} SET v = 'new' WHERE id = {changed}",
            f"MERGE INTO {table} t USING (SELECT {new}L AS id) s ON t.id = s.id {insert}",
        )
        for session in (spark, *sessions):
            session.sql(f"REFRESH TABLE {table}")
        with ThreadPoolExecutor(len(sessions)) as pool:
            jobs = [pool.submit(run, partial(each.sql, text)) for each, text in zip(sessions, statements, strict=True)]
        errors = [job.result().error for job in jobs]
        if not errors[0]:
            del rows[gone]
        if not errors[1]:
            rows[changed] = "new"
        if not errors[2]:
            rows[new] = "new"
        committed += [not error for error in errors]
        spark.sql(f"REFRESH TABLE {table}")
        with conf(spark, UNPRUNED):
            assert dict(spark.table(table).collect()) == rows, (statements, errors)  # type: ignore[call-overload]
    assert sum(committed) > ROUNDS, committed
