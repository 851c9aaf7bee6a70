"""Aggregates equal those of Spark's own reader, also when a setting allows answers from footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from tests.support.scenarios import Readers, read, texts
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled")]

PUSHED = {"spark.sql.parquet.aggregatePushdown": "true", "spark.sql.orc.aggregatePushdown": "true"}
AGGREGATES = ("count(*)", "count(f)", "min(f)", "max(f)", "count(late)", "min(late)", "max(late)", "min(s)", "max(s)")
GROUPINGS = ("", "GROUP BY day", "GROUP BY f")
FORMATS = {"parquet": "bloomparquet", "orc": "bloomorc"}


def write(root: Path, kind: str) -> None:
    """Two partitions. One file lacks a column; one has NaN, which is not in its min and max."""
    nan = float("nan")
    tables = {
        "day=1/0": pa.table({"f": [1.0, nan, 999.0], "s": ["a", "b", "x" * 2000]}),
        "day=1/1": pa.table({"f": [2.0, None, -0.0], "s": ["c", None, "d"], "late": pa.array([1, 2, 3], pa.int32())}),
        "day=2/2": pa.table({"f": [3.0, 4.0, 0.0], "s": ["e", "f", "g"], "late": pa.array([7, 8, None], pa.int32())}),
    }
    for name, table in tables.items():
        path = root / f"{name}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        (pq if kind == "parquet" else po).write_table(table, path)


CASES = [(kind, GROUPINGS[i], str((i + j) % 2 == 0).lower()) for i in range(3) for j, kind in enumerate(FORMATS)]
"""Every two of format, grouping and reader meet."""


@pytest.mark.parametrize(("kind", "grouping", "vectorized"), CASES)
def test_aggregates_equal_sparks(readers: Readers, tmp_path: Path, kind: str, grouping: str, vectorized: str) -> None:
    write(tmp_path, kind)
    reader = f"spark.sql.{kind}.enableVectorizedReader"
    schema = "f DOUBLE, s STRING, late INT, day INT"

    def select(source: str, *aggregates: str, pushed: str) -> list[list[str]]:
        """The values of each aggregate in all groups."""
        with conf(readers.spark, {**dict.fromkeys(PUSHED, pushed), reader: vectorized}):
            read(readers.spark, source, tmp_path, schema).createOrReplaceTempView("aggregated")
            rows = readers.spark.sql(f"SELECT {', '.join(aggregates)} FROM aggregated {grouping}").collect()
        return [sorted(map(repr, column)) for column in zip(*rows, strict=True)]

    every = (*AGGREGATES, "count(day)", "max(day)")
    expected = select(kind, *every, pushed="false")
    assert select(FORMATS[kind], *every, pushed="false") == select(FORMATS[kind], *every, pushed="true") == expected
    for i, aggregate in enumerate(every):  # Spark pushes all aggregates of a query, or none
        assert select(FORMATS[kind], aggregate, pushed="true") == [expected[i]], aggregate


@pytest.mark.parametrize("kind", FORMATS)
def test_aggregates_over_a_column_with_a_default(readers: Readers, tmp_path: Path, kind: str) -> None:
    spark, rows = readers.spark, []
    write(tmp_path, kind)
    for source in (kind, FORMATS[kind]):
        with conf(spark, {**PUSHED, "spark.sql.defaultColumn.allowedProviders": "parquet,orc,bloomparquet,bloomorc"}):
            spark.sql(
                f"CREATE TABLE grown_{source} (f DOUBLE, s STRING, day INT) USING {source} "
                f"PARTITIONED BY (day) LOCATION '{tmp_path}'"
            )
            try:
                spark.sql(f"MSCK REPAIR TABLE grown_{source}")
                spark.sql(f"ALTER TABLE grown_{source} ADD COLUMNS (late INT DEFAULT 42)")
                frame = spark.sql(f"SELECT max(late), min(late), count(late), count(*), max(f) FROM grown_{source}")
                rows.append(texts(frame.collect()))
            finally:
                spark.sql(f"DROP TABLE grown_{source}")
    assert rows[0] == rows[1]
    assert "42" in rows[0][0]
