"""Plain Parquet is pruned beside the extensions of Delta Lake and Iceberg, and their tables have the right rows."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from pyspark_bloomparquet import jar_path
from tests.jar.test_plain_processes import run
from tests.support import connectors, files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="the connectors' jars are for Spark 4.1"),
]

DELTA = "io.delta.sql.DeltaSparkSessionExtension"
ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
OURS = "io.bloomparquet.spark.BloomParquetExtensions"

# One JVM, which has all jars, and a context for each list of extensions.
JOB = """
ALL = {
    "delta": ("delta.`{home}/delta`", "'delta.enableDeletionVectors'='true'"),
    "iceberg": ("lake.db.t", "'write.delete.mode'='merge-on-read'"),
}
home, ours, jars, path, *orders = sys.argv[1:]
answers, made = [], set()
for extensions in orders:
    settings = {
        "spark.sql.extensions": extensions,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"{home}/lake", "spark.databricks.delta.snapshotPartitions": "1",
    }
    if "delta" in extensions:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    spark = start("local[2]", home, jars, **settings).getOrCreate()
    plain = f"parquet.`{path}`"
    joined = f"SELECT /*+ BROADCAST(k) */ p.* FROM {plain} p JOIN (VALUES (77L)) k(id) ON p.id = k.id"
    ways = [ask(spark, f"SELECT * FROM {plain} WHERE id = 77"), ask(spark.newSession(), joined)]
    for name, (table, properties) in ALL.items():
        if name in extensions:
            table = table.format(home=home)
            if name not in made:
                spark.sql(f"CREATE TABLE {table} USING {name} TBLPROPERTIES ({properties}) AS SELECT * FROM {plain}")
                spark.sql(f"DELETE FROM {table} WHERE id = 77")
                made.add(name)
            both = f"SELECT t.* FROM {table} t JOIN {plain} p ON t.id = p.id WHERE t.id IN (76, 77) AND p.id > 0"
            ways.append(ask(spark, both))
    answers.append(ways)
    spark.stop()
print()
print(json.dumps(answers))
"""


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixteen row groups, which only filters can tell apart."""
    home = tmp_path_factory.mktemp("beside")
    for i in range(4):
        ids = [i + 4 * (row * 7 % 100) for row in range(100)]
        files.write(home / f"{i}.parquet", {"id": ids, "v": ids}, ["id"], rows_per_group=25, fpp=0.0001)
    return str(home)


def test_plain_files_are_pruned_and_tables_are_right(tmp_path: Path, path: str) -> None:
    jars = [*connectors.jars("delta"), *connectors.jars("iceberg"), Path(jar_path())]
    orders = [f"{DELTA},{ICEBERG}", f"{ICEBERG},{DELTA}", f"{DELTA},{OURS}", f"{OURS},{DELTA}"]
    answers = run(JOB, tmp_path, ",".join(map(str, jars)), path, *orders)
    for order, (filtered, joined, *of_tables) in zip(orders, answers, strict=True):
        for plain in (filtered, joined):
            assert plain["rows"] == plain["expected"] == ["Row(id=77, v=77)"]
            assert plain["kept"] == [1], (order, plain)
        for table in of_tables:  # 77 is deleted there; its keys prune the plain files
            assert table["rows"] == table["expected"] == ["Row(id=76, v=76)"]
            assert set(table["kept"]) in ({1}, {1, 2}), (order, table)
