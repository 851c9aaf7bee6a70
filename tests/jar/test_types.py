"""Every type of Spark: a value that is only in the last row group of the last file is found there, and no other row
group is read for it. Files of other writers: tests.jar.test_plain_random and tests.differential.

48 rows lie in two files of three row groups. The values of a column grow with `v`, whose even values below 96 are so
mixed that minimum and maximum of every row group enclose the value looked for, 50, and one that is nowhere, 51.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.scenarios import Readers, ask_all
from tests.support.spark import conf, write

pytestmark = pytest.mark.slow

V = [2 * (k * 23 % 48) for k in range(48)]
LAST, FIRST, NOWHERE = 50, 0, 51
GROUP = 8
FPP = "0.0001"

MICROS = "timestamp_micros(1700000000123000 + {v} * 1000000)"

BY_SPARK = {
    "i8": "CAST({v} AS TINYINT)",
    "i32": "CAST({v} * 20000000 - 1000000000 AS INT)",
    "i64": "CAST({v} AS BIGINT) * 90000000000000001 - 4500000000000000000",
    "f64": "{v} / 7D",
    "s": "lpad({v}, 4, '0')",
    "dec9": "CAST({v} / 4 - 13 AS DECIMAL(9, 2))",
    "dec18": "CAST(CAST({v} AS BIGINT) * 1000000007 - 50000000000 AS DECIMAL(18, 4))",
    "dec38": "CAST(CAST({v} AS BIGINT) * 1000000007 - 50000000000 AS DECIMAL(38, 10))",
    "date": "date_add(DATE'2020-01-01', {v})",
    "ts": MICROS,
    "ntz": "CAST(" + MICROS + " AS TIMESTAMP_NTZ)",
    "st.x": "CAST({v} AS BIGINT)",
    "st.y.z": "lpad({v}, 4, '0')",
}


def at(expression: str, v: Any) -> str:
    return expression.format(v=v)


def assert_found(readers: Readers, path: str, columns: Mapping[str, str]) -> None:
    """Look up by IN in the load's where, and in vain, in each of `columns`. One query asks all of that."""
    frames = []
    for column, expression in columns.items():
        last, first, nowhere = (at(expression, v) for v in (LAST, FIRST, NOWHERE))
        frames += [
            readers.jar(path, where=f"{column} IN ({first}, {last})"),
            readers.jar(path).where(f"{column} = {nowhere}"),
        ]
    rows, frame = ask_all(each.select("k") for each in frames)
    answers = zip(rows, last_plan(frame), strict=True)
    for column in columns:
        for wanted in ([0, 47], []):
            found, plan = next(answers)
            counts = (plan.total, plan.kept, plan.skipped["bloom"])
            assert (column, sorted(row[0] for row in found)) == (column, wanted)
            assert (column, counts) == (column, (6, len(wanted), 6 - len(wanted)))


def write_types(spark: SparkSession, path: Path, how: str) -> str:
    """The data set as Spark writes it: by default, with other timestamp types, or in the legacy format."""
    columns = [f"{at(e, 'v')} AS {c}" for c, e in BY_SPARK.items() if "." not in c]
    columns += [f"struct({at(BY_SPARK['st.x'], 'v')} AS x, struct({at(BY_SPARK['st.y.z'], 'v')} AS z) AS y) AS st"]
    frame = spark.range(0, 48, 1, 2).selectExpr("id AS k", "CAST(2 * (id * 23 % 48) AS INT) AS v")
    settings = {"spark.sql.parquet.writeLegacyFormat": str(how == "legacy").lower()}
    if how.isupper():
        settings["spark.sql.parquet.outputTimestampType"] = how
    options = {f"parquet.bloom.filter.fpp#{column}": FPP for column in BY_SPARK}
    with conf(spark, settings):
        values = frame.selectExpr("k", *columns)
        return write(values, path, dict.fromkeys(BY_SPARK, GROUP), rows_per_group=GROUP, options=options)


WRITTEN = {
    "as usual": tuple(BY_SPARK),
    **dict.fromkeys(("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"), ("ts",)),
    "legacy": ("dec9", "dec18", "dec38"),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_values_written_by_spark_are_found(readers: Readers, tmp_path: Path, how: str) -> None:
    path = write_types(readers.spark, tmp_path / "t", how)
    assert_found(readers, path, {column: BY_SPARK[column] for column in WRITTEN[how]})
