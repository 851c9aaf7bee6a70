"""Random DELETE, UPDATE and MERGE statements; ``{t}`` stands for the table."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession

from tests.connectors.delta_columns import Conditions, Kind, quoted

_SOURCE = "merge_source"


def statement(spark: SparkSession, random: Random, conditions: Conditions) -> str:
    way, where = random.random(), conditions.any() if random.random() < 0.3 else conditions.selective()
    if way < 0.4:
        return f"DELETE FROM {{t}} WHERE {_escaped(where)}"
    if way < 0.8:
        return f"UPDATE {{t}} SET {_assignment(random, conditions)} WHERE {_escaped(where)}"
    return _merge(spark, random, conditions)


def _escaped(sql: str) -> str:
    return sql.replace("{", "{{").replace("}", "}}")


def _assignment(random: Random, conditions: Conditions, prefix: str = "", value: str = "") -> str:
    """An assignment to a column, or to a field of a struct."""
    column, kind = random.choice(conditions.leaves)
    return f"{prefix}{column} = {value or f'CAST({kind.literal(random)} AS {kind.type})'}"


def _merge(spark: SparkSession, random: Random, conditions: Conditions) -> str:
    top = [(name, kind) for name, kind in conditions.columns.items() if isinstance(kind, Kind)]
    name, kind = random.choice(top)
    literals = dict.fromkeys(kind.literal(random) for _ in range(random.randint(1, 5)))
    values = [f"(CAST({literal} AS {kind.type}), {i})" for i, literal in enumerate(literals)]
    rows = f"SELECT * FROM VALUES {', '.join(values)} v(x, n)"
    way = random.choice(["values", "frame", "table"])
    if way == "values":
        source = f"({rows})"
    elif way == "frame":
        frame = spark.sql(rows)
        spark.createDataFrame(frame.collect(), frame.schema).createOrReplaceTempView(_SOURCE)
        source = _SOURCE
    else:
        source = f"(SELECT DISTINCT {quoted(name)} x, 7 n FROM {{t}} u WHERE {_escaped(conditions.selective())})"
    other = Conditions(conditions.columns, random, prefix="t.")
    extra = random.choice(["", "", f" AND {other.broad()}"])
    by_source = f"WHEN NOT MATCHED BY SOURCE AND {other.selective()} THEN"
    clauses = [
        random.choice([
            f"WHEN MATCHED THEN UPDATE SET {_assignment(random, other)}",
            f"WHEN MATCHED AND s.n > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET {_assignment(random, other)}",
            "WHEN MATCHED THEN DELETE",
            "",
        ]),
        random.choice(["", f"WHEN NOT MATCHED THEN INSERT ({quoted(name)}) VALUES (s.x)"]),
        random.choice(["", "", f"{by_source} DELETE", f"{by_source} UPDATE SET {_assignment(random, other)}"]),
    ]  # fmt: skip
    if not any(clauses):
        clauses = ["WHEN MATCHED THEN DELETE"]
    return f"MERGE INTO {{t}} t USING {source} s ON t.{quoted(name)} = s.x{extra} {' '.join(filter(None, clauses))}"
