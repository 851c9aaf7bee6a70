"""``python verify_packages.py REPOSITORY``: a query is pruned with the jar by ``spark.jars.packages`` alone.

REPOSITORY is a directory in the layout of Maven. The JVM has an empty home: Ivy would take jars from ~/.m2 and ~/.ivy2.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def main(repository: Path) -> None:
    from pyspark.sql import SparkSession

    from pyspark_bloomparquet import attach, last_plan

    began = time.monotonic()
    (pom,) = repository.rglob("*.pom")
    *group, artifact, version, _ = pom.relative_to(repository).parts
    with tempfile.TemporaryDirectory() as home:
        path = f"{home}/users.parquet"
        ids = [(i * 7919) % 100_000 for i in range(40_000)]
        pq.write_table(
            pa.table({"user_id": ids}), path, row_group_size=10_000, bloom_filter_options={"user_id": {"ndv": 10_000}}
        )
        os.environ["PYSPARK_PYTHON"] = sys.executable  # by default the planner is the first python3 on the PATH
        settings = {
            "spark.jars.packages": f"{'.'.join(group)}:{artifact}:{version}",
            "spark.jars.repositories": repository.resolve().as_uri(),
            "spark.jars.ivy": f"{home}/ivy",
            "spark.driver.extraJavaOptions": f"-Duser.home={home}",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
        frame = spark.read.parquet(path).where(f"user_id = {ids[12_345]}")
        assert [tuple(row) for row in frame.collect()] == [(ids[12_345],)], frame.collect()
        (scan,) = last_plan(frame)
        assert (scan.planned, scan.total) == (True, 4), scan
        assert scan.skipped["bloom"] >= 2, scan
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # attach would warn of another version
            attach(spark)
        jars = [jar.split("/")[-1] for jar in spark.sparkContext._jsc.sc().listJars().mkString(" ").split()]
        assert jars == [f"{'.'.join(group)}_{artifact}-{version}.jar"], jars
        print(f"packages:     Spark {spark.version}, {scan}, {time.monotonic() - began:.0f} s")
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
