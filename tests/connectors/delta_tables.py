"""Random Delta tables. Their writer makes a filter on every column, and row groups of a hundred rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from tests.connectors.delta import FILTERS
from tests.connectors.pairs import Counts
from tests.connectors.random_pairs import Pair, flag
from tests.support.spark import conf

BY_INDEX = "spark.databricks.delta.deletionVectors.useMetadataRowIndex"
UPGRADE = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7'"


def rounds(spark: SparkSession, home: Path, seed: int) -> Iterator[Counts]:
    with conf(spark, FILTERS):
        yield from DeltaPair.rounds_from(spark, home, seed)


class DeltaPair(Pair):
    partitions = ("", "", "", "ok", "k")

    def __init__(self, spark: SparkSession, home: Path, number: int) -> None:
        super().__init__(spark, home, number)
        self.mapping = self.random.choice(("none", "name", "name", "upgraded", "upgraded", "id"))
        self.has_vectors, self.tracks_rows = self.random.random() < 0.6, self.random.random() < 0.3
        self.counts_by_index = self.random.random() < 0.8

    @property
    def names(self) -> list[str]:
        return [f"delta.`{self.home / f't{self.number}_{each}'}`" for each in "ab"]

    def create(self) -> None:
        random = self.random
        given = {
            "enableDeletionVectors": str(self.has_vectors).lower(),
            "enableRowTracking": str(self.tracks_rows).lower(),
            "enableChangeDataFeed": flag(random, 0.4),
            "enableTypeWidening": flag(random, 0.5),
            "dataSkippingNumIndexedCols": random.choice(("0", "0", "0", "32")),  # with 0, Delta skips no files
        }
        if self.mapping in ("name", "id"):
            given["columnMapping.mode"] = self.mapping
        listed = ", ".join(f"'delta.{key}' = '{value}'" for key, value in given.items())
        partitioned = f"PARTITIONED BY ({self.partition})" if self.partition else ""
        self.sql(f"CREATE TABLE {{t}} ({self.columns()}) USING delta {partitioned} TBLPROPERTIES ({listed})")

    def mark(self, step: int) -> str:
        """The version before the next change; Delta reads it with the columns that the table had."""
        if self.random.random() < 0.3:
            last = self.spark.sql(f"DESCRIBE HISTORY {self.names[1]} LIMIT 1").first()
            return f" VERSION AS OF {last['version']}" if last else ""
        return ""

    def evolve(self) -> None:
        if self.mapping == "upgraded":
            self.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({UPGRADE})")
            self.mapping = "name"
        else:
            self.sql("OPTIMIZE {t}" + self.random.choice(("", " ZORDER BY (id)")))

    def metadata(self) -> list[str]:
        positions = ["_metadata.row_index"] if self.has_vectors and self.counts_by_index else []
        return positions + ["_metadata.row_id"] * self.tracks_rows

    def settings(self) -> dict[str, str]:
        random = self.random
        return {
            **super().settings(),
            BY_INDEX: str(self.counts_by_index).lower(),
            "spark.sql.parquet.enableVectorizedReader": flag(random, 0.7),
            "spark.sql.files.maxPartitionBytes": random.choice(("20kb", "128mb")),
            "spark.sql.files.openCostInBytes": random.choice(("0", "4mb")),
        }

    def drop(self) -> None:
        for name in self.names:
            shutil.rmtree(name.split("`")[1])
