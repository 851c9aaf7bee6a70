"""Only scans of exactly Spark's own file formats are pruned."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import files, plain
from tests.support.java import compile_jar
from tests.support.scenarios import PRUNED, read, texts
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled")]

SUBCLASS = """
package io.bloomparquet.test;

import org.apache.spark.sql.execution.datasources.{kind}.{base};

/** As Delta Lake's format: its rows need not be those that the file's filters describe. */
public final class {name} extends {base} {{
  @Override
  public String shortName() {{
    return "{name}";
  }}
}}
"""
SUBCLASSES = {"SubParquet": ("parquet", "ParquetFileFormat"), "SubOrc": ("orc", "OrcFileFormat")}


@pytest.fixture(scope="module")
def subclasses(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session with subclasses of Spark's file formats."""
    classes = {name: SUBCLASS.format(name=name, kind=kind, base=base) for name, (kind, base) in SUBCLASSES.items()}
    jar = compile_jar(tmp_path_factory.mktemp("subclasses"), "formats.jar", classes)
    jar_spark.sql(f"ADD JAR '{jar}'")
    return jar_spark


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    ids = [i * 7 % 40 for i in range(40)]
    return files.write(tmp_path_factory.mktemp("formats") / "t.parquet", {"id": ids}, ["id"], rows_per_group=10)


def test_subclasses_of_sparks_formats_are_left_alone(subclasses: SparkSession, path: str, tmp_path: Path) -> None:
    subclasses.range(40).write.orc(str(tmp_path / "orc"))
    with conf(subclasses, PRUNED):
        for name, where in (("SubParquet", path), ("SubOrc", str(tmp_path / "orc"))):
            frame = subclasses.read.format(f"io.bloomparquet.test.{name}").load(where).where("id = 7")
            assert texts(frame.collect()) == ["(7,)"]
            text = plain.executed(frame)
            assert plain.NODE not in text
            assert "FileScan" in text
            own = read(subclasses, SUBCLASSES[name][0], where).where("id = 7")
            assert plain.NODE in plain.executed(own)
        joined = subclasses.sql(
            f"SELECT a.id FROM `io.bloomparquet.test.SubParquet`.`{path}` a JOIN parquet.`{path}` b ON a.id = b.id "
            "WHERE a.id = 7 AND b.id < 9"
        )
        assert texts(joined.collect()) == ["(7,)"]
        assert len(list(plain.nodes(joined._jdf.queryExecution().executedPlan()))) == 1


def test_sparks_v2_source_is_left_alone(jar_spark: SparkSession, path: str) -> None:
    with conf(jar_spark, {**PRUNED, "spark.sql.sources.useV1SourceList": "orc"}):
        frame = jar_spark.read.parquet(path).where("id = 7")
        assert texts(frame.collect()) == ["(7,)"]
        assert "BatchScan" in plain.executed(frame)
        assert plain.NODE not in plain.executed(frame)
