"""Settings that decide which code the driver runs, or which files it deletes, come from the SparkConf only.

`TABLE` says for each setting and each way to give it whether it takes effect.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.scenarios import Readers, run, texts
from tests.support.spark import application_conf, conf
from tests.support.spark_kms import MODULE, ship

pytestmark = pytest.mark.slow

STATIC = "static config|CANNOT_MODIFY"
UNKNOWN = "has no option"
OF_THE_DRIVER = "cannot be given for a load, a table or a session; set spark.bloomparquet.cache"
UNNAMED = r"expected one of the functions that spark\.bloomparquet\.keyProviders names"
TAKEN, NOTHING = "taken", "no effect"

SETTINGS = ("python", "pythonPath", "keyProviders", "cacheDirectory", "cacheMaxBytes")
HARMLESS = ("planning", "index", "pushFilters")
OPTIONS = (*HARMLESS, "keyProvider", "unnamed keyProvider")
WAYS = ("option", "OPTIONS", "TBLPROPERTIES", "session", "SET", "spark.conf.set", "application")
TABLE: dict[str, dict[str, str]] = {
    **{
        name: {
            **dict.fromkeys(("option", "OPTIONS", "session"), UNKNOWN if name[:5] != "cache" else OF_THE_DRIVER),
            "TBLPROPERTIES": NOTHING,
            **dict.fromkeys(("SET", "spark.conf.set"), STATIC),
            "application": TAKEN,
        }
        for name in SETTINGS
    },
    **{
        name: {
            **dict.fromkeys(("option", "OPTIONS", "session"), TAKEN),
            **dict.fromkeys(("TBLPROPERTIES", "SET", "spark.conf.set", "application"), NOTHING),
        }
        for name in OPTIONS
    },
    "unnamed keyProvider": {
        **dict.fromkeys(("option", "OPTIONS", "session"), UNNAMED),
        **dict.fromkeys(("TBLPROPERTIES", "SET", "spark.conf.set", "application"), NOTHING),
    },
}
_names = itertools.count()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A program that creates a file when it runs."""
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/was-run"\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return program


def value_of(name: str, canary: Path) -> tuple[str, str]:
    """The name that users give, and a value with a visible effect."""
    values = {
        "python": str(canary),
        "pythonPath": str(canary.parent),
        "keyProviders": "os:abort",
        "cacheDirectory": str(canary.parent / "cache"),
        "cacheMaxBytes": "many",
        "planning": "off",
        "index": "of",
        "pushFilters": "off",
        "keyProvider": f"{MODULE}:fails",
        "unnamed keyProvider": "os:abort",
    }
    return name.removeprefix("unnamed "), values[name]


def ask(readers: Readers, path: str, way: str, name: str, value: str) -> Any:
    """Look for a row, with a setting given by `way`."""
    spark, table = readers.spark, f"driver_{next(_names)}"
    if way == "option":
        return run(readers.jar(path, **{name: value}).where("id = 6"))
    if way in ("OPTIONS", "TBLPROPERTIES"):
        spark.sql(f"CREATE TABLE {table} USING bloomparquet {way} ('{name}' = '{value}') LOCATION '{path}'")
        try:
            return run(spark.table(table).where("id = 6"))
        finally:
            spark.sql(f"DROP TABLE {table}")
    if way == "SET":
        try:
            spark.sql(f"SET spark.bloomparquet.{name}={value}")
            return run(readers.jar(path).where("id = 6"))
        finally:
            spark.sql(f"RESET spark.bloomparquet.{name}") if name in OPTIONS else None
    settings: dict[str, tuple[Callable[..., Any], str]] = {
        "session": (conf, f"spark.datasource.bloomparquet.{name}"),
        "spark.conf.set": (conf, f"spark.bloomparquet.{name}"),
        "application": (application_conf, f"spark.bloomparquet.{name}"),
    }
    given, key = settings[way]
    with given(spark, {key: value}):
        return run(readers.jar(path).where("id = 6"))


EFFECTS = {
    "cacheMaxBytes": r"spark\.bloomparquet\.cacheMaxBytes is 'many'; expected a size such as 128m or 1g",
    "index": "option index is 'of'; expected auto, off or a directory with a slash",
    "keyProvider": "raised RuntimeError|no module spark_kms",
}


# Options that run no code and name no file are given in the same ways: each way meets one of them.
CASES = [(name, way) for name in TABLE if name not in HARMLESS for way in WAYS]
CASES += zip(itertools.cycle(HARMLESS), [*WAYS, "option", "OPTIONS", "session"])


@pytest.mark.parametrize(("name", "way"), CASES)
def test_driver_settings_come_from_the_application_only(
    readers: Readers, four_files: str, canary: Path, tmp_path: Path, name: str, way: str
) -> None:
    expected = TABLE[name][way]
    key, value = value_of(name, canary)
    before = set(tmp_path.iterdir())
    if expected not in (TAKEN, NOTHING):
        with pytest.raises(Exception, match=expected):
            ask(readers, four_files, way, key, value)
    elif expected == TAKEN and name in EFFECTS:
        with pytest.raises(Exception, match=EFFECTS[name]):
            ask(readers, four_files, way, key, value)
    else:
        ran = ask(readers, four_files, way, key, value)
        assert ran.rows == ["(6,)"]
        if expected == NOTHING:
            assert (ran.plan.planned, ran.plan.kept) == (True, 1)
        elif name in ("planning", "pushFilters"):
            assert not ran.plan.planned
    left = {file.name for file in set(tmp_path.iterdir()) - before}
    if expected == TAKEN and name in ("python", "cacheDirectory"):
        assert left == {"python": {"was-run"}, "cacheDirectory": {"cache"}}[name]
        if name == "cacheDirectory":
            assert [file.name for file in (tmp_path / "cache").iterdir()] == ["bloomparquet-cache"]
    else:
        assert left == set(), "no program was run, and nothing was written"


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
