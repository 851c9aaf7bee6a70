"""Random statements that change a table: DELETE, UPDATE and MERGE, with ``{t}`` for the table."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from tests.connectors.queries import Relation, condition
from tests.connectors.values import row_sql, value_sql
from tests.support import connectors

SOURCE = "source_of_merge"
SOURCES = {"iceberg": f"lake.db.{SOURCE}", "delta": f"default.{SOURCE}_table"}


def statement(spark: SparkSession, random: Random, table: Relation, seed: int, next_row: int) -> str:
    shape = random.random()
    if shape < 0.2:
        return f"DELETE FROM {{t}} WHERE {_condition(random, table)}"
    if shape < 0.3:
        keys = ", ".join(f"({key})" for key in _keys(random, table, next_row))
        return f"DELETE FROM {{t}} WHERE id IN (SELECT k FROM (VALUES {keys}) s(k))"
    if shape < 0.55:
        return f"UPDATE {{t}} SET {_assignments(random, table, seed)} WHERE {_condition(random, table)}"
    return _merge(spark, random, table, seed, next_row)


def _condition(random: Random, table: Relation) -> str:
    """About few rows, most times."""
    if not table.rows or random.random() < 0.3:
        return condition(random, table)
    ids = ", ".join(str(row["id"]) for row in random.choices(table.rows, k=random.choice((1, 1, 3))))
    also = f" AND ({condition(random, table)})" if random.random() < 0.3 else ""
    return f"id IN ({ids}){also}"


def _keys(random: Random, table: Relation, next_row: int) -> list[int]:
    """Ids of rows of the table, and new ones."""
    ids = [row["id"] for row in random.choices(table.rows, k=4) if row["id"] is not None] if table.rows else []
    new = [(next_row + i) * 7919 % 1000003 for i in range(random.randrange(4))]
    return [*dict.fromkeys(ids + new)] or [1]


def _assignments(random: Random, table: Relation, seed: int) -> str:
    fields = [each for each in table.schema if each.name != "id"]
    chosen = random.sample(fields, min(2, len(fields)))
    number = f"(id + {random.randrange(1000)})"
    return ", ".join(f"`{each.name}` = {value_sql(each.dataType, each.name, seed, number)}" for each in chosen)


def _merge(spark: SparkSession, random: Random, table: Relation, seed: int, next_row: int) -> str:
    keys = [(key, random.randrange(10**6)) for key in _keys(random, table, next_row)]
    kind = random.choice(("values", "values", "frame", "table"))
    rows = f"(VALUES {', '.join(map(str, keys))}) v(key, i)"
    if kind == "frame":
        schema = T.StructType([T.StructField("key", T.IntegerType()), T.StructField("i", T.IntegerType())])
        spark.createDataFrame(keys, schema).createOrReplaceTempView(SOURCE)
        rows = SOURCE
    elif kind == "table":
        name = SOURCES[connectors.TABLES[-1]]
        spark.sql(f"CREATE OR REPLACE TABLE {name} USING {connectors.TABLES[-1]} AS SELECT * FROM {rows}")
        rows = name
    rest = T.StructType([each for each in table.schema if each.name != "id"])
    id_kind = table.schema["id"].dataType.simpleString()
    source = f"(SELECT CAST(key AS {id_kind}) AS id{', ' * bool(rest.fields)}{row_sql(rest, seed)} FROM {rows})"
    names = [each.name for each in table.schema]
    clauses = []
    some = [name for name in random.sample(names, min(3, len(names))) if name != "id"] or names[-1:]
    shape = random.randrange(6)
    update = f"UPDATE SET {', '.join(f't.`{name}` = s.`{name}`' for name in some)}"
    insert = f"INSERT ({', '.join(f'`{n}`' for n in names)}) VALUES ({', '.join(f's.`{n}`' for n in names)})"
    also = random.choice(("", " AND s.id % 2 = 0", " AND t.id > 1000"))
    if shape in (0, 1, 2, 3):
        clauses.append(f"WHEN MATCHED{also} THEN {random.choice((update, update, 'UPDATE SET *', 'DELETE'))}")
    if also and random.random() < 0.3:
        clauses.append("WHEN MATCHED THEN DELETE")
    if shape in (1, 2, 4, 5):
        clauses.append(
            f"WHEN NOT MATCHED{random.choice(('', ' AND s.id % 2 = 1'))} THEN {random.choice((insert, 'INSERT *'))}"
        )
    if shape in (3, 5):
        fate = random.choice(("DELETE", f"UPDATE SET t.`{some[0]}` = NULL"))
        clauses.append(f"WHEN NOT MATCHED BY SOURCE AND t.id % {random.choice((1, 7))} = 0 THEN {fate}")
    on = random.choice(
        (
            "t.id = s.id",
            "t.id = s.id",
            "s.id = t.id AND t.id > 50",
            "t.id <=> s.id",
            "CAST(t.id AS BIGINT) = CAST(s.id AS BIGINT)",
        )
    )
    return f"MERGE INTO {{t}} t USING {source} s ON {on} {' '.join(clauses)}"
