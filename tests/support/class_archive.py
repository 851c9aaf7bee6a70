"""Store the classes of Spark as the JVM needs them, so that the JVMs of a whole test run start in half the time."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark.jsa"  # of this environment's Spark and JDK

# Most time of a test's driver is spent in code that runs a few times: optimising it costs more than it saves.
# The code cache is by default smaller without the optimising compiler, and would fill up. A heap and a metaspace that
# grow in steps are collected whole at each step.
_FLAGS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-XX:MetaspaceSize=400m -XX:InitialRAMPercentage=25"
)
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"

JAVA_FLAGS = f"{_FLAGS} {_QUIET} -XX:SharedArchiveFile={ARCHIVE}"
"""For drivers and executors. A JVM ignores an archive that is missing, or belongs to other classes or another JDK."""


def main() -> None:
    from tests.support.spark import start

    written = ARCHIVE.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_FLAGS} {_QUIET} -XX:ArchiveClassesAtExit={written}"
    with tempfile.TemporaryDirectory() as home:
        spark = start(Path(home))
        path = f"{home}/t"
        spark.range(100).selectExpr("id % 7 AS a").groupBy("a").count().write.parquet(path)
        spark.read.parquet(path).where("a = 3").collect()
        gateway = spark.sparkContext._gateway
        spark.stop()
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends with its input, and writes the archive
        gateway.proc.wait()
    os.replace(written, ARCHIVE)


if __name__ == "__main__":
    main()
