"""Random files, predicates and settings: Spark's own scans return the same rows with pruning as without.

Many predicates are asked by one query, a union of scans, each of which is planned by itself. `BLOOMPARQUET_CASES` is
how many predicates to try.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pyspark_bloomparquet import last_plan
from tests.differential import oracle, sparkside, writers
from tests.differential.cases import ROW_ID, cases, data_sets
from tests.differential.test_orc_spark import CPP
from tests.support.scenarios import PRUNED, UNPRUNED, ask_all
from tests.support.spark import clock, conf
from tests.support.switches import require_used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("BLOOMPARQUET_CASES", "84"))
PER_DATA_SET = 20
SETTINGS = {
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.parquet.enableVectorizedReader": ["true", "false"],
    "spark.sql.parquet.enableNestedColumnVectorizedReader": ["true", "false"],
    "spark.sql.orc.enableVectorizedReader": ["true", "false"],
    "spark.sql.parquet.columnarReaderBatchSize": ["3", "4096"],
    "spark.sql.files.maxPartitionBytes": ["400b", "4kb", "128mb"],
    "spark.sql.files.openCostInBytes": ["0", "4mb"],
    "spark.sql.optimizer.singleTaskExecution.enabled": ["true", "false"],
    "spark.sql.optimizer.nestedSchemaPruning.enabled": ["true", "false"],
    "spark.sql.optimizer.inSetConversionThreshold": ["1", "10"],
    "spark.sql.ansi.enabled": ["true", "false"],
}


def test_random_predicates_lose_no_row(jar_spark: SparkSession, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=-(-CASES // (PER_DATA_SET - 8)))  # some predicates are left out
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        is_orc = draws.draw(st.integers(0, 3), label="format") == 3
        if is_orc:
            sets = data_sets(spark=True, only=CPP, max_rows=40, max_files=2, plain=True)
        else:
            sets = data_sets(spark=True, max_rows=40)
        data = draws.draw(sets, label="data")
        chosen = draws.draw(cases(data, spark=True, number=PER_DATA_SET), label="cases")
        values = draws.draw(st.fixed_dictionaries({key: st.sampled_from(of) for key, of in SETTINGS.items()}))
        root = Path(tempfile.mkdtemp(dir=tmp_path))
        try:
            (writers.write_orc if is_orc else writers.write)(data, root)
            sqls = [oracle.spark_sql(case.predicate, data.schema_kinds(), case.style) for case in chosen]
            schema = sparkside.spark_schema(data)
            schema = type(schema)(schema.fields[:-1]) if data.partition else schema  # Spark infers the partition's type
            read = jar_spark.read.schema(schema).orc if is_orc else jar_spark.read.schema(schema).parquet
            with sparkside.unpruned(jar_spark, data.timezone), clock(jar_spark, data.timezone):
                with conf(jar_spark, UNPRUNED):
                    _, truths = sparkside.evaluate(read(str(root)), sqls)
                with conf(jar_spark, {**values, **PRUNED}):
                    files = read(str(root))
                    rows, frame = ask_all(files.where(sql).select(ROW_ID) for sql in sqls)
                    plans = [plan for plan in last_plan(frame) if plan.planned]
            for sql, wanted, found in zip(sqls, truths, rows, strict=True):
                note(sql)
                assert sorted(row[0] for row in found) == sorted(wanted), sql
                tally["matching"] += bool(wanted)
            for plan in plans:
                tally["planned"] += 1
                tally["row groups"] += plan.total
                tally.update(plan.skipped)
            tally["cases"] += len(sqls)
        finally:
            shutil.rmtree(root)

    check()
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= CASES
    assert tally["matching"] > CASES / 5
    assert tally["planned"] > CASES / 3
    for reason in ("bloom", "statistics"):
        require_used(tally, reason, tally["row groups"] / 400)
