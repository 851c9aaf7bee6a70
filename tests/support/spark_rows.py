"""Compares the rows of pruned scans with those for which Spark computes TRUE."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark users give it

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import PRUNED, UNPRUNED, Readers, ask_all, texts
from tests.support.spark import conf

REFUSALS = (PySparkException, Py4JJavaError)


def assert_same_rows(
    readers: Readers, path: Any, wheres: list[str], schema: Any = None, *, select: str = "*", **options: Any
) -> int:
    """Assert that the jar returns, for each of `wheres`, the rows for which Spark computes TRUE.

    The oracle computes them as columns, so that it cannot skip anything, and the jar answers all in one query, each by
    a scan of its own. Gives how many row groups were skipped.
    """
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        oracle, jar = readers.oracle(path, schema, **options), readers.jar(path, schema, **options)
        try:
            rows = oracle.select(F.struct(select), *map(F.expr, wheres)).collect()
        except REFUSALS:
            # A query that skips all rows does not fail; any other must fail too.
            with pytest.raises(REFUSALS):
                ask_all(jar.where(where) for where in wheres)
            for where in wheres:
                with suppress(*REFUSALS):
                    assert jar.where(where).collect() == []
            return 0
        return sum(_skipped(jar, wheres, rows, select))


def skipped_by(frame: DataFrame, wheres: Iterable[str], select: str = "*") -> dict[str, int]:
    """How many row groups a query of Spark's own source skips for each of `wheres`.

    Its rows are asserted to be those for which Spark computes TRUE, without pruning.
    """
    wheres = list(wheres)
    with conf(frame.sparkSession, UNPRUNED):
        rows = frame.select(F.struct(select), *map(F.expr, wheres)).collect()
    with conf(frame.sparkSession, PRUNED):
        return dict(zip(wheres, _skipped(frame, wheres, rows, select), strict=True))


def _skipped(frame: DataFrame, wheres: list[str], verdicts: list[Any], select: str = "*") -> list[int]:
    """How many row groups are skipped for each of `wheres`. Asserts that the rows are those of the `verdicts`."""
    frame.createOrReplaceTempView("asked")
    scans = (f"SELECT {i}, struct({select}) FROM asked WHERE {where}" for i, where in enumerate(wheres))
    union = frame.sparkSession.sql(" UNION ALL ".join(scans))  # one text, which Spark analyses once
    rows = union.collect()
    for i, where in enumerate(wheres):
        expected = texts([row[0] for row in verdicts if row[i + 1]])
        assert (where, texts([row for number, row in rows if number == i])) == (where, expected)
    return [plan.skipped.total() for plan in last_plan(union)]


def one_value_per_group(path: Path, name: str, values: list[Any], kind: pa.DataType, **options: Any) -> str:
    """A file with one row group for each value, with a filter."""
    table = pa.table({name: pa.array([value for value in values for _ in range(2)], kind)})
    return files.write(path / "t.parquet", table, [name], rows_per_group=2, **options)
