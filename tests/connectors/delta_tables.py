"""Random Delta tables: their queries and statements give the same rows with pruning as without it.

The data are written with a filter on every column, and with row groups of a hundred rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from tests.connectors import pairs
from tests.connectors.delta import FILTERS
from tests.connectors.delta_columns import (
    EVEN,
    KINDS,
    ODD,
    TEXT,
    Columns,
    Conditions,
    Kind,
    Nested,
    nullable,
    quoted,
)
from tests.connectors.delta_statements import statement
from tests.connectors.pairs import Counts, Outcome
from tests.support.scenarios import PRUNED, UNPRUNED
from tests.support.spark import COMPILED, INTERPRETED, conf

_SETTINGS = {
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.parquet.enableVectorizedReader": ["true", "false"],
    "spark.sql.parquet.enableNestedColumnVectorizedReader": ["true", "false"],
    "spark.sql.files.maxPartitionBytes": ["20kb", "128mb"],
    "spark.sql.files.openCostInBytes": ["0", "4mb"],
    "spark.sql.optimizer.inSetConversionThreshold": ["1", "10"],
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.session.timeZone": ["UTC", "America/New_York", "Asia/Kolkata"],
    "spark.databricks.delta.deletionVectors.useMetadataRowIndex": ["true"] * 5 + ["false"],
}
VERSIONS = "'delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7'"
_NAMES = ["a", "b", "c", "x.y", "Größe", "B2"]
_FIELDS = ["a", "b", "t", "u"]
_BATCHES, _QUERIES, _JOINS, _STATEMENTS = 3, 20, 3, 6


def rounds(spark: SparkSession, home: Path, seed: int) -> Iterator[Counts]:
    """Round number `seed` and those that follow: a table each. Also the first part of a round is worth counting."""
    for number in count(seed):
        yield from one_round(spark, home, number)


def one_round(spark: SparkSession, home: Path, number: int) -> Iterator[Counts]:
    random = Random(number)
    folder = home / f"round{number}"
    settings = {key: random.choice(of) for key, of in _SETTINGS.items()}
    settings |= random.choice([COMPILED, INTERPRETED, INTERPRETED])
    with conf(spark, FILTERS):
        table = Table.create(spark, random, folder / "table")
        for _ in range(random.randint(2, 6)):
            table.change()
        source, path = table.other_path()
        with conf(spark, settings):
            by_index = settings["spark.databricks.delta.deletionVectors.useMetadataRowIndex"] == "true"
            has_positions = table.has_vectors and by_index
            questions = Questions(spark, table, source, has_positions, f"round {number}, {table.about}, {settings}")
            yield from questions.ask(random)
            unpruned, pruned = folder / "unpruned", folder / "pruned"
            for copy in (unpruned, pruned):
                shutil.copytree(path, copy)  # with other modification times
            for _ in range(_STATEMENTS):
                yield _change_both(spark, table, unpruned, pruned, questions.about)
                copied = replace(questions, source=f"delta.`{pruned}`")
                yield copied.filters(random, _QUERIES // 2, f"delta.`{pruned}`")
    spark.catalog.clearCache()
    shutil.rmtree(folder)


@dataclass
class Table:
    """A table at `path`. `rows`: how many were inserted. `about`: what was done to it."""

    spark: SparkSession
    random: Random
    path: Path
    columns: Columns
    lists: list[str]
    partition: str | None
    mapping: str
    has_vectors: bool
    has_rows_tracked: bool
    has_changes: bool
    is_widened: bool
    about: str
    rows: int = 0
    version: int = 0
    schema_version: int = 0

    @property
    def name(self) -> str:
        return f"delta.`{self.path}`"

    @classmethod
    def create(cls, spark: SparkSession, random: Random, path: Path) -> Table:
        mapping = random.choice(["none", "name", "name", "upgraded", "upgraded", "id"])
        some = random.sample(sorted(KINDS), random.randint(2, 5))
        columns: Columns = {"id": EVEN, "a": EVEN, "b": ODD, "k": TEXT, **{name: KINDS[name] for name in some}}
        columns["s"] = Nested({"a": EVEN, "b": ODD, "t": TEXT})
        columns["ls"] = Nested({"a": EVEN, "b": ODD}, is_list=True)
        columns["p"] = Kind("INT", "CAST(i % 3 AS INT)", lambda random: str(random.randrange(4)))
        columns = dict(random.sample(list(columns.items()), len(columns)))
        partition = "p" if random.random() < 0.4 else None
        generated = {"g": "id % 1000"} if random.random() < 0.2 else {}
        properties = {
            "delta.enableDeletionVectors": random.random() < 0.6,
            "delta.enableChangeDataFeed": random.random() < 0.4,
            "delta.enableRowTracking": random.random() < 0.3,
            "delta.enableTypeWidening": random.random() < 0.5,
        }
        shown = {"delta.feature.timestampNtz": "supported"}  # a DATE may be widened to it
        shown |= {key: str(value).lower() for key, value in properties.items()}
        if random.random() < 0.75:
            shown["delta.dataSkippingNumIndexedCols"] = "0"  # Delta skips no files, which takes most of a small query
        if mapping in ("name", "id"):
            shown["delta.columnMapping.mode"] = mapping
        ddl = [f"{quoted(name)} {kind.type}" for name, kind in columns.items()]
        ddl += ["l ARRAY<BIGINT>", *(f"{name} BIGINT GENERATED ALWAYS AS ({by})" for name, by in generated.items())]
        by = f" PARTITIONED BY ({partition})" if partition else ""
        of_table = ", ".join(f"'{key}' = '{value}'" for key, value in shown.items())
        spark.sql(f"CREATE TABLE delta.`{path}` ({', '.join(ddl)}) USING delta{by} TBLPROPERTIES ({of_table})")
        on = [key.rpartition(".")[2] for key, value in properties.items() if value]
        about = f"mapping {mapping}, {', '.join(on)}, partition {partition}, generated {[*generated]}"
        table = cls(
            spark, random, path, columns, ["l"], partition, mapping,
            properties["delta.enableDeletionVectors"], properties["delta.enableRowTracking"],
            properties["delta.enableChangeDataFeed"],
            properties["delta.enableTypeWidening"], about,
        )  # fmt: skip
        table.append()
        if mapping == "upgraded":
            table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', " + VERSIONS + ")")
        return table

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.format(t=self.name))
        self.version += 1

    def append(self) -> None:
        number = self.random.choice([300, 700, 1_500])
        columns = [f"{nullable(name, kind)} AS {quoted(name)}" for name, kind in self.columns.items()]
        columns += [f"array({EVEN.value}, {EVEN.value} + 2) AS {quoted(name)}" for name in self.lists]
        frame = self.spark.range(self.rows, self.rows + number).withColumnRenamed("id", "i").selectExpr(*columns)
        files = self.random.randint(1, 3)
        frame.repartition(files).write.format("delta").mode("append").save(str(self.path))
        self.rows += number
        self.version += 1
        self.about += f", append {number}"

    def change(self) -> None:
        """One step; Delta refuses some, as to drop what another column is generated from."""
        steps = [self.append, self.optimize, self.delete, self.update]
        if self.mapping != "none":
            steps += [self.rename, self.rename, self.add_again, self.swap, self.rename_field, self.swap_fields]
        if self.is_widened:
            steps += [self.widen] * 2
        step = self.random.choice(steps)
        self.about += f", {step.__name__}"
        before, lists = dict(self.columns), list(self.lists)
        try:
            step()
        except pairs.ERRORS:
            self.about += " (refused)"
            self.columns, self.lists = before, lists
        self.version = int(self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").head()["version"])  # type: ignore[index]

    def conditions(self) -> Conditions:
        return Conditions(self.columns, self.random, tuple(self.lists), self.partition)

    def optimize(self) -> None:
        by = " ZORDER BY (id)" if self.random.random() < 0.5 and "id" in self.columns else ""
        self.sql("OPTIMIZE {t}" + by)

    def delete(self) -> None:
        self.sql(f"DELETE FROM {{t}} WHERE {self.conditions().selective()}")

    def update(self) -> None:
        self.sql(f"UPDATE {{t}} SET {quoted(self._of(TEXT))} = 'k7' WHERE {self.conditions().selective()}")

    def _of(self, kind: Kind) -> str:
        return self.random.choice([name for name, each in self.columns.items() if each is kind])

    def _renamed(self, old: str, new: str) -> None:
        self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {quoted(old)} TO {quoted(new)}")
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
        self.partition = new if self.partition == old else self.partition
        self.schema_version = self.version

    def rename(self) -> None:
        old = self.random.choice(list(self.columns))
        self._renamed(old, self.random.choice([name for name in _NAMES if name not in self.columns] or [old + "_"]))

    def add_again(self) -> None:
        """A name gets another column, whose values the files do not have; its former column has another name."""
        old = self._of(self.random.choice([EVEN, ODD, TEXT]))
        kind = self.columns[old]
        if self.random.random() < 0.6:
            self._renamed(old, f"{old}{self.version}")
        else:
            self.sql(f"ALTER TABLE {{t}} DROP COLUMN {quoted(old)}")
            del self.columns[old]
        self.sql(f"ALTER TABLE {{t}} ADD COLUMN {quoted(old)} {kind.type}")
        self.columns[old] = kind
        self.schema_version = self.version
        if self.random.random() < 0.7:
            self.append()

    def swap(self) -> None:
        one, other = self._of(EVEN), self._of(ODD)
        for old, new in ((one, "between"), (other, one), ("between", other)):
            self._renamed(old, new)

    def _rename_field(self, column: str, old: str, new: str) -> None:
        kind = self.columns[column]
        assert isinstance(kind, Nested)
        element = ".element" if kind.is_list else ""
        self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {quoted(column)}{element}.{quoted(old)} TO {quoted(new)}")
        fields = {new if name == old else name: of for name, of in kind.fields.items()}
        self.columns = {**self.columns, column: Nested(fields, kind.is_list)}
        self.schema_version = self.version

    def _nested(self) -> tuple[str, Nested]:
        return self.random.choice([(name, kind) for name, kind in self.columns.items() if isinstance(kind, Nested)])

    def rename_field(self) -> None:
        column, kind = self._nested()
        new = self.random.choice([name for name in _FIELDS if name not in kind.fields])
        self._rename_field(column, self.random.choice(list(kind.fields)), new)

    def swap_fields(self) -> None:
        column, kind = self._nested()
        one, other, *_ = kind.fields
        for old, new in ((one, "between"), (other, one), ("between", other)):
            self._rename_field(column, old, new)

    def widen(self) -> None:
        wide = [(name, kind) for name, kind in self.columns.items() if isinstance(kind, Kind) and kind.wider]
        if not wide:
            return
        name, kind = self.random.choice(wide)
        to = self.random.choice(kind.wider)
        self.sql(f"ALTER TABLE {{t}} CHANGE COLUMN {quoted(name)} TYPE {to}")
        self.columns[name] = kind.widened(to)
        self.schema_version = self.version
        if self.random.random() < 0.7:
            self.append()

    def other_path(self) -> tuple[str, Path]:
        """The table, or a clone or copy of it, as queries name it; and a directory that may be copied."""
        way = self.random.random()
        if way < 0.2:
            clone = f"delta.`{self.path.with_name('clone')}`"
            self.spark.sql(f"CREATE TABLE {clone} SHALLOW CLONE {self.name}")
            return clone, self.path
        return self.name, self.path


@dataclass(frozen=True)
class Questions:
    """Queries of a table that `source` names. `has_positions`: its rows tell their position in the file."""

    spark: SparkSession
    table: Table
    source: str
    has_positions: bool
    about: str

    def ask(self, random: Random) -> Iterator[Counts]:
        for _ in range(_BATCHES):
            yield self.filters(random, _QUERIES, self.source)
        if self.table.version > self.table.schema_version and self.source == self.table.name:
            old = random.randint(max(1, self.table.schema_version), self.table.version)
            yield self.filters(random, _QUERIES // 2, f"{self.source} VERSION AS OF {old}")
            if self.table.has_changes:
                yield self.filters(random, _QUERIES // 2, f"table_changes_by_path('{self.table.path}', {old})", True)
        for _ in range(_JOINS):
            yield self.join(random)

    def filters(self, random: Random, number: int, source: str, of_changes: bool = False) -> Counts:
        conditions = [self.table.conditions().any() for _ in range(number)]
        shown = f"struct({', '.join(self._shown(random, of_changes))})"
        return pairs.compare_conditions(self.spark, source, shown, conditions, self._about)

    def _alone(self, sql: str) -> Counts:
        return pairs.compare(self.spark, lambda: self.spark.sql(sql), lambda: self._about(sql))

    def _shown(self, random: Random, of_changes: bool) -> list[str]:
        columns = [quoted(name) for name in self.table.columns]
        if random.random() < 0.5:
            columns = random.sample(columns, 2)
        if of_changes:
            return [*columns, "_change_type", "_commit_version"]
        metadata = ["_metadata.file_modification_time", "_metadata.file_name"]
        if self.has_positions:
            metadata.append("_metadata.row_index")
        if self.table.has_rows_tracked:
            metadata += ["_metadata.row_id", "_metadata.row_commit_version"]
        return columns + random.sample(metadata, random.randint(0, len(metadata)))

    def join(self, random: Random) -> Counts:
        return self._alone(self._join(random))

    def _join(self, random: Random) -> str:
        conditions = Conditions(self.table.columns, random, prefix="t.")
        key, kind = conditions.key()
        values = ", ".join(f"({kind.literal(random)})" for _ in range(random.randint(1, 4)))
        small = f"(SELECT CAST(x AS {kind.type}) x FROM VALUES {values} k(x))"
        some = f"(SELECT {key} x FROM {self.source} t WHERE {conditions.selective()})"
        join = random.choice(["JOIN", "JOIN", "LEFT SEMI JOIN", "RIGHT JOIN", "LEFT ANTI JOIN", "LEFT JOIN"])
        hint = random.choice(["/*+ BROADCAST(k) */", "/*+ BROADCAST(k) */", ""])
        shown = ", ".join(f"t.{column}" for column in self._shown(random, of_changes=False))
        if join in ("RIGHT JOIN", "LEFT JOIN", "JOIN"):
            shown += ", k.x"
        keys, table = random.choice([small, small, some]), f"{self.source} t"
        return random.choice(
            [
                f"SELECT {hint} {shown} FROM {table} {join} {keys} k ON {key} = k.x",
                f"SELECT {hint} {shown} FROM {table} {join} {keys} k ON {key} = k.x",
                f"SELECT count(*), max(k) FROM (SELECT {key} k FROM {table} WHERE {conditions.any()})",
                f"SELECT * FROM {table} WHERE {key} = (SELECT max(x) FROM {keys})",
                f"SELECT * FROM {table} WHERE {conditions.selective()} AND {key} NOT IN (SELECT x FROM {small})",
                f"SELECT * FROM {table} WHERE {key} IN (SELECT x FROM {keys})",
            ]
        )

    def _about(self, sql: str) -> str:
        return f"{self.about}\n  {sql}"


def _change_both(spark: SparkSession, table: Table, unpruned: Path, pruned: Path, about: str) -> Counts:
    """Change two copies of a table by a statement, one with pruning, and compare their contents."""
    sql = statement(spark, table.random, table.conditions())
    outcomes = []
    _, latest = pairs.skipped(spark)
    for path, pruning in ((unpruned, UNPRUNED), (pruned, PRUNED)):
        with conf(spark, pruning):
            outcome = pairs.run(lambda path=path: spark.sql(sql.format(t=f"delta.`{path}`")))  # type: ignore[misc]
        with conf(spark, UNPRUNED):
            rows = spark.sql(f"SELECT CAST(struct(*) AS STRING) FROM delta.`{path}`").collect()
        outcomes.append(Outcome([*outcome.rows, *sorted(row[0] for row in rows)], outcome.error, outcome.message))
    expected, ours = outcomes
    counts = Counts(
        statements=1, pruned_statements=int(pairs.skipped(spark, latest)[0] > 0), failed=bool(expected.error)
    )
    if ours != expected:
        counts.differences.append(pairs.difference(expected, ours, f"{about}\n  {sql}"))
    return counts
