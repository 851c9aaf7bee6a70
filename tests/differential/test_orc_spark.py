"""Plans over ORC against ``spark.read.orc`` without pushdown, on files of ORC Java (Spark) and of ORC C++ (pyarrow)."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.query.predicate import to_sql
from tests.differential import oracle, sparkside, writers
from tests.differential.cases import Data, cases, data_sets
from tests.differential.kinds import KINDS, ORC_NAMES
from tests.differential.test_core import count, examples
from tests.support.orc_rewriting import drop_statistics
from tests.support.spark import clock, conf
from tests.support.switches import require_used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

JAVA = [
    name for name, kind in KINDS.items()
    if kind.spark and not kind.int96 and name not in ("large_string", "dictionary", "date64")
]  # fmt: skip
CPP = [name for name in ORC_NAMES if KINDS[name].family not in ("timestamp", "ntz")]  # fractions before 1970 change


def test_stripes_with_matching_rows_in_spark_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()

    @examples(0.08)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        java = draws.draw(st.sampled_from([True, True, False]), label="by ORC Java")
        only = JAVA if java else CPP
        data = draws.draw(data_sets(spark=True, only=only, max_rows=40, max_files=2, plain=True), label="data")
        chosen = draws.draw(cases(data, spark=True), label="cases")
        filters_only = java and draws.draw(st.booleans(), label="filters only")
        home = Path(tempfile.mkdtemp(dir=tmp_path))
        try:
            with sparkside.unpruned(spark, data.timezone), clock(spark, data.timezone):
                root = write(spark, data, home) if java else home
                if not java:
                    writers.write_orc(data, root)
                if filters_only:
                    for path in root.rglob("*.orc"):
                        drop_statistics(path)
                        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksums
                sqls = [oracle.spark_sql(case.predicate, data.schema_kinds(), case.style) for case in chosen]
                frame = spark.read.schema(sparkside.spark_schema(data)).orc(str(root))
                _, truths = sparkside.evaluate(frame, sqls)
                held = sparkside.stripes(root)
                for case, sql, wanted in zip(chosen, sqls, truths, strict=True):
                    where = [sql, to_sql(case.predicate), case.predicate][case.style % 3]
                    note(f"where = {where!r}, which is {sql}")
                    plan = bp.plan(root, where, timezone=data.timezone)
                    kept = {(stripe.path, stripe.index) for stripe in plan.row_groups if stripe.kept}
                    for key, rids in held.items():
                        assert key in kept or not rids & wanted, f"{key} was skipped, but rows {rids & wanted} match"
                    assert not plan.errors or filters_only
                    count(tally, plan, wanted)
        finally:
            shutil.rmtree(home)

    check()
    print(f"\n{dict(tally)}")
    assert tally["cases"] >= 12 * examples(0.08).max_examples
    assert tally["matching"] > tally["cases"] / 8  # see test_spark.py: a few examples vary
    for reason in ("bloom", "statistics"):
        require_used(tally, reason, tally["row groups"] / 400)


def write(spark: SparkSession, data: Data, home: Path) -> Path:
    """Write with Spark: stripes of a few rows, and filters on every column."""
    writers.write(data, home / "source")
    schema = sparkside.spark_schema(data)
    source = spark.read.schema(schema).parquet(str(home / "source"))
    rows = max(1, min(file.group_size for file in data.files))
    columns = ",".join(".".join(column) for column in data.columns if all("." not in part for part in column))
    options = {"orc.stripe.row.count": rows, "orc.bloom.filter.fpp": 0.01, "orc.bloom.filter.columns": columns}
    options["compression"] = "none"  # so that statistics can be removed
    with conf(spark, {"spark.sql.orc.columnarWriterBatchSize": str(rows)}):
        source.coalesce(1).write.options(**options).orc(str(home / "table"))
    return home / "table"


def test_values_outside_javas_bounds_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Bounds are too narrow for a row group that begins with NaN, and for bytes that are not UTF-8."""
    with conf(spark, {"spark.sql.orc.filterPushdown": "false"}):
        frame = spark.range(0, 3000, 1, 1).selectExpr(
            "id AS rid",
            "CASE WHEN id = 1000 THEN double('NaN') WHEN id DIV 1000 = 1 THEN id + 0D ELSE id % 10 + 1D END AS d",
            "cast(if(id < 1500, X'80', X'FF') AS string) AS s",
            "concat(repeat('x', 1100), cast(X'F48FBFBF' AS string)) AS long",
        )
        options = {"orc.row.index.stride": "1000", "orc.bloom.filter.columns": "d"}
        frame.write.options(**options).orc(str(tmp_path / "t"))
        some = [
            "d = 1500D", "d > 1000D AND d < 1100D", "s < 'é'", "s > '\uffff'", "s <> '\ufffd'", "s >= 'a'",
            "long > 'x'", "d IN (1999D, 77D)",
        ]  # fmt: skip
        none = ["rid > 3000", "long < 'x'", "long > 'y'"]
        counts = spark.read.orc(str(tmp_path / "t")).selectExpr(*(f"count_if({where})" for where in some + none))
        for where, count in zip(some + none, counts.collect()[0], strict=True):
            assert (count > 0) == (where in some), where
            assert bp.plan(tmp_path / "t", where).kept == (where in some), where
