"""Random Iceberg tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from tests.connectors import iceberg_api
from tests.connectors.iceberg_api import properties
from tests.connectors.pairs import Counts
from tests.connectors.random_pairs import Pair, flag
from tests.support import spark as sparks

FILTERS = ("id", "k", "s", "uu", "d", "f", "g", "day", "ts", "nt", "bin", "st.a", "st.b", "st.c.x", "st.c.y")


def rounds(spark: SparkSession, home: Path, seed: int) -> Iterator[Counts]:
    return IcebergPair.rounds_from(spark, home, seed)


class IcebergPair(Pair):
    partitions = (
        "", "", "", "bucket(3, id)", "truncate(2, s), days(ts)", "days(ts)", "ok", "ok, bucket(2, uu)",
        "truncate(500000, id)",
    )  # fmt: skip

    def __init__(self, spark: SparkSession, home: Path, number: int) -> None:
        super().__init__(spark, home, number)
        self.version = self.random.choice((2, 3))
        self.added = self.random.random() < 0.2  # the first files are not Iceberg's
        if self.added:
            self.partition = self.random.choice(("", "ok"))
        # Iceberg's executors keep equality deletes in memory, which delete nothing after a change of the column's type.
        self.has_deleted_ids = False

    @property
    def names(self) -> list[str]:
        return [f"lake.db.t{self.number}_{each}" for each in "ab"]

    def create(self) -> None:
        random = self.random
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
        partitioned = f"PARTITIONED BY ({self.partition})" if self.partition else ""
        self.sql(f"CREATE TABLE {{t}} ({self.columns()}) USING iceberg {partitioned} TBLPROPERTIES ({listed})")

    def append(self, rows: int) -> None:
        if not self.added or self.next:
            super().append(rows)
            return
        path, frame = self.home / f"added{self.number}", self.spark.sql(self.new_rows(rows))
        by = ("ok",) if self.partition else ()
        nested = T.StructType | T.ArrayType | T.MapType | T.BooleanType
        flat = {
            each.name: None for each in frame.schema if each.name not in by and not isinstance(each.dataType, nested)
        }
        options = {"parquet.bloom.filter.max.bytes": 4096}
        sparks.write(frame, path, flat, rows_per_group=100, partition_by=by, options=options)
        self.sql(f"CALL lake.system.add_files(table => '{{short}}', source_table => '`parquet`.`{path}`')")

    def mark(self, step: int) -> str:
        if self.random.random() < 0.3:
            self.sql(f"ALTER TABLE {{t}} CREATE TAG tag_{step}")
            return f" VERSION AS OF 'tag_{step}'"
        if self.random.random() < 0.15:
            self.sql(f"ALTER TABLE {{t}} CREATE BRANCH br_{step}")
            return f".branch_br_{step}"
        return ""

    def evolve(self) -> None:
        random, new = self.random, len(self.made)
        shape = random.random()
        if shape < 0.2:
            self.sql("CALL lake.system.rewrite_data_files(table => '{short}', options => map('rewrite-all', 'true'))")
        elif shape < 0.4 and not self.partition:
            self.has_deleted_ids = True
            ids = [random.randrange(self.next) * 7919 % 1000003 for _ in range(30)]
            for name in self.names:
                iceberg_api.delete_by_equality(self.spark, name, "id", ids)
            self.made.append(f"equality delete of ids {ids}")
        elif shape < 0.6 and self.version == 3:
            for name in self.names:
                iceberg_api.add_column_with_default(self.spark, name, f"c{new}", 7)
            self.made.append(f"add column c{new} with default 7")
        elif shape < 0.8:
            self.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD bucket({random.choice((2, 3))}, id)")
            self.partition = f"{self.partition}, id"
        else:
            for name in self.names:
                iceberg_api.add_uuid(self.spark, name, f"uu{new}")
            self.made.append(f"add column uu{new} of type UUID")

    def may_widen(self, name: str) -> bool:
        return super().may_widen(name) and not (name == "id" and self.has_deleted_ids)

    def metadata(self) -> list[str]:
        return ["_pos", *(["_row_id", "_last_updated_sequence_number"] if self.version == 3 else [])]

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "spark.sql.iceberg.vectorization.enabled": flag(self.random, 0.6),
            "spark.sql.sources.v2.bucketing.enabled": flag(self.random, 0.5),
            "spark.sql.iceberg.planning.preserve-data-grouping": flag(self.random, 0.3),
        }

    def drop(self) -> None:
        self.sql("DROP TABLE {t} PURGE")
