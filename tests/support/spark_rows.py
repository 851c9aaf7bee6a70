"""Compares the rows of the jar with those for which Spark computes TRUE."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
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
from tests.support.scenarios import Readers, texts
from tests.support.spark import conf

REFUSALS = (PySparkException, Py4JJavaError)


def assert_same_rows(readers: Readers, path: Any, wheres: list[str], schema: Any = None, **options: Any) -> int:
    """Assert that the jar returns, for each of `wheres`, the rows for which Spark computes TRUE.

    The oracle computes them as columns, so that it cannot skip anything, and the jar answers all in one query, each by
    a scan of its own. Spark's own scans, pruned, must return these rows too. Gives how many row groups were skipped.
    """
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        oracle, jar = readers.oracle(path, schema, **options), readers.jar(path, schema, **options)
        scans, filtered = (
            [frame.where(where).select(F.lit(i), F.struct("*")) for i, where in enumerate(wheres)]
            for frame in (jar, oracle)
        )
        ours = reduce(DataFrame.unionAll, scans)
        try:
            rows = oracle.select(F.struct("*"), *map(F.expr, wheres)).collect()
        except REFUSALS:
            # A query that skips all rows does not fail; any other must fail too.
            with pytest.raises(REFUSALS):
                jar.collect()
            for scan in (*scans, *filtered):
                with suppress(*REFUSALS):
                    assert scan.collect() == []
            return 0
        expected = [(i, row[0]) for row in rows for i in range(len(wheres)) if row[i + 1]]
        returned = [tuple(row) for row in ours.collect()]
        plain = reduce(DataFrame.unionAll, filtered)
        assert texts(plain.collect()) == texts(expected)
    present = set(map(repr, returned))
    lost = [(wheres[i], row) for i, row in expected if repr((i, row)) not in present]
    assert lost == []
    assert texts(returned) == texts(expected)
    return sum(plan.skipped.total() for plan in last_plan(ours))


def one_value_per_group(path: Path, name: str, values: list[Any], kind: pa.DataType, **options: Any) -> str:
    """A file with one row group for each value, with a filter."""
    table = pa.table({name: pa.array([value for value in values for _ in range(2)], kind)})
    return files.write(path / "t.parquet", table, [name], rows_per_group=2, **options)
