"""Scans of Iceberg tables are pruned: columns, versions and files are what Iceberg says that they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from pyspark_bloomparquet import check as setup_check
from pyspark_bloomparquet import last_plan
from tests.connectors import iceberg_api
from tests.connectors.iceberg_api import ROW, ROWS, create
from tests.connectors.pairs import check, kept
from tests.support import connectors
from tests.support.plain import compare_all, executed, nodes, run
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import COMPILED, INTERPRETED, conf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("iceberg" not in connectors.TABLES, reason="Iceberg has no connector for this Spark"),
]


@pytest.fixture(scope="module")
def spark(table_spark: SparkSession) -> SparkSession:
    table_spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    return table_spark


def test_columns_are_those_of_their_field_ids(spark: SparkSession) -> None:
    row = f"{ROW}, {ROW.replace('i * 7919', '(i + 1) * 7919').replace('AS id', 'AS a').replace('AS v', 'AS b')}"
    row += ", named_struct('x', i, 'y', pmod(i * 7919, 1000)) AS st"
    table = create(spark, "names", row, filters=("a", "b", "st.x", "st.y"))
    steps = (
        ("ALTER TABLE {t} RENAME COLUMN a TO tmp", "tmp = 77"),
        ("ALTER TABLE {t} RENAME COLUMN id TO a", "a = 77 AND tmp >= 0"),
        ("ALTER TABLE {t} RENAME COLUMN tmp TO id", "id = 77"),
        ("ALTER TABLE {t} ALTER COLUMN id FIRST", "a = 77"),
        ("ALTER TABLE {t} DROP COLUMN v", "b = 'v77'"),
        ("ALTER TABLE {t} ADD COLUMN v STRING", "v = 'v77'"),
        ("INSERT INTO {t} (id, v) VALUES (77, 'v77')", "v = 'v77'"),
        ("ALTER TABLE {t} RENAME COLUMN st.x TO z", "st.z = 77"),
        ("ALTER TABLE {t} RENAME COLUMN st.y TO x", "st.x = 77"),
        ("ALTER TABLE {t} ADD COLUMN st.y BIGINT", "st.y = 77"),
        ("ALTER TABLE {t} ADD COLUMN st.y2 BIGINT", "v IS NULL AND st.x = 77"),
    )
    for step, where in steps:
        spark.sql(step.replace("{t}", table))
        (planned,) = check(spark, f"SELECT * FROM {table} WHERE {where}")[1]
        assert planned.kept < planned.total, (step, planned)


def test_check_plans_a_table(spark: SparkSession) -> None:
    table = create(spark, "checked")
    report = setup_check(spark, table)
    assert report.ok, report
    assert f"{table}: " in str(report)


def test_values_of_identity_partitions_are_not_those_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """Files that were added have no column `part`, or one with other values."""
    for part in (1, 2):
        select = f"SELECT {ROW}, 5 AS part FROM range(0, 500, 1, 1) r(i)"
        frame = spark.sql(select if part == 1 else select.replace(", 5 AS part", ""))
        frame.write.option("parquet.bloom.filter.enabled#id", "true").parquet(f"{tmp_path}/part={part}")
    properties = iceberg_api.properties(("id",))
    columns = "id BIGINT, v STRING, part INT"
    spark.sql(
        f"CREATE TABLE lake.db.parts ({columns}) USING iceberg PARTITIONED BY (part) TBLPROPERTIES ({properties})"
    )
    spark.sql(f"CALL lake.system.add_files(table => 'db.parts', source_table => '`parquet`.`{tmp_path}`')")
    counts = {"part = 2": 500, "part = 2 AND id = 919": 1, "id = 919 OR part = 2": 501, "part = 5": 0}
    ours = compare_all(spark, lambda where: spark.table("lake.db.parts").where(where), counts)
    assert {where: len(pruned.rows) for where, pruned in ours.items()} == counts
    # A later spec without it leaves the old files as they are.
    spark.sql("ALTER TABLE lake.db.parts DROP PARTITION FIELD part")
    spark.sql("INSERT INTO lake.db.parts VALUES (919, 'new', 1)")
    assert len(check(spark, "SELECT * FROM lake.db.parts WHERE id = 919 AND part <> 3")[0]) == 3
    assert kept(spark, "SELECT * FROM lake.db.parts WHERE id = 400 AND part <> 3") == [(0, 2)]


@pytest.mark.parametrize("mapping", ["names", "none", "foreign ids"])
def test_files_that_iceberg_did_not_write(spark: SparkSession, tmp_path: Path, mapping: str) -> None:
    name, path = f"added_{mapping.replace(' ', '_')}", str(tmp_path)
    if mapping == "foreign ids":
        source = create(
            spark, "source_of_ids", ROW.replace("AS id", "AS other").replace("AS v", "AS w") + ", i AS v, 1L AS id"
        )
        path = f"{iceberg_api.load(spark, source).location()}/data"
    else:
        spark.sql(f"SELECT {ROW} FROM range(0, {ROWS}, 1, 2) r(i)").write.mode("overwrite").option(
            "parquet.bloom.filter.enabled#id", "true"
        ).parquet(path)
    spark.sql(f"CREATE TABLE lake.db.{name} (id BIGINT, v STRING) USING iceberg")
    spark.sql(f"CALL lake.system.add_files(table => 'db.{name}', source_table => '`parquet`.`{path}`')")
    if mapping == "none":
        spark.sql(f"ALTER TABLE lake.db.{name} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    for column in ("id", "key"):
        rows, planned = check(spark, f"SELECT * FROM lake.db.{name} WHERE {column} = 77 OR v = 'v78'")
        assert len(rows) == 2
        assert bool(planned) == (mapping != "none")
        spark.sql(f"ALTER TABLE lake.db.{name} RENAME COLUMN id TO key") if column == "id" else None


def test_hidden_columns(spark: SparkSession) -> None:
    """Parts of files count rows as whole files do."""
    table = create(spark, "hidden")
    spark.sql(f"INSERT INTO {table} VALUES (-1, 'w')")
    spark.sql(f"UPDATE {table} SET v = 'new' WHERE id = 501")
    lineage = ", _row_id, _last_updated_sequence_number"
    some = "id IN (77, 501, 923)"
    assert kept(spark, f"SELECT *, _pos, _file, _spec_id, _partition{lineage} FROM {table} WHERE {some}")[0][0] <= 4
    wheres = ["_pos = 350", "_row_id = 350", "_row_id > 990", "_last_updated_sequence_number = 3", "_file > 'a'"]
    wheres += [f"{where} AND id BETWEEN 400 AND 600" for where in wheres]
    compare_all(spark, lambda where: spark.sql(f"SELECT *, _pos{lineage} FROM {table} WHERE {where}"), wheres)
    check(spark, f"SELECT count(*), max(_pos), count(DISTINCT _file) FROM {table} WHERE {some}")


def test_rows_instead_of_batches(spark: SparkSession) -> None:
    """A scan with structs and lists has rows, which Spark's joins take as they are."""
    table = create(spark, "nested", f"{ROW}, named_struct('x', i) AS st, array(i, i + 1) AS arr")
    keys = "(VALUES (77L), (5000L)) k(key)"
    queries = (
        f"SELECT /*+ BROADCAST(k) */ * FROM {table} t JOIN {keys} ON t.id = k.key",
        f"SELECT /*+ MERGE(k) */ * FROM {table} t JOIN {keys} ON t.id = k.key WHERE v = 'v77'",
        f"SELECT * FROM {table} WHERE id = 77",
        f"SELECT arr, id FROM {table} WHERE id = (SELECT max(key) - 4923 FROM {keys})",
    )
    with conf(spark, UNPRUNED):
        expected = [texts(spark.sql(query).collect()) for query in queries]
    for settings in (COMPILED, INTERPRETED):
        for adaptive in ("true", "false"):
            with conf(spark, {**settings, "spark.sql.adaptive.enabled": adaptive}):
                for query, rows in zip(queries, expected, strict=True):
                    (plan,) = run(spark, lambda: spark.sql(query), rows).plans  # noqa: B023
                    assert plan.kept < plan.total, query


def test_storage_partitioned_join(spark: SparkSession) -> None:
    row = f"{ROW}, i % 4 AS part"
    one, other = (
        create(spark, f"joined_{each}", row, "bucket(4, id)", **{"write.distribution-mode": "hash"}) for each in "ab"
    )
    settings = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.enabled": "false",
    }
    query = f"SELECT * FROM {one} a JOIN {other} b ON a.id = b.id WHERE a.v IN ('v77', 'v78') AND b.v <> 'v78'"
    with conf(spark, settings):
        assert kept(spark, query)[0][0] <= 2
        frame = spark.sql(query)
        assert "Exchange" not in executed(frame)
        parts = {
            node.execute().getNumPartitions()
            for node in nodes(frame._jdf.queryExecution().executedPlan(), "PrunedTableScan")
        }
        assert parts == {4}


def test_versions_branches_and_tags(spark: SparkSession) -> None:
    table = create(spark, "versions")
    spark.sql(f"ALTER TABLE {table} CREATE TAG before")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH other")
    spark.sql(f"DELETE FROM {table}.branch_other WHERE id = 77")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    spark.sql(f"UPDATE {table} SET w = 'v78' WHERE id = 77")
    for name, where, number in (
        (f"{table} VERSION AS OF 'before'", "id = 77", 1),
        (f"{table} VERSION AS OF 'before'", "v = 'v78'", 1),
        (f"{table}.branch_other", "id = 77", 0),
        (table, "w = 'v78'", 2),
    ):
        rows, (plan,) = check(spark, f"SELECT * FROM {name} WHERE {where}")
        assert len(rows) == number
        assert plan.kept < plan.total


def test_streams(spark: SparkSession, tmp_path: Path) -> None:
    table = create(spark, "streamed")
    for i in range(2):
        spark.sql(f"INSERT INTO {table} SELECT {ROW} FROM range({i}, 300, 1, 1) r(i)")
    counts = []
    for pruning in (UNPRUNED, PRUNED):
        with conf(spark, pruning):
            stream = spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", "1").load(table)
            writer = stream.where("id = 919").writeStream.format("memory").trigger(availableNow=True)
            query = writer.queryName(f"streamed_{pruning is PRUNED}").start()
            query.awaitTermination()
            counts.append(texts(spark.table(query.name).collect()))
    assert counts[0] == counts[1]
    assert len(counts[1]) == 3
    (plan,) = last_plan(query)
    assert plan.planned
    assert plan.kept < plan.total


def test_an_index_of_the_table_is_used(spark: SparkSession) -> None:
    table = "lake.db.indexed"
    properties = iceberg_api.properties(())
    select = f"SELECT {ROW} FROM range(0, {ROWS}, 1, 2) r(i)"
    spark.sql(f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ({properties}) AS {select}")
    location = iceberg_api.load(spark, table).location().removeprefix("file:")
    bp.Dataset.from_iceberg(location).build_index({"id": bp.Bloom()})
    query = f"SELECT * FROM {table} WHERE id = 77"
    (plan,) = check(spark, query)[1]
    assert (plan.indexed_files, plan.kept, plan.total) == (2, 1, 10)
    spark.sql(f"INSERT INTO {table} VALUES (77, 'new')")  # a file that the index does not know
    rows, (plan,) = check(spark, query)
    assert (len(rows), plan.indexed_files, plan.kept) == (2, 2, 2)


def test_other_scans_are_left_alone(spark: SparkSession) -> None:
    """Metadata tables, changes, rewrites, files of other formats."""
    table = create(spark, "mixed", **{"write.delete.mode": "merge-on-read"})
    spark.sql(f"DELETE FROM {table} WHERE id = 5")
    for other in ("orc", "avro"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = '{other}')")
        spark.sql(f"INSERT INTO {table} VALUES (77, '{other}')")
    rows, (plan,) = check(spark, f"SELECT * FROM {table} WHERE id = 77")
    assert (len(rows), plan.kept, plan.total) == (3, 1, 10)
    for name, where in (
        ("files", "record_count = 1000"),
        ("snapshots", "operation = 'append'"),
        ("position_deletes", "pos > 5"),
    ):
        assert not any(plan.total for plan in check(spark, f"SELECT * FROM {table}.{name} WHERE {where}")[1]), name
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    expected = texts(spark.table(table).collect())
    spark.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.mixed', where => 'id = 77',"
        " options => map('rewrite-all', 'true'))"
    )
    assert texts(spark.table(table).collect()) == expected


def test_incremental_reads(spark: SparkSession) -> None:
    table = create(spark, "grown")
    first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").first()[0]  # type: ignore[index]
    spark.sql(f"INSERT INTO {table} SELECT {ROW} FROM range(0, 500, 1, 1) r(i)")
    ask = lambda: spark.read.option("start-snapshot-id", first).table(table).where("id = 919")  # noqa: E731
    rows, (plan,) = check(spark, ask)
    assert (len(rows), plan.kept, plan.total) == (1, 1, 5)
    spark.sql(
        "CALL lake.system.create_changelog_view(table => 'db.grown', changelog_view => 'changes',"
        f" options => map('start-snapshot-id', '{first}'))"
    )
    assert check(spark, "SELECT id, v, _change_type FROM changes WHERE id = 919")[1] == []


def test_defaults_and_types_that_text_stands_for(spark: SparkSession) -> None:
    """Files have no values of a column with a default. Spark compares UUIDs as text, also in capitals."""
    table = create(spark, "typed", **{"write.parquet.dict-size-bytes": 1})  # Iceberg skips by dictionaries
    iceberg_api.add_uuid(spark, table, "u")
    iceberg_api.add_column_with_default(spark, table, "n", 7)
    uuids = [f"{i:08x}-aaaa-bbbb-cccc-dddddddddddd" for i in (1, 2)]
    rows = f"5000 + i, 'x', IF(i < 100, '{uuids[0]}', '{uuids[1]}'), CAST(IF(i < 100, 1, 7) AS INT)"
    spark.sql(f"INSERT INTO {table} SELECT {rows} FROM range(0, 200, 1, 1) r(i)")  # one UUID in each row group
    assert kept(spark, f"SELECT * FROM {table} WHERE id = 77 AND n = 7") == [(1, 10)]
    capital, bare = uuids[0].upper(), uuids[0].replace("-", "")
    counts = {
        "n = 7": 1100, "n IS NULL": 0, "n <> 7": 100, "n = 1": 100, f"u = '{uuids[0]}'": 100, f"u <> '{capital}'": 200,
        f"u NOT IN ('{capital}')": 200,
    }  # fmt: skip
    # Iceberg itself skips files by some of these as if the text were a UUID.
    others = (
        f"u = '{capital}'", f"u <> '{bare}'", f"u > '{capital}'", "u LIKE '0000%'", f"lower(u) = '{uuids[0]}'",
        "u < '00000002'", f"u IN ('{capital}', '{uuids[1]}')",
    )  # fmt: skip
    ours = compare_all(spark, spark.table(table).where, [*counts, *others])
    assert {where: len(ours[where].rows) for where in counts} == counts


def test_files_that_only_iceberg_opens(spark: SparkSession) -> None:
    """The planner reads by the FileIO of the table. This one has its files in memory."""
    catalog = {
        "spark.sql.catalog.memory": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.memory.catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
        "spark.sql.catalog.memory.io-impl": "org.apache.iceberg.inmemory.InMemoryFileIO",
        "spark.sql.catalog.memory.warehouse": "memory://warehouse",
    }
    with conf(spark, catalog):
        spark.sql("CREATE NAMESPACE memory.db")
        properties = iceberg_api.properties(("id",))
        select = f"SELECT {ROW} FROM range(0, {ROWS}, 1, 2) r(i)"
        spark.sql(f"CREATE TABLE memory.db.t USING iceberg TBLPROPERTIES ({properties}) AS {select}")
        location = str(iceberg_api.load(spark, "memory.db.t").location())
        assert location.startswith("memory://")
        assert kept(spark, "SELECT * FROM memory.db.t WHERE id = 77") == [(1, 10)]
        spark.sql("DELETE FROM memory.db.t WHERE id = 77")
        spark.sql("UPDATE memory.db.t SET v = 'new' WHERE id = 78")
        assert check(spark, "SELECT * FROM memory.db.t WHERE id IN (77, 78)")[0] == ["(78, 'new')"]
