"""Random Iceberg tables: made twice by the same steps, changed without pruning and with it, and asked both ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from tests.connectors import iceberg_api
from tests.connectors.iceberg_api import properties
from tests.connectors.pairs import Counts, Outcome, compare, compare_conditions, counts_of, difference, run, skipped
from tests.connectors.queries import Relation, condition, query, query_of_two, shown
from tests.connectors.statements import statement
from tests.connectors.values import row_sql
from tests.support import spark as sparks
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import COMPILED, INTERPRETED, conf

NESTED = (
    "st STRUCT<a: INT, b: STRING, c: STRUCT<x: BIGINT, y: STRING>>, arr ARRAY<INT>, m MAP<STRING, INT>,"
    " items ARRAY<STRUCT<x: INT, y: STRING>>"
)
FLAT = (
    "k INT, s STRING, uu STRING, d DECIMAL(9,2), f FLOAT, g DOUBLE, day DATE, ts TIMESTAMP, nt TIMESTAMP_NTZ,"
    " bin BINARY, ok BOOLEAN"
)
PARTITIONS = (
    "",
    "",
    "",
    "bucket(3, id)",
    "truncate(2, s), days(ts)",
    "days(ts)",
    "ok",
    "ok, bucket(2, uu)",
    "truncate(500000, id)",
)
WIDER = {"int": "BIGINT", "float": "DOUBLE", "decimal(9,2)": "DECIMAL(18,2)"}
FILTERS = ("id", "k", "s", "uu", "d", "f", "g", "day", "ts", "nt", "bin", "st.a", "st.b", "st.c.x", "st.c.y")
BATCHES, AT_ONCE, ALONE = 2, 20, 2


def rounds(spark: SparkSession, home: Path, seed: int) -> Iterator[Counts]:
    """Counts, again and again: of a statement, or of the queries of a version of a table. The table `seed` is first."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    for number in count(seed):
        yield from _Pair(spark, home, number).rounds()


class _Pair:
    """Two tables that are equal. The second one is asked, and changed with pruning."""

    def __init__(self, spark: SparkSession, home: Path, number: int) -> None:
        self.spark, self.home, self.number = spark, home, number
        self.random = Random(number)
        self.names = [f"lake.db.t{number}_{each}" for each in "ab"]
        self.version = self.random.choice((2, 3))
        self.values = self.random.randrange(1 << 30)
        self.next = 0
        self.made: list[str] = []
        self.added = self.random.random() < 0.2
        self.partition = self.random.choice(PARTITIONS)
        # Iceberg's executors keep equality deletes in memory, which delete nothing after a change of the column's type.
        self.has_deleted_ids = False

    def rounds(self) -> Iterator[Counts]:
        random = self.random
        with conf(self.spark, UNPRUNED):
            self.create()
            self.append(random.randint(600, 1500))
            if not self.added:
                self.append(random.randint(100, 800))
        marks: list[str] = []
        yield from self.ask("")
        for step in range(random.randint(3, 6)):
            for _ in range(random.randint(2, 5)):
                yield self.change()
            with conf(self.spark, UNPRUNED):
                if self.spark.table(self.names[0]).isEmpty():
                    self.append(500)
                if random.random() < 0.3:
                    self.sql(f"ALTER TABLE {{t}} CREATE TAG tag_{step}")
                    marks.append(f" VERSION AS OF 'tag_{step}'")
                elif random.random() < 0.15:
                    self.sql(f"ALTER TABLE {{t}} CREATE BRANCH br_{step}")
                    marks.append(f".branch_br_{step}")
            yield from self.ask("")
            if marks and random.random() < 0.4:
                yield from self.ask(random.choice(marks))
        with conf(self.spark, UNPRUNED):
            self.sql("DROP TABLE {t} PURGE")

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

    def create(self) -> None:
        random = self.random
        columns = ["id " + random.choice(("INT", "BIGINT"))]
        columns += random.sample(FLAT.replace("DECIMAL(9,2)", "DECIMAL(9;2)").split(", "), 8)
        columns = [each.replace(";", ",") for each in columns]
        for needed in ("s STRING", "ts TIMESTAMP", "ok BOOLEAN", "uu STRING"):
            if needed not in columns:
                columns.append(needed)
        text = ", ".join([*columns, *([NESTED] if random.random() < 0.4 else [])])
        mode = random.choice(("copy-on-write", "merge-on-read"))
        more = {
            "format-version": self.version,
            "write.spark.fanout.enabled": "true",
            "write.distribution-mode": random.choice(("none", "none", "hash")),
            "write.target-file-size-bytes": random.choice((20_000, 100_000_000)),
            "write.delete.granularity": random.choice(("file", "partition")),
            "read.split.target-size": random.choice((20_000, 134_217_728)),
            "read.split.open-file-cost": random.choice((1000, 4_194_304)),
        }
        for each in ("delete", "update", "merge"):
            more[f"write.{each}.mode"] = mode if random.random() < 0.7 else "merge-on-read"
        if random.random() < 0.5:
            more["write.parquet.dict-size-bytes"] = 64  # filters instead of dictionaries; parquet-java's least
        listed = properties(FILTERS, random.choice((40, 100, 250)), **more)
        partitioned = f"PARTITIONED BY ({self.partition})" if self.partition and not self.added else ""
        if self.added:
            partitioned = "PARTITIONED BY (ok)" if random.random() < 0.6 else ""
            self.partition = partitioned and "ok"
        self.sql(f"CREATE TABLE {{t}} ({text}) USING iceberg {partitioned} TBLPROPERTIES ({listed})")

    def append(self, rows: int) -> None:
        begin, self.next = self.next, self.next + rows
        columns = row_sql(self.schema, self.values)
        tasks = self.random.choice((1, 1, 2))
        if self.added and not begin:
            path = self.home / f"added{self.number}"
            frame = self.spark.sql(f"SELECT {columns} FROM range({begin}, {self.next}, 1, {tasks}) r(i)")
            by = ("ok",) if self.partition else ()
            flat = {
                each.name: None
                for each in frame.schema
                if each.name not in by
                and not isinstance(each.dataType, T.StructType | T.ArrayType | T.MapType | T.BooleanType)
            }
            sparks.write(
                frame, path, flat, rows_per_group=100, partition_by=by, options={"parquet.bloom.filter.max.bytes": 4096}
            )
            self.sql(f"CALL lake.system.add_files(table => '{{short}}', source_table => '`parquet`.`{path}`')")
        else:
            self.sql(f"INSERT INTO {{t}} SELECT {columns} FROM range({begin}, {self.next}, 1, {tasks}) r(i)")

    def change(self) -> Counts:
        """A statement, or a change of the schema, or new rows."""
        random, shape = self.random, self.random.random()
        if shape < 0.7:
            return self.run_statement()
        with conf(self.spark, UNPRUNED):
            if shape < 0.8:
                self.append(random.randint(50, 600))
            elif shape < 0.95:
                self.evolve()
            elif shape < 0.98:
                self.sql(
                    "CALL lake.system.rewrite_data_files(table => '{short}', options => map('rewrite-all', 'true'))"
                )
            elif not self.partition:
                self.delete_equal()
        return Counts()

    def run_statement(self) -> Counts:
        with conf(self.spark, UNPRUNED):
            table = Relation.of(self.spark, self.names[0], self.random)
        text = statement(self.spark, self.random, table, self.values, self.next)
        self.next += 20
        settings = random_settings(self.random)
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

    def evolve(self) -> None:
        """Change the schema: by names that are dropped, added again, swapped; by order, types, and partitions."""
        random, schema = self.random, self.schema
        kept = {"id", *(name for name in ("ok", "s", "ts", "uu") if name in self.partition)}
        names = [each.name for each in schema if each.name not in kept]
        paths = [
            parent + each.name
            for field in schema
            for parent, kind in (
                ("st.", field.dataType),
                ("items.element.", getattr(field.dataType, "elementType", None)),
            )
            if parent.startswith(f"{field.name}.") and isinstance(kind, T.StructType)
            for each in kind
        ]
        shape, one = random.random(), random.choice(names)
        kinds = {each.name: each.dataType.simpleString() for each in schema}
        if shape < 0.15 and paths:
            one = random.choice(paths)
            parent, _, name = one.rpartition(".")
            self.sql(
                random.choice(
                    (
                        f"ALTER TABLE {{t}} RENAME COLUMN {one} TO {name}_{len(self.made)}",
                        f"ALTER TABLE {{t}} ADD COLUMN {parent}.new{len(self.made)} STRING",
                    )
                )
            )
            if "new" not in self.made[-1] and random.random() < 0.5:  # another column under the old name
                self.sql(f"ALTER TABLE {{t}} ADD COLUMN {one} INT")
        elif shape < 0.3:
            self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {one} TO c{len(self.made)}")
            if random.random() < 0.5:
                self.sql(f"ALTER TABLE {{t}} ADD COLUMN {one} {kinds[one] if random.random() < 0.7 else 'STRING'}")
        elif shape < 0.45:
            self.sql(f"ALTER TABLE {{t}} DROP COLUMN {one}")
            self.sql(f"ALTER TABLE {{t}} ADD COLUMN {one} {kinds[one]}")
        elif shape < 0.6:
            other = random.choice(names)
            if other != one:
                for old, new in ((one, "tmp"), (other, one), ("tmp", other)):
                    self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")
        elif shape < 0.7:
            self.sql(f"ALTER TABLE {{t}} ALTER COLUMN {one} {random.choice(('FIRST', 'AFTER id'))}")
        elif shape < 0.85:
            for name, kind in kinds.items():
                if kind in WIDER and not (name == "id" and ("id" in self.partition or self.has_deleted_ids)):
                    self.sql(f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {WIDER[kind]}")
                    break
        elif shape < 0.9 and self.version == 3:
            for name in self.names:
                iceberg_api.add_column_with_default(self.spark, name, f"c{len(self.made)}", 7)
            self.made.append(f"add column c{len(self.made)} with default 7")
        elif shape < 0.95:
            self.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD bucket({random.choice((2, 3))}, id)")
            self.partition = f"{self.partition}, id"
        else:
            for name in self.names:
                iceberg_api.add_uuid(self.spark, name, f"uu{len(self.made)}")
            self.made.append(f"add column uu{len(self.made)} of type UUID")

    def delete_equal(self) -> None:
        self.has_deleted_ids = True
        ids = [self.random.randrange(self.next) * 7919 % 1000003 for _ in range(30)]
        for name in self.names:
            iceberg_api.delete_by_equality(self.spark, name, "id", ids)
        self.made.append(f"equality delete of ids {ids}")

    def ask(self, version: str) -> Iterator[Counts]:
        """Queries of the second table, or of a version of it."""
        random, spark = self.random, self.spark
        hidden = ["_pos", *(["_row_id", "_last_updated_sequence_number"] if self.version == 3 else [])]
        with conf(spark, UNPRUNED):
            table = Relation.of(spark, self.names[1] + version, random, hidden)
        settings = random_settings(random)
        about = partial(self.about, str(settings))
        with conf(spark, settings):
            for _ in range(BATCHES):
                conditions = [condition(random, table) for _ in range(AT_ONCE)]
                yield compare_conditions(spark, table.name, shown(random, table), conditions, about)
            alone = [query(random, table) for _ in range(ALONE)] + [query_of_two(random, table)]
            for text in alone:
                yield compare(spark, partial(spark.sql, text), partial(about, text))


def random_settings(random: Random) -> dict[str, str]:
    def flag(chance: float) -> str:
        return str(random.random() < chance).lower()

    return {
        "spark.sql.adaptive.enabled": flag(0.5),
        "spark.sql.iceberg.vectorization.enabled": flag(0.6),
        "spark.sql.ansi.enabled": flag(0.7),
        "spark.sql.session.timeZone": random.choice(("UTC", "UTC", "America/New_York")),
        "spark.sql.autoBroadcastJoinThreshold": random.choice(("10MB", "10MB", "-1")),
        "spark.sql.sources.v2.bucketing.enabled": flag(0.5),
        "spark.sql.iceberg.planning.preserve-data-grouping": flag(0.3),
        **(COMPILED if random.random() < 0.15 else INTERPRETED),
    }
