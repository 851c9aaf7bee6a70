"""Compares both packages with ``spark.read.parquet`` without pruning, on files by pyarrow and Spark.

One query evaluates some twenty predicates as boolean columns over all rows. It filters nothing, so it prunes nothing.
Most cases run the classes of `pyspark_bloomparquet` without a JVM. One case of every data set runs through Spark, by
`where` and by a pushed filter.

HYPOTHESIS_PROFILE=long runs fifty times as many examples, here and in test_core.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.predicate import to_sql
from tests.differential import oracle, sparkside, writers
from tests.differential.cases import Case, Data, cases, data_sets
from tests.differential.test_core import count, examples
from tests.support.spark import conf
from tests.support.switches import require_off, require_used

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

Rows = dict[int, tuple[Any, ...]]


def test_rows_equal_those_of_spark_on_files_by_pyarrow(spark: SparkSession) -> None:
    tally: Counter[str] = Counter()

    @examples(0.14)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=True, max_rows=40), label="data")
        chosen = draws.draw(cases(data, spark=True), label="cases")
        through = draws.draw(st.integers(0, len(chosen) - 1), label="the case that goes through Spark")
        root = Path(tempfile.mkdtemp(prefix="bloomparquet-differential-"))
        try:
            writers.write(data, root)
            with sparkside.unpruned(spark, data.timezone):
                frame = spark.read.schema(_file_schema(data)).parquet(str(root))
                sqls = [oracle.spark_sql(case.predicate, data.schema_kinds(), case.style) for case in chosen]
                rows, truths = sparkside.evaluate(frame, sqls)
                names = oracle.column_names(data)
                by_spark = _by_rid(rows, names)
                # Spark and the Python oracle agree, so each can be trusted where the other cannot run.
                assert by_spark == {row[0]: row for row in oracle.expected_rows(data)}
                kinds = data.schema_kinds()
                for case, sql, wanted in zip(chosen, sqls, truths, strict=True):
                    note(f"{sql}, which is {case.predicate!r}")
                    every = enumerate(oracle.rows_of(data))
                    assert wanted == {
                        rid for rid, row in every if oracle.truth(case.predicate, row, kinds, data.timezone)
                    }
                schema = sparkside.spark_schema(data)
                check_files(root, data, chosen, sqls, truths, by_spark, schema, tally)
                case, sql, wanted = chosen[through], sqls[through], truths[through]
                note(f"through Spark: {sql}")
                frames = [_load(spark, root, data, schema, where=sql)]
                # PySpark fails on a timestamp whose year in UTC Python does not support.
                if not re.search(r"'(0001|9999)-", sql):
                    frames.append(_load(spark, root, data, schema, pushFilters="on").where(sql))
                for frame in frames:
                    assert _by_rid(frame.toArrow(), names) == {rid: by_spark[rid] for rid in wanted}
                    tally["through Spark"] += 1
        finally:
            shutil.rmtree(root)

    check()
    _judge(tally, examples(0.14).max_examples)


def test_rows_equal_those_of_spark_on_files_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()

    @examples(0.12)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=True, max_rows=40, max_files=1, plain=True), label="data")
        chosen = draws.draw(cases(data, spark=True), label="cases")
        settings = {
            "spark.sql.parquet.outputTimestampType": draws.draw(
                st.sampled_from(["TIMESTAMP_MICROS", "INT96", "TIMESTAMP_MILLIS"])
            ),
            "spark.sql.parquet.writeLegacyFormat": draws.draw(st.sampled_from(["false", "true"])),
            "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
            "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        }
        options = {
            "parquet.block.row.count.limit": draws.draw(st.integers(1, 8)),
            "parquet.bloom.filter.enabled": "true",
            "parquet.bloom.filter.max.bytes": 1024,
            "parquet.enable.dictionary": draws.draw(st.sampled_from(["false", "false", "true"])),
            "parquet.column.statistics.enabled": draws.draw(st.sampled_from(["true", "false"])),
            "parquet.writer.version": draws.draw(st.sampled_from(["v1", "v2"])),
        }
        note(f"{settings} {options}")
        home = Path(tempfile.mkdtemp(dir=tmp_path))
        try:
            writers.write(data, home / "source")
            with sparkside.unpruned(spark, data.timezone), conf(spark, settings):
                source = spark.read.schema(_file_schema(data)).parquet(str(home / "source"))
                source.coalesce(1).write.options(**options).parquet(str(home / "table"))
                sqls = [oracle.spark_sql(case.predicate, data.schema_kinds(), case.style) for case in chosen]
                rows, truths = sparkside.evaluate(spark.read.parquet(str(home / "table")), sqls)
                by_spark = _by_rid(rows, oracle.column_names(data))
                check_files(home / "table", data, chosen, sqls, truths, by_spark, None, tally)
        finally:
            shutil.rmtree(home)

    check()
    _judge(tally, examples(0.12).max_examples)


def check_files(
    root: Path,
    data: Data,
    chosen: Sequence[Case],
    sqls: Sequence[str],
    truths: Sequence[set[int]],
    rows: Rows,
    schema: Any,
    tally: Counter[str],
) -> None:
    """Check for each case that no matching row is skipped, and the rows of `read_table` and `pyspark_bloomparquet`.

    `truths` are the ids of its rows; `rows` has all rows.
    """
    names = oracle.column_names(data)
    groups = sparkside.row_groups(root)
    for case, sql, wanted in zip(chosen, sqls, truths, strict=True):
        wheres = [sql, to_sql(case.predicate), case.predicate]
        where = wheres[case.style % 3]
        note(f"where = {where!r}, which is {sql}")  # the last one noted is the one that failed
        plan = bp.plan(root, where, timezone=data.timezone)
        require_off(plan)
        kept = {(group.path, group.index) for group in plan.row_groups if group.kept}
        for key, rids in groups.items():
            assert key in kept or not rids & wanted, f"{key} was skipped, but rows {rids & wanted} match"
        expected = {rid: rows[rid] for rid in wanted}
        table = bp.read_table(root, where, merge_schema=True, timezone=data.timezone)
        assert _by_rid(table, names) == expected
        table = sparkside.read_by_data_source(root, schema, where=wheres[case.style % 2], timeZone=data.timezone)
        assert _by_rid(table, names) == expected
        count(tally, plan, wanted)


def _load(spark: SparkSession, root: Path, data: Data, schema: Any, **options: str) -> DataFrame:
    reader = spark.read.format("bloomparquet").schema(schema)
    return reader.options(timeZone=data.timezone, **options).load(str(root))


def _file_schema(data: Data) -> Any:
    """The schema without the partition column, whose type Spark infers."""
    schema = sparkside.spark_schema(data)
    return type(schema)(schema.fields[:-1]) if data.partition else schema


def _by_rid(table: pa.Table, names: list[str]) -> Rows:
    if table.num_rows == 0:
        return {}
    rows = oracle.comparable_rows(table, names)
    by_rid = {row[0]: row for row in rows}
    assert len(by_rid) == len(rows), "a row was read twice"
    return by_rid


def _judge(tally: Counter[str], drawn: int) -> None:
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= 12 * drawn
    # Far below the mean, which is a half: a few examples vary, and Hypothesis draws others for other source code.
    assert tally["matching"] > tally["cases"] / 8
    for reason in ("bloom", "statistics"):
        require_used(tally, reason, tally["row groups"] / 400)
