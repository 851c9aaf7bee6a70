"""Pairs of random tables: made twice by the same steps, changed without pruning and with it, and asked both ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from tests.connectors.pairs import (
    ERRORS,
    Counts,
    Outcome,
    compare,
    compare_conditions,
    counts_of,
    difference,
    run,
    skipped,
)
from tests.connectors.queries import Relation, condition, query, query_of_two, shown
from tests.connectors.statements import statement
from tests.connectors.values import row_sql
from tests.support import connectors
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import COMPILED, INTERPRETED, conf

NESTED = (
    "st STRUCT<a: INT, b: STRING, c: STRUCT<x: BIGINT, y: STRING>>, arr ARRAY<INT>, m MAP<STRING, INT>,"
    " items ARRAY<STRUCT<x: INT, y: STRING>>"
)
FLAT = (
    "k INT", "s STRING", "uu STRING", "d DECIMAL(9,2)", "f FLOAT", "g DOUBLE", "day DATE", "ts TIMESTAMP",
    "nt TIMESTAMP_NTZ", "bin BINARY", "ok BOOLEAN",
)  # fmt: skip
WIDER = {"int": "BIGINT", "float": "DOUBLE", "decimal(9,2)": "DECIMAL(18,2)"}
BATCHES, AT_ONCE, ALONE = 2, 20, 2


class Pair(ABC):
    """Two tables that are equal. The second one is asked, and changed with pruning."""

    partitions: tuple[str, ...]

    def __init__(self, spark: SparkSession, home: Path, number: int) -> None:
        self.spark, self.home, self.number = spark, home, number
        self.random = Random(number)
        self.values = self.random.randrange(1 << 30)
        self.next = 0
        self.made: list[str] = []
        self.partition = self.random.choice(self.partitions)

    @classmethod
    def rounds_from(cls, spark: SparkSession, home: Path, seed: int) -> Iterator[Counts]:
        """Counts, again and again: of a statement, or of the queries of a version of a table. `seed` is the first."""
        if "iceberg" in connectors.TABLES:
            spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        for number in count(seed):
            yield from cls(spark, home, number).rounds()

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The tables, as SQL names them."""

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def mark(self, step: int) -> str:
        """What names this version after the name of the table; perhaps nothing."""

    @abstractmethod
    def evolve(self) -> None:
        """Change the schema in a way that only this format has, rewrite files, or delete in another way."""

    @abstractmethod
    def drop(self) -> None: ...

    def metadata(self) -> list[str]:
        """Hidden columns with small numbers."""
        return []

    def settings(self) -> dict[str, str]:
        random = self.random
        return {
            "spark.sql.adaptive.enabled": flag(random, 0.5),
            "spark.sql.ansi.enabled": flag(random, 0.7),
            "spark.sql.session.timeZone": random.choice(("UTC", "UTC", "America/New_York")),
            "spark.sql.autoBroadcastJoinThreshold": random.choice(("10MB", "10MB", "-1")),
            **(COMPILED if random.random() < 0.15 else INTERPRETED),
        }

    def rounds(self) -> Iterator[Counts]:
        random = self.random
        with conf(self.spark, UNPRUNED):
            self.create()
            self.append(random.randint(600, 1500))
            self.append(random.randint(100, 800))
        marks: list[str] = []
        yield from self.ask("")
        for step in range(random.randint(3, 6)):
            for _ in range(random.randint(2, 5)):
                yield self.change()
            with conf(self.spark, UNPRUNED):
                if self.spark.table(self.names[0]).isEmpty():
                    self.append(500)
                marks += filter(None, [self.mark(step)])
            yield from self.ask("")
            if marks and random.random() < 0.4:
                yield from self.ask(random.choice(marks))
        self.drop()

    def sql(self, text: str) -> None:
        """Run an SQL statement on both tables."""
        for name in self.names:
            self.spark.sql(text.replace("{t}", name).replace("{short}", name.removeprefix("lake.")))
        self.made.append(text)

    def about(self, *more: str) -> str:
        return "\n  ".join([f"seed {self.number}", *self.made, *more])

    @property
    def schema(self) -> T.StructType:
        return self.spark.table(self.names[0]).schema

    def columns(self) -> str:
        """Columns for CREATE TABLE: those by which tables are partitioned, and some others."""
        needed = ("s STRING", "ts TIMESTAMP", "ok BOOLEAN", "uu STRING", "k INT")
        columns = [f"id {self.random.choice(('INT', 'BIGINT'))}", *self.random.sample(FLAT, 8)]
        columns += [each for each in needed if each not in columns]
        return ", ".join([*columns, *([NESTED] if self.random.random() < 0.4 else [])])

    def append(self, rows: int) -> None:
        self.sql(f"INSERT INTO {{t}} {self.new_rows(rows)}")

    def new_rows(self, rows: int) -> str:
        begin, self.next = self.next, self.next + rows
        tasks = self.random.choice((1, 1, 2))
        return f"SELECT {row_sql(self.schema, self.values)} FROM range({begin}, {self.next}, 1, {tasks}) r(i)"

    def change(self) -> Counts:
        """A statement, or a change of the schema, or new rows."""
        shape = self.random.random()
        if shape < 0.7:
            return self.run_statement()
        with conf(self.spark, UNPRUNED):
            if shape < 0.8:
                self.append(self.random.randint(50, 600))
            else:
                try:
                    (self.evolve if shape < 0.88 else self.move)()
                except ERRORS:
                    self.made.append("(refused)")
        return Counts()

    def run_statement(self) -> Counts:
        with conf(self.spark, UNPRUNED):
            table = Relation.of(self.spark, self.names[0], self.random)
        text = statement(self.spark, self.random, table, self.values, self.next)
        self.next += 20
        settings = self.settings()
        outcomes = []
        _, latest = skipped(self.spark)
        for name, pruning in zip(self.names, (UNPRUNED, PRUNED), strict=True):
            with conf(self.spark, {**settings, **pruning}):
                outcomes.append(run(partial(self.spark.sql, text.replace("{t}", name))))
        counts = counts_of(outcomes[1].plans)
        counts.statements, counts.pruned_statements = 1, int(skipped(self.spark, latest)[0] > 0)
        counts.failed = int(bool(outcomes[0].error))
        with conf(self.spark, UNPRUNED):
            expected, ours = (
                Outcome(texts(self.spark.table(name).collect()), outcome.error, outcome.message, outcome.plans)
                for name, outcome in zip(self.names, outcomes, strict=True)
            )
            if expected != ours:
                counts.differences.append(difference(expected, ours, self.about(str(settings), text)))
                self.sql("DELETE FROM {t}")  # equal again
                self.append(500)
        self.made.append(text)
        return counts

    def move(self) -> None:
        """Change the schema: by names that are dropped, added again, swapped; by order, and by types."""
        random, schema = self.random, self.schema
        kept = {"id", *(name for name in ("ok", "s", "ts", "uu", "k") if name in self.partition)}
        names = [each.name for each in schema if each.name not in kept]
        kinds = {each.name: each.dataType.simpleString() for each in schema}
        shape, one, new = random.random(), random.choice(names), len(self.made)
        nested = list(fields_of(schema))
        if shape < 0.2 and nested:
            one = random.choice(nested)
            parent, _, name = one.rpartition(".")
            if random.random() < 0.5:
                self.sql(f"ALTER TABLE {{t}} ADD COLUMN {parent}.new{new} STRING")
            else:
                self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {one} TO {name}_{new}")
                if random.random() < 0.5:  # another column under the old name
                    self.sql(f"ALTER TABLE {{t}} ADD COLUMN {one} INT")
        elif shape < 0.4:
            self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {one} TO c{new}")
            if random.random() < 0.5:
                self.sql(f"ALTER TABLE {{t}} ADD COLUMN {one} {kinds[one] if random.random() < 0.7 else 'STRING'}")
        elif shape < 0.6:
            self.sql(f"ALTER TABLE {{t}} DROP COLUMN {one}")
            self.sql(f"ALTER TABLE {{t}} ADD COLUMN {one} {kinds[one]}")
        elif shape < 0.8:
            other = random.choice(names)
            if other != one:
                for old, name in ((one, "tmp"), (other, one), ("tmp", other)):
                    self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {name}")
        elif shape < 0.87:
            self.sql(f"ALTER TABLE {{t}} ALTER COLUMN {one} {random.choice(('FIRST', 'AFTER id'))}")
        else:
            wide = [name for name, kind in kinds.items() if kind in WIDER and self.may_widen(name)]
            for name in wide[:1]:
                self.sql(f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {WIDER[kinds[name]]}")

    def may_widen(self, name: str) -> bool:
        return name not in self.partition

    def ask(self, version: str) -> Iterator[Counts]:
        """Queries of the second table, or of a version of it."""
        random, spark, settings = self.random, self.spark, self.settings()
        with conf(spark, {**settings, **UNPRUNED}):
            table = Relation.of(spark, self.names[1] + version, random, self.metadata())
        about = partial(self.about, str(settings))
        with conf(spark, settings):
            for _ in range(BATCHES):
                conditions = [condition(random, table) for _ in range(AT_ONCE)]
                yield compare_conditions(spark, table.name, shown(random, table), conditions, about)
            alone = [query(random, table) for _ in range(ALONE)] + [query_of_two(random, table)]
            for text in alone:
                yield compare(spark, partial(spark.sql, text), partial(about, text))


def flag(random: Random, chance: float) -> str:
    return str(random.random() < chance).lower()


def fields_of(schema: T.StructType) -> Iterator[str]:
    """The fields of the struct `st`, and of the structs in the list `items`."""
    for column in schema:
        element = getattr(column.dataType, "elementType", None)
        for parent, kind in (("st", column.dataType), ("items.element", element)):
            if parent.partition(".")[0] == column.name and isinstance(kind, T.StructType):
                yield from (f"{parent}.{each.name}" for each in kind)
