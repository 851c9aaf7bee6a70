"""Delta Lake's own scans are pruned, and return the rows that they return without pruning."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from pyspark_bloomparquet import explain_pruning, last_plan
from tests.connectors import pairs
from tests.connectors.delta import BY_NAME, FILTERS, UPGRADE, VECTORS, Table, create, rows_read
from tests.support import files
from tests.support.plain import NODE, compare, compare_all, executed
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import conf

BY_POSITION = {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"}

KINDS = {
    "plain": "",
    "vectors": VECTORS,
    "by name": BY_NAME,
    "by id": "'delta.columnMapping.mode' = 'id'",
    "changes and tracked rows": f"{VECTORS}, 'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true'",
}


@pytest.fixture(scope="module")
def table(table_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table that no test changes, with a deleted row: its id is 77."""
    table = create(
        table_spark, tmp_path_factory.mktemp("delta") / "t", f"{VECTORS}, 'delta.enableRowTracking' = 'true'"
    )
    table.sql("DELETE FROM {t} WHERE id = 77").collect()
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_table_is_pruned(table_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = create(table_spark, tmp_path / "t", KINDS[kind], "p" if kind == "by name" else "")
    wheres = ["id = 78", "s.a = 78", "at = timestamp_seconds(1700000000 + 78 * 3600)", "p = 0 AND b IN (79, 9999)"]
    for where, pruned in compare_all(table_spark, table.where, wheres).items():
        assert len(pruned.rows) == 1, where
        assert pruned.kept == [1], where


def test_deleted_rows_stay_deleted(table: Table) -> None:
    ours = compare_all(table.spark, table.where, ["id = 77", "id = 78", "id IN (77, 78)"])
    assert [len(pruned.rows) for pruned in ours.values()] == [0, 1, 1]
    assert ours["id = 78"].kept == [1]
    assert "__delta" not in str(ours["id = 78"].plans[0].where)
    assert NODE not in executed(table.sql("SELECT max(id) FROM {t}"))  # there is no condition but Delta's


def test_deletion_vectors_that_count_from_the_start_of_a_part(table: Table) -> None:
    with conf(table.spark, BY_POSITION):
        assert len(compare(table.spark, lambda: table.where("id > 70 AND id < 80")).rows) == 8
        pruned = compare(table.spark, lambda: table.where("id IN (76, 77, 78)"))
        assert len(pruned.rows) == 2
        assert not pruned.plans
        (plan,) = last_plan(table.where("id = 77"))
        assert not plan.planned
        assert "deletion vectors" in str(plan.reason)
        keys = "(SELECT col1 AS k FROM VALUES (76L), (77L))"
        join = f"SELECT /*+ BROADCAST(b) */ t.* FROM {table.name} t JOIN {keys} b ON t.id = b.k"
        assert len(compare(table.spark, lambda: table.spark.sql(join)).rows) == 1


def test_names_that_were_those_of_other_columns(table_spark: SparkSession, tmp_path: Path) -> None:
    table = create(table_spark, tmp_path / "t")
    for change in (
        f"SET TBLPROPERTIES ({UPGRADE})",
        "RENAME COLUMN a TO old", "RENAME COLUMN b TO a", "ADD COLUMN b BIGINT",  # b is new, and a is what b was
        "RENAME COLUMN s.a TO c", "RENAME COLUMN s.b TO a", "RENAME COLUMN s.c TO b",  # swapped
        "RENAME COLUMN l.element.a TO c", "RENAME COLUMN l.element.b TO a", "RENAME COLUMN l.element.c TO b",
    ):  # fmt: skip
        table.sql(f"ALTER TABLE {{t}} {change}")
    one = {
        "a = 79": 1, "old = 78": 1, "b IS NULL AND id = 5": 1, "s.a = 79": 1, "s.b = 78": 1, "l[0].a = 79": 1,
        "exists(l, x -> x.a = 79)": 1, "exists(l, x -> x.b = 78)": 1, "array_contains(l.a, 79)": 1,
        "array_contains(l.b, 78)": 1, "size(filter(l, x -> x.b = 78)) > 0": 1, "b = 79": 0, "a = 78": 0, "s.a = 78": 0,
        "exists(l, x -> x.a = 78)": 0, "array_contains(l.b, 79)": 0,
    }  # fmt: skip
    ours = compare_all(table_spark, table.where, one)
    assert {where: len(pruned.rows) for where, pruned in ours.items()} == one
    for where in ("a = 79", "old = 78", "s.a = 79", "s.b = 78"):
        assert ours[where].kept == [1], where
    joined = "SELECT /*+ BROADCAST(k) */ t.* FROM {t} t JOIN VALUES (79L) k(x) ON t.a = k.x"
    pruned = compare(table_spark, lambda: table.sql(joined))
    assert len(pruned.rows) == 1
    assert pruned.kept == [1]


def test_people_see_the_names_of_the_table(table_spark: SparkSession, tmp_path: Path) -> None:
    table = create(table_spark, tmp_path / "t", BY_NAME)
    table.sql("ALTER TABLE {t} RENAME COLUMN a TO `x.y`")
    frame = table.where("`x.y` = 78")
    assert len(frame.collect()) == 1
    (plan,) = last_plan(frame)
    assert plan.planned
    assert plan.kept == 1
    assert plan.paths == (f"file:{table.path}",)
    assert "x.y" in str(plan.where)
    for text in (str(plan.where), str(explain_pruning(frame)), executed(frame).partition("FileScan")[0]):
        assert "col-" not in text


@pytest.mark.parametrize("way", ["version", "clone", "copy", "zone"])
def test_ways_to_read(table: Table, tmp_path: Path, way: str) -> None:
    spark, name = table.spark, table.name
    settings = {}
    if way == "version":
        name += " VERSION AS OF 1"
    elif way == "clone":
        name = f"delta.`{tmp_path / 'clone'}`"
        spark.sql(f"CREATE TABLE {name} SHALLOW CLONE {table.name}")
    elif way == "copy":
        shutil.copytree(table.path, tmp_path / "copy", copy_function=shutil.copyfile)
        for path in tmp_path.rglob("*.parquet"):
            os.utime(path, (1, 1))
        name = f"delta.`{tmp_path / 'copy'}`"
    else:  # also by the catalog, in another session, row by row
        spark.sql(f"CREATE TABLE IF NOT EXISTS of_delta USING delta LOCATION '{table.path}'")
        spark, name = spark.newSession(), "of_delta"
        settings["spark.sql.session.timeZone"] = "America/New_York"
        settings["spark.sql.parquet.enableVectorizedReader"] = "false"
    columns = "*, _metadata.file_modification_time, _metadata.row_index, _metadata.row_id, _metadata.row_commit_version"
    with conf(spark, settings):
        wheres = ["id = 78", "id IN (77, 78) AND p < 2", "at = timestamp_seconds(1700000000 + 78 * 3600)"]
        ours = compare_all(spark, lambda where: spark.sql(f"SELECT {columns} FROM {name} WHERE {where}"), wheres)
        noon = "at = timestamp'2023-11-17 12:13:20'"
        (row,) = compare(spark, lambda: spark.sql(f"SELECT unix_seconds(at) FROM {name} WHERE {noon}")).rows
        assert row == ("(1700241200,)" if way == "zone" else "(1700223200,)")
    assert ours["id = 78"].kept == [1]
    assert [len(pruned.rows) for pruned in ours.values()] == [1, 2 if way == "version" else 1, 1]


def test_a_join_reads_the_row_groups_of_its_keys(table: Table, tmp_path: Path) -> None:
    files.write(tmp_path / "plain.parquet", {"x": [*range(78, 4_078)]}, ["x"], rows_per_group=500, fpp=0.0001)
    plain = f"parquet.`{tmp_path}`"
    asked = (
        f"SELECT /*+ BROADCAST(k) */ * FROM {table.name} t JOIN (SELECT x FROM {plain} WHERE x = 78) k ON t.id = k.x"
    )
    pruned = compare(table.spark, lambda: table.spark.sql(asked))
    assert len(pruned.rows) == 1
    assert pruned.kept == [1, 1]  # the plain files too


def test_changes_of_a_table(table_spark: SparkSession, tmp_path: Path) -> None:
    table = create(table_spark, tmp_path / "t", f"{VECTORS}, 'delta.enableChangeDataFeed' = 'true'")
    table.sql("UPDATE {t} SET a = 4 WHERE id = 78").collect()
    changes = f"SELECT * FROM table_changes_by_path('{table.path}', 1) WHERE id = 78"
    assert len(compare(table_spark, lambda: table_spark.sql(changes)).rows) == 3  # by a query that Delta runs itself

    read = []
    for pruning in (UNPRUNED, PRUNED):  # there is no plan to look at
        with conf(table_spark, pruning):
            read.append(rows_read(table_spark, changes)[0])
    assert read[1] + 600 <= read[0]


def test_a_stream_is_pruned(table_spark: SparkSession, tmp_path: Path) -> None:
    table = create(table_spark, tmp_path / "t")
    batches: list[Any] = []
    answers = []
    for pruning in (UNPRUNED, PRUNED):
        batches.clear()
        with conf(table_spark, pruning):
            stream = table_spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(str(table.path))
            writer = stream.where("id = 78").writeStream.foreachBatch(lambda batch, _: batches.extend(batch.collect()))
            writer = writer.option("checkpointLocation", str(tmp_path / str(len(answers)))).trigger(availableNow=True)
            query = writer.start()
            assert query.awaitTermination(120)
        answers.append((texts(batches), last_plan(query)))
    (expected, _), (rows, (plan,)) = answers
    assert rows == expected
    assert len(rows) == 1
    assert plan.total == 4  # the last batch has one file
    assert plan.skipped.total() >= 3


def test_an_index_of_the_table_is_used(table_spark: SparkSession, tmp_path: Path) -> None:
    table = Table(table_spark, tmp_path / "t")
    with conf(table_spark, {"parquet.block.row.count.limit": "100"}):  # no filters
        frame = table_spark.range(0, 800, numPartitions=2).selectExpr("id * 37 % 801 AS id", "id AS n")
        frame.write.format("delta").option("delta.columnMapping.mode", "name").save(str(table.path))
    assert compare(table_spark, lambda: table.where("id = 78")).kept == [8]
    bp.Dataset.from_delta(table.path).build_index({"id": bp.Bloom()})
    pruned = compare(table_spark, lambda: table.where("id = 78"))
    assert len(pruned.rows) == 1
    assert pruned.kept == [1]
    assert pruned.plans[0].indexed_files == 2


@pytest.mark.parametrize("is_match", [True, False])
def test_a_data_file_that_was_replaced(table_spark: SparkSession, tmp_path: Path, is_match: bool) -> None:
    table = create(table_spark, tmp_path / "t")
    for path in table.path.glob("*.parquet"):
        rows = pq.read_table(path)
        if (78 in rows["id"].to_pylist()) == is_match:
            pq.write_table(pa.concat_tables([rows, rows.slice(0, 300)]), path)
    outcomes = []
    for pruning in (UNPRUNED, PRUNED):
        with conf(table_spark, pruning):
            outcomes.append(pairs.run(lambda: table.where("id = 78")))
    expected, ours = outcomes
    assert ours.error or ours.rows == expected.rows
    assert not any(plan.planned for plan in ours.plans)


def test_delta_plans_a_scan_once(table: Table) -> None:
    for where in ("id = 4711", "id <> 5"):
        jobs = {}
        for pruning in (UNPRUNED, PRUNED) * 2:  # once to fill caches
            with conf(table.spark, pruning):
                _, jobs[str(pruning)] = rows_read(table.spark, f"SELECT * FROM {table.name} WHERE {where}")
        assert jobs[str(PRUNED)] <= jobs[str(UNPRUNED)], where


@pytest.mark.parametrize("properties", [VECTORS, "'delta.enableDeletionVectors' = 'false'"])
def test_statements_look_for_their_files_pruned(table_spark: SparkSession, tmp_path: Path, properties: str) -> None:
    contents, read = [], []
    create(table_spark, tmp_path / "base", properties)
    for pruning in (UNPRUNED, PRUNED):
        table = Table(table_spark, tmp_path / str(pruning["spark.bloomparquet.transparent"]))
        shutil.copytree(tmp_path / "base", table.path)
        with conf(table_spark, {**pruning, **FILTERS}):
            statements = (
                "DELETE FROM {t} WHERE id = 77",
                "UPDATE {t} SET a = 5, s.b = 7 WHERE id = 79",
                MERGE + " WHEN NOT MATCHED BY SOURCE AND id = 81 THEN DELETE",
            )
            read += [rows_read(table_spark, statement.format(t=table.name))[0] for statement in statements]
        contents.append(table.contents())
    assert contents[0] == contents[1]
    assert len(contents[0]) == 800 - 2 + 1
    assert read[3] + 400 <= read[0]
    assert read[4] + 400 <= read[1]


def test_a_frame_reads_its_version_again(table_spark: SparkSession, tmp_path: Path) -> None:
    table = create(table_spark, tmp_path / "t", VECTORS)
    frame = table.where("id IN (78, 79)")
    assert len(frame.collect()) == 2
    table.sql("DELETE FROM {t} WHERE id = 78").collect()
    assert len(frame.collect()) == 2
    assert last_plan(frame)[0].planned
    assert len(compare(table_spark, lambda: table.where("id IN (78, 79)")).rows) == 1


MERGE = (
    "MERGE INTO {t} USING (SELECT * FROM VALUES (80L), (9001L) k(x)) ON id = x WHEN MATCHED THEN UPDATE SET b = 9 "
    "WHEN NOT MATCHED THEN INSERT (id) VALUES (x)"
)
