"""Settings that decide which code the driver runs, or which files it deletes, come from the SparkConf only."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.scenarios import Ran, Readers, run, texts
from tests.support.spark import application_conf, conf
from tests.support.spark_kms import MODULE, ship

pytestmark = pytest.mark.slow

UNNAMED = r"expected one of the functions that spark\.bloomparquet\.keyProviders names"
SETTINGS = {  # with values that have a visible effect
    "python": "{home}/canary",
    "pythonPath": "{home}",
    "keyProviders": "os:abort",
    "cacheDirectory": "{home}/cache",
    "cacheMaxBytes": "many",
}
OPTIONS = {"planning": "off", "index": "of", "pushFilters": "off", "keyProvider": f"{MODULE}:fails"}
LOADS = ("option", "OPTIONS", "session")
_names = itertools.count()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a program, which creates a file when it runs."""
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/was-run"\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return tmp_path


def left(home: Path) -> set[str]:
    """The programs that were run, and what was written."""
    return {file.name for file in home.iterdir()} - {"canary"}


def ask(readers: Readers, path: str, home: Path, way: str, **given: str) -> Ran:
    """Look for a row, with settings given by `way`."""
    spark, table = readers.spark, f"driver_{next(_names)}"
    given = {name: value.format(home=home) for name, value in given.items()}
    if way == "option":
        return run(readers.jar(path, **given).where("id = 6"))
    if way in ("OPTIONS", "TBLPROPERTIES"):
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        spark.sql(f"CREATE TABLE {table} USING bloomparquet {way} ({listed}) LOCATION '{path}'")
        try:
            return run(spark.table(table).where("id = 6"))
        finally:
            spark.sql(f"DROP TABLE {table}")
    prefix = "spark.datasource.bloomparquet" if way == "session" else "spark.bloomparquet"
    values = {f"{prefix}.{name}": value for name, value in given.items()}
    if way == "SET":
        try:
            for key, value in values.items():
                spark.sql(f"SET {key}={value}")
            return run(readers.jar(path).where("id = 6"))
        finally:
            for name in given.keys() & OPTIONS:
                spark.sql(f"RESET {prefix}.{name}")
    with (application_conf if way == "application" else conf)(spark, values):
        return run(readers.jar(path).where("id = 6"))


INDEX = "option index is 'of'; expected auto, off or a directory with a slash"
ERRORS = [
    *((name, SETTINGS[name], way, "has no option") for name in [*SETTINGS][:3] for way in LOADS),
    *(
        (name, SETTINGS[name], way, "cannot be given for a load, a table or a session; set spark.bloomparquet.cache")
        for name in [*SETTINGS][3:]
        for way in LOADS
    ),
    *((*each, way, "static config|CANNOT_MODIFY") for each in SETTINGS.items() for way in ("SET", "spark.conf.set")),
    *(("keyProvider", "os:abort", way, UNNAMED) for way in LOADS),
    # of settings that are taken
    *(("keyProvider", f"{MODULE}:fails", way, "raised RuntimeError|no module spark_kms") for way in LOADS),
    *(("index", "of", way, INDEX) for way in LOADS[:2]),
    ("cacheMaxBytes", "many", "application", r"cacheMaxBytes is 'many'; expected a size such as 128m or 1g"),
]


@pytest.mark.parametrize(("name", "value", "way", "message"), ERRORS)
def test_settings_of_the_driver_are_errors_elsewhere(
    readers: Readers, four_files: str, home: Path, name: str, value: str, way: str, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        ask(readers, four_files, home, way, **{name: value})
    assert left(home) == set()


@pytest.mark.parametrize("way", ["TBLPROPERTIES", "SET", "spark.conf.set", "application"])
def test_ways_that_have_no_effect(readers: Readers, four_files: str, home: Path, way: str) -> None:
    ran = ask(readers, four_files, home, way, **OPTIONS, **(SETTINGS if way == "TBLPROPERTIES" else {}))
    assert (ran.rows, ran.plan.planned, ran.plan.kept) == (["(6,)"], True, 1)
    assert left(home) == set()


@pytest.mark.parametrize(
    ("name", "way", "files"),
    [
        ("python", "application", {"was-run"}),
        ("pythonPath", "application", set()),
        ("keyProviders", "application", set()),
        ("cacheDirectory", "application", {"cache"}),
        ("planning", "option", set()),
        ("planning", "session", set()),
        ("pushFilters", "OPTIONS", set()),
    ],
)
def test_settings_where_they_may_be_given(
    readers: Readers, four_files: str, home: Path, name: str, way: str, files: set[str]
) -> None:
    ran = ask(readers, four_files, home, way, **{name: (SETTINGS | OPTIONS)[name]})
    assert (ran.rows, ran.plan.planned) == (["(6,)"], way == "application")
    assert left(home) == files
    assert [file.name for file in home.glob("cache/*")] == ["bloomparquet-cache"] * (name == "cacheDirectory")


def test_only_a_named_key_provider_is_called(readers: Readers, four_files: str) -> None:
    ship(readers.spark)
    with application_conf(readers.spark, {"spark.bloomparquet.keyProviders": f" a:b , {MODULE}:every_key,"}):
        with pytest.raises(Exception, match=f"keyProvider is '{MODULE}:fails'; {UNNAMED} .found: a:b, {MODULE}:every"):
            readers.jar(four_files, keyProvider=f"{MODULE}:fails")
        assert texts(readers.jar(four_files, keyProvider=f"{MODULE}:every_key").where("id >= 80").collect()) == []
    with pytest.raises(Exception, match="keyProvider is not of the form module:function") as raised:
        readers.jar(four_files, keyProvider="0123456789abcdef")
    assert "0123456789abcdef" not in str(raised.value)


def test_attach_sets_its_python_without_sql(jar_spark: SparkSession) -> None:
    settings: Any = jar_spark.sparkContext._jsc.sc().getConf()  # type: ignore[union-attr]
    assert settings.get("spark.bloomparquet.python") == sys.executable
    assert jar_spark.conf.get("spark.bloomparquet.python", None) is None
