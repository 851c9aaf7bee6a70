"""Random ORC files and predicates through the jar, against ``spark.read.orc`` without pushdown."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.differential import oracle, sparkside, writers
from tests.differential.cases import ROW_ID, cases, data_sets
from tests.differential.test_core import examples
from tests.differential.test_orc_spark import CPP, JAVA, write
from tests.support.scenarios import ask_all
from tests.support.spark import clock
from tests.support.switches import require_used

pytestmark = pytest.mark.slow


def test_rows_equal_those_of_spark(jar_spark: SparkSession, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()

    @examples(0.12)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        java = draws.draw(st.sampled_from([True, True, False]), label="by ORC Java")
        names = JAVA if java else CPP
        data = draws.draw(data_sets(spark=True, only=names, max_rows=40, max_files=2, plain=True), label="data")
        chosen = draws.draw(cases(data, spark=True, number=6), label="cases")
        home = Path(tempfile.mkdtemp(dir=tmp_path))
        try:
            with sparkside.unpruned(jar_spark, data.timezone), clock(jar_spark, data.timezone):
                root = write(jar_spark, data, home) if java else home
                if not java:
                    writers.write_orc(data, root)
                sqls = [oracle.spark_sql(case.predicate, data.schema_kinds(), case.style) for case in chosen]
                schema = sparkside.spark_schema(data)
                _, truths = sparkside.evaluate(jar_spark.read.schema(schema).orc(str(root)), sqls)
                ours = jar_spark.read.format("bloomorc").schema(schema).load(str(root))
                rows, frame = ask_all(ours.where(sql).select(ROW_ID) for sql in sqls)
                for case, sql, row_ids, wanted in zip(chosen, sqls, rows, truths, strict=True):
                    note(f"where = {sql!r}, which is {case.predicate!r}")
                    assert sorted(row[0] for row in row_ids) == sorted(wanted)
                    tally["cases"] += 1
                    tally["matching"] += bool(wanted)
                for plan in last_plan(frame):
                    tally["stripes"] += plan.total
                    tally.update(plan.skipped)
        finally:
            shutil.rmtree(home)

    check()
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= 2 * examples(0.12).max_examples
    assert tally["matching"] > 0
    for reason in ("bloom", "statistics"):
        require_used(tally, reason, 0)
