"""Compares the rows of the jar with those for which Spark computes TRUE."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark users give it

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Readers, ask_all, texts
from tests.support.spark import conf

REFUSALS = (PySparkException, Py4JJavaError)


def assert_same_rows(readers: Readers, path: Any, wheres: list[str], schema: Any = None, **options: Any) -> int:
    """Assert that the jar returns, for each of `wheres`, the rows for which Spark computes TRUE.

    The oracle computes them as columns, so that it cannot skip anything, and the jar answers all in one query, each by
    a scan of its own. Gives how many row groups were skipped.
    """
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        oracle, jar = readers.oracle(path, schema, **options), readers.jar(path, schema, **options)
        scans = [jar.where(where) for where in wheres]
        try:
            rows = oracle.select(F.struct("*"), *map(F.expr, wheres)).collect()
        except REFUSALS:
            # A query that skips all rows does not fail; any other must fail too.
            with pytest.raises(REFUSALS):
                ask_all(scans)
            for scan in scans:
                with suppress(*REFUSALS):
                    assert scan.collect() == []
            return 0
        ours, frame = ask_all(scans)
    for i, where in enumerate(wheres):
        assert (where, texts(ours[i])) == (where, texts([row[0] for row in rows if row[i + 1]]))
    return sum(plan.skipped.total() for plan in last_plan(frame))


def one_value_per_group(path: Path, name: str, values: list[Any], kind: pa.DataType, **options: Any) -> str:
    """A file with one row group for each value, with a filter."""
    table = pa.table({name: pa.array([value for value in values for _ in range(2)], kind)})
    return files.write(path / "t.parquet", table, [name], rows_per_group=2, **options)
