"""A session that has the jar already, of another version."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import bloomparquet
from pyspark_bloomparquet import jar_path
from tests.jar.test_plain_processes import run
from tests.support import files

pytestmark = pytest.mark.slow

JOB = """
import warnings
from pyspark_bloomparquet import attach

home, _, jar, path = sys.argv[1:]
spark = start("local[1]", home, jar).getOrCreate()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    attach(spark)
    attach(spark)
answer = ask(spark, f"SELECT * FROM parquet.`{path}` WHERE id = 7")
jars = spark.sparkContext._jsc.sc().listJars().mkString(" ").split()
print()
print(json.dumps([[jar.split("/")[-1] for jar in jars], [str(each.message) for each in warned], answer]))
"""


def test_a_jar_of_another_version_is_warned_of_and_not_added_again(tmp_path: Path) -> None:
    """:mod:`tests.jar.test_submit` has a jar of the same version."""
    jar = tmp_path / "org_bloomparquet-1.jar"
    with zipfile.ZipFile(jar_path()) as ours, zipfile.ZipFile(jar, "w") as copy:
        for name in ours.namelist():
            content = ours.read(name)
            if name == "META-INF/MANIFEST.MF":
                content = content.replace(bloomparquet.__version__.encode(), b"0.0.7")
            copy.writestr(name, content)
    path = files.write(tmp_path / "t.parquet", {"id": list(range(40))}, ["id"], rows_per_group=10)
    jars, warned, answer = run(JOB, tmp_path, str(jar), path)
    assert jars == [jar.name]
    assert answer["rows"] == answer["expected"]
    assert answer["kept"] == [1]
    assert len(warned) == 2
    for message in warned:
        assert f"bloomparquet 0.0.7 ({jar})" in message
        assert f"has bloomparquet {bloomparquet.__version__}" in message
