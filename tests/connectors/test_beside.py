"""Plain Parquet is pruned beside the extensions of Delta Lake and Iceberg, and their tables have the right rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_bloomparquet import attach
from tests.connectors.pairs import check
from tests.connectors.session import EXTENSIONS, application
from tests.support import files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="the connectors' jars are for Spark 4.1"),
]

DELTA, ICEBERG = EXTENSIONS["delta"], EXTENSIONS["iceberg"]
OURS = "io.bloomparquet.spark.BloomParquetExtensions"
TABLES = {
    DELTA: ("delta", "delta.`{home}/delta`", "'delta.enableDeletionVectors'='true'"),
    ICEBERG: ("iceberg", "lake.db.t", "'write.delete.mode'='merge-on-read'"),
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Sixteen row groups, which only filters can tell apart."""
    for i in range(4):
        ids = [i + 4 * (row * 7 % 100) for row in range(100)]
        files.write(tmp_path / f"plain/{i}.parquet", {"id": ids, "v": ids}, ["id"], rows_per_group=25, fpp=0.0001)
    return str(tmp_path / "plain")


def test_plain_files_are_pruned_and_tables_are_right(tmp_path: Path, path: str) -> None:
    with application(tmp_path) as spark:
        attach(spark)  # now the JVM has the jar, and Spark itself installs the extension in later applications
    plain = f"parquet.`{path}`"
    joined = f"SELECT /*+ BROADCAST(k) */ p.* FROM {plain} p JOIN (VALUES (77L)) k(id) ON p.id = k.id"
    made = set()
    for extensions in ((DELTA, ICEBERG), (ICEBERG, DELTA), (DELTA, OURS), (OURS, DELTA)):
        settings = {"spark.sql.extensions": ",".join(extensions), "spark.bloomparquet.python": sys.executable}
        with application(tmp_path, **settings) as spark:
            for session, query in ((spark, f"SELECT * FROM {plain} WHERE id = 77"), (spark.newSession(), joined)):
                rows, plans = check(session, query)
                assert (rows, [plan.kept for plan in plans]) == (["(77, 77)"], [1]), (extensions, query)
            for name, table, properties in (TABLES[each] for each in extensions if each in TABLES):
                table = table.format(home=tmp_path)
                if name not in made:
                    select = f"SELECT * FROM {plain}"
                    spark.sql(f"CREATE TABLE {table} USING {name} TBLPROPERTIES ({properties}) AS {select}")
                    spark.sql(f"DELETE FROM {table} WHERE id = 77")
                    made.add(name)
                # 77 is deleted there; its keys prune the plain files.
                both = f"SELECT t.* FROM {table} t JOIN {plain} p ON t.id = p.id WHERE t.id IN (76, 77) AND p.id > 0"
                rows, plans = check(spark, both)
                assert rows == ["(76, 76)"], (extensions, name)
                assert {plan.kept for plan in plans} in ({1}, {1, 2}), (extensions, name)
