"""Jars of Delta Lake and Iceberg for each Spark, of S3A, GCS and Comet. Maven fetches them for tests."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark
import pytest

_HOME = Path(__file__).resolve().parents[2] / "build" / "connectors"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SECONDS = 600

(_CLIENT,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
_HADOOP = _CLIENT.stem.rpartition("-")[2]
_SDK = {"3.4.1": "2.24.6", "3.4.2": "2.29.52", "3.5.0": "2.35.4"}[_HADOOP]  # as Hadoop's hadoop-project says
_ALONE = {  # without what they depend on: Spark brings it
    "delta-4.0": ("io.delta:delta-spark_2.13:4.0.0", "io.delta:delta-storage:4.0.0"),
    "delta-4.1": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "delta-4.2": ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "iceberg-4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
    "iceberg-4.1": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    "s3a": (
        f"org.apache.hadoop:hadoop-aws:{_HADOOP}",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
    "comet": ("org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0",),  # 99 MB: native libraries; for Spark 4.1
    "gcs": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26:jar:shaded",),
}
_WITH_DEPENDENCIES = {  # the parts of the AWS SDK that S3A uses; the bundle that Hadoop names has 641 MB
    "s3a": tuple(f"software.amazon.awssdk:{part}:{_SDK}" for part in ("s3", "s3-transfer-manager", "sts"))
}
_RELEASE = ".".join(pyspark.__version__.split(".")[:2])
TABLES = [name for name in ("delta", "iceberg") if f"{name}-{_RELEASE}" in _ALONE]
"""The table formats whose connectors there are for this PySpark."""
_OF_SPARK = re.compile(r"slf4j-api-|netty-(buffer|codec|common|handler|resolver|transport)")


def jars(name: str) -> list[Path]:
    """The jars of ``delta`` or ``iceberg`` (for this PySpark), ``gcs``, ``comet``, or ``s3a`` (for its Hadoop).

    Skips the test if there are none for this PySpark, or Maven is missing. If Maven fails, skips the test, but in CI,
    where the variable CI is set, raises.
    """
    if name in ("delta", "iceberg") and name not in TABLES:
        pytest.skip(f"no connector of {name} for Spark {_RELEASE}")
    try:
        return fetch(f"{name}-{_RELEASE}" if name in TABLES else name)
    except FileNotFoundError:
        pytest.skip("Maven (mvn), which fetches the connectors' jars, is not installed")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Maven did not fetch the jars of {name}: {error}")


def fetch(name: str) -> list[Path]:
    """Fetch the jars into ``build/connectors/<name>``, unless they are there. One process fetches at a time."""
    folder, pom = _HOME / name, _pom(name)
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        written = folder / "pom.xml"
        if not written.is_file() or written.read_text() != pom:
            with tempfile.TemporaryDirectory(dir=_HOME) as home:
                new = Path(home) / name
                new.mkdir()
                (new / "pom.xml").write_text(pom)
                command = ["mvn", "-q", "-B", _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={new}"]
                subprocess.run(command, cwd=new, check=True, timeout=_SECONDS)
                shutil.rmtree(folder, ignore_errors=True)
                new.rename(folder)
    return sorted(jar for jar in folder.glob("*.jar") if not _OF_SPARK.match(jar.name))


def _pom(name: str) -> str:
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    needed = [_dependency(each, alone) for each in _ALONE[name]]
    needed += [_dependency(each, "") for each in _WITH_DEPENDENCIES.get(name, ())]
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>bloomparquet.tests</groupId><artifactId>{name}</artifactId><version>1</version>\n"
        f"<dependencies>\n{''.join(needed)}</dependencies></project>\n"
    )


def _dependency(coordinates: str, exclusions: str) -> str:
    """`coordinates`: group, artifact and version, and after them perhaps type and classifier."""
    names = ("groupId", "artifactId", "version", "type", "classifier")
    fields = "".join(f"<{name}>{value}</{name}>" for name, value in zip(names, coordinates.split(":"), strict=False))
    return f"<dependency>{fields}{exclusions}</dependency>\n"


if __name__ == "__main__":
    for each in _ALONE:
        fetch(each)
