"""Random conditions and queries of a table, whatever its schema is. No result depends on the order of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from tests.connectors.values import leaves, literal, value_at

_COMPARED = ("=", "=", "=", "=", "=", "<=>", "<", ">=", "<>")


@dataclass(frozen=True)
class Relation:
    """A table, or a version of it, as SQL names it. Literals are values of its `rows`."""

    name: str
    schema: T.StructType
    rows: Sequence[Any]
    metadata: Sequence[str] = ()  # hidden columns with small numbers

    @classmethod
    def of(cls, spark: SparkSession, name: str, random: Random, metadata: Sequence[str] = ()) -> Relation:
        frame = spark.sql(f"SELECT * FROM {name}")
        rows = sorted(frame.collect(), key=repr)  # the order of files differs from run to run
        return cls(name, frame.schema, random.sample(rows, min(len(rows), 200)), metadata)

    def some(self, random: Random, number: int) -> list[Any]:
        """So many rows; none if there are none."""
        return random.choices(self.rows, k=number) if self.rows else []


def condition(random: Random, table: Relation, depth: int = 0) -> str:
    """True for some rows, few most times."""
    if depth < 2 and random.random() < 0.25:
        both = [condition(random, table, depth + 1) for _ in range(2)]
        return random.choice(("({0}) AND ({1})", "({0}) OR ({1})", "NOT ({0})", "({0}) AND NOT ({1})")).format(*both)
    if table.metadata and random.random() < 0.04:
        return f"{random.choice(table.metadata)} {random.choice(_COMPARED)} {random.randrange(200)}"
    sql, path, kind = _column(random, table)
    values = [value_at(row, path) for row in table.some(random, 5)]
    if isinstance(kind, T.ArrayType):
        return _of_array(random, sql, kind, [item for value in values for item in value or []])
    if isinstance(kind, T.MapType):
        fields = [value["a"] for value in values if value and "a" in value] or [None]
        return f"element_at({sql}, 'a') = {literal(random, kind.valueType, fields[0])}"
    return scalar(random, sql, kind, values)


def scalar(random: Random, sql: str, kind: T.DataType, values: Sequence[Any]) -> str:
    given = [value for value in values if value is not None]
    if not given:
        return f"{sql} IS {random.choice(('', 'NOT '))}NULL"
    value, shape = given[0], random.random()
    if random.random() < 0.15 and isinstance(value, int) and not isinstance(value, bool):
        value += 1  # mostly a miss
    one = literal(random, kind, value)
    if shape < 0.5:
        return f"{sql} {random.choice(_COMPARED)} {one}" if random.random() < 0.8 else f"{one} = {sql}"
    if shape < 0.72:
        some = [*dict.fromkeys(literal(random, kind, each) for each in given[: random.randint(1, 5)])]
        return f"{sql} {'NOT ' * (random.random() < 0.15)}IN ({', '.join(some + ['NULL'] * (random.random() < 0.1))})"
    if shape < 0.8:
        return f"{sql} BETWEEN {one} AND {literal(random, kind, random.choice((value, given[-1])))}"
    if shape < 0.85:
        return f"{sql} IS {random.choice(('', 'NOT '))}NULL"
    if shape < 0.92 and isinstance(kind, T.StringType):
        return random.choice(
            (f"{sql} LIKE '{value[:5]}%'", f"lower({sql}) = lower({one})", f"substr({sql}, 1, 9) = '{value[:9]}'")
        )
    if shape < 0.96 and isinstance(kind, T.NumericType):
        is_float = isinstance(kind, T.FloatType | T.DoubleType)  # with NaN, which integers do not have
        target = "DOUBLE" if is_float else random.choice(("BIGINT", "DOUBLE", "DECIMAL(20,2)"))
        return f"CAST({sql} AS {target}) = CAST({one} AS {target})"
    return f"CAST({sql} AS STRING) = CAST({one} AS STRING)"


def _of_array(random: Random, sql: str, kind: T.ArrayType, items: Sequence[Any]) -> str:
    element = kind.elementType
    if isinstance(element, T.StructType):
        each = random.choice(element.fields)
        one = literal(random, each.dataType, items[0][each.name] if items and items[0] else None)
        return random.choice(
            (f"array_contains({sql}.`{each.name}`, {one})", f"exists({sql}, e -> e.`{each.name}` = {one})")
        )
    one = literal(random, element, items[0] if items else None)
    if not items or items[0] is None:
        return f"size({sql}) = {random.randrange(4)}"
    return random.choice(
        (f"array_contains({sql}, {one})", f"exists({sql}, e -> e = {one})", f"get({sql}, 0) = {one}", f"{sql} IS NULL")
    )


def _column(random: Random, table: Relation, scalars: bool = False) -> tuple[str, tuple[str, ...], T.DataType]:
    columns = [each for each in leaves(table.schema) if not scalars or not isinstance(each[2], T.ArrayType | T.MapType)]
    return random.choices(columns, [4 if path == ("id",) else 1 for _, path, _ in columns])[0]


def shown(random: Random, table: Relation) -> str:
    """A struct of all columns, or of a few of them with the place of the row."""
    if random.random() < 0.7:
        return "struct(*)"
    names = [f"`{each.name}`" for each in random.sample(table.schema.fields, min(3, len(table.schema)))]
    return f"struct({', '.join([*names, *table.metadata])})"


def query(random: Random, table: Relation) -> str:
    """A query that scans the table once, and more than filters it."""
    shape, t, where = random.random(), table.name, condition(random, table)
    if shape < 0.2:
        more = f", max({table.metadata[0]})" if table.metadata and random.random() < 0.5 else ""
        return f"SELECT count(*){more} FROM {t} t WHERE {where}"
    sql, path, kind = _column(random, table, scalars=True)
    values = [value for value in (value_at(row, path) for row in table.some(random, 3)) if value is not None]
    way = random.random()
    keys = [literal(Random(way), kind, value) for value in values]  # all of one type
    if random.random() < 0.2 or not keys:
        keys.append("NULL")
    if random.random() < 0.7:  # else Spark finds a common type, or none
        keys = [f"CAST({key} AS {kind.simpleString()})" for key in keys]
    small = f"(VALUES {', '.join(f'({key}, {i})' for i, key in enumerate(keys))}) k(key, n)"
    also = f"WHERE {where}" if random.random() < 0.4 else ""
    if shape < 0.36:
        return f"SELECT * FROM {t} t WHERE {sql} IN (SELECT key FROM {small})"
    if shape < 0.42:
        return f"SELECT * FROM {t} t WHERE {sql} NOT IN (SELECT key FROM {small}) AND ({where})"
    if shape < 0.5:
        return f"SELECT * FROM {t} t WHERE {sql} = (SELECT max(key) FROM {small})"
    if shape < 0.58:
        return (
            f"SELECT * FROM {t} t WHERE {random.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {small} WHERE key = t.{sql})"
        )
    hint = random.choice(("/*+ BROADCAST(k) */ ", "/*+ BROADCAST(k) */ ", "/*+ MERGE(k) */ ", ""))
    join = random.choice(
        ("JOIN", "JOIN", "JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
    )
    equal = random.choice(("=", "=", "=", "<=>"))
    return f"SELECT {hint}* FROM {t} t {join} {small} ON t.{sql} {equal} k.key {also}"


def query_of_two(random: Random, table: Relation) -> str:
    """A query that scans the table twice."""
    t, where = table.name, condition(random, table)
    sql, path, kind = _column(random, table, scalars=True)
    shape = random.random()
    if shape < 0.3:
        return f"SELECT * FROM {t} WHERE {sql} IN (SELECT {sql} FROM {t} WHERE {where})"
    if shape < 0.5:
        return f"SELECT * FROM {t} WHERE {sql} = (SELECT max({sql}) FROM {t} WHERE {where})"
    if shape < 0.6:
        return f"SELECT * FROM {t} WHERE {where} UNION ALL SELECT * FROM {t} WHERE {where}"
    where_key = scalar(random, f"b.{sql}", kind, [value_at(row, path) for row in table.some(random, 3)])
    few = ", ".join(str(row["id"]) for row in table.some(random, 3) if row["id"] is not None) or "1"
    join = f"{t} a JOIN {t} b ON a.{sql} = b.{sql}"
    return f"SELECT /*+ BROADCAST(b) */ a.*, b.* FROM {join} WHERE {where_key} AND b.id IN ({few})"
