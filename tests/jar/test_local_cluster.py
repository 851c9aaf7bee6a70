"""An application with executors of its own, which lack the jar, and start every task again that is not done at once."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import bloomparquet as bp
from pyspark_bloomparquet import jar_path
from tests.support.retrofit import contents, data_files, filtered, make_table, row_groups, run_speculating
from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED

pytestmark = pytest.mark.slow

PROGRAM = """
    import json
    from collections import Counter
    import bloomparquet as bp
    from pyspark.sql import SparkSession
    from pyspark_bloomparquet import add_filters, build_index, check, refresh_index, shrink_filters
    builder = SparkSession.builder.master("local-cluster[2,1,640]").config("spark.jars", {empty!r})
    builder = builder.config(map={settings})
    spark = builder.config("spark.driver.extraClassPath", "{own}:{other}").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    out = {{"check": str(check(spark))}}
    built = build_index(spark, {indexed!r}, {{"id": bp.Bloom()}}, files_per_task=1)
    out["segments"] = [built.segments, refresh_index(spark, {indexed!r}).segments]
    for name, run in (
        ("added", add_filters(spark, {filtered!r}, "id")), ("shrunk", shrink_filters(spark, {filtered!r}, fpp=0.3)),
    ):
        outcomes = run.collect()
        out[name] = [Counter(row.action for row in outcomes), [row.error for row in outcomes if row.error]]
    print(json.dumps(out))
    spark.stop()
"""


class Application(NamedTuple):
    """What the program printed, and its files."""

    out: dict[str, Any]
    other_jar: Path
    indexed: Path
    filtered: Path


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Application:
    """The jar's name is among the application's jars, so Spark sends that file; it is another one."""
    home = tmp_path_factory.mktemp("cluster")
    empty, other = home / "e" / jar_path().name, home / "o" / "old.jar"
    for each in (empty, other):
        each.parent.mkdir()
    with zipfile.ZipFile(empty, "w") as jar:
        jar.writestr("README", "")
    with zipfile.ZipFile(jar_path()) as own, zipfile.ZipFile(other, "w") as jar:
        for name in own.namelist()[:-1]:
            jar.writestr(name, own.read(name))
    indexed, to_filter = make_table(home / "indexed"), make_table(home / "filtered")
    program = PROGRAM.format(
        empty=str(empty),
        own=jar_path(),
        other=other,
        indexed=str(indexed),
        filtered=str(to_filter),
        settings=FOR_SMALL_QUERIES | INTERPRETED,
    )
    return Application(json.loads(run_speculating(program, home)[-1]), other, indexed, to_filter)


def test_check_names_executors_without_the_jar_and_two_jars(application: Application) -> None:
    text = application.out["check"]
    lines = [line for line in text.splitlines() if line.startswith("PROBLEM")]
    assert len(lines) == 2, text
    assert f"driver: two jars of bloomparquet that differ, {jar_path()} and {application.other_jar}" in lines[0]
    assert "executors: one or more lack the jar" in lines[1]


def test_tasks_that_run_twice_build_one_index(application: Application) -> None:
    assert application.out["segments"] == [6, 6]
    path = str(application.indexed)
    info = bp.read_index_info(path)
    assert (info.files, info.segments) == (6, 6)
    assert len(list((application.indexed / "_bloomparquet_index").iterdir())) == 7
    assert bp.plan(path).indexed == 6
    assert bp.plan(path, "Id = 7").kept == 0


def test_tasks_that_run_twice_change_each_file_once(application: Application) -> None:
    for name in ("added", "shrunk"):
        counts, errors = application.out[name]
        assert name in counts
        assert errors == []
    table = application.filtered
    assert {(path, group) for path, group, _ in filtered(table)} == row_groups(table)
    assert set(contents(table)) == {str(Path(path).relative_to(table)) for path in data_files(table)}
