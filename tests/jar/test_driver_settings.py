"""Settings that decide which code the driver runs, or which files it deletes, come from the SparkConf only.

`TABLE` says for each setting and each way to give it whether it takes effect.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support import files
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
OPTIONS = ("planning", "cache", "index", "onFilterError", "pushFilters", "keyProvider", "unnamed keyProvider")
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


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files of one row group each. Only filters can tell them apart."""
    root = tmp_path_factory.mktemp("driver")
    for i in range(4):
        files.write(root / f"{i}.parquet", {"id": [i + 4 * (row * 7 % 20) for row in range(20)]}, ["id"], fpp=1e-4)
    return str(root)


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
        "cache": "perhaps",
        "index": "of",
        "onFilterError": "perhaps",
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
    "cache": "option cache is 'perhaps'; expected true or false",
    "onFilterError": "option onFilterError is 'perhaps'; expected keep or fail",
    "keyProvider": "raised RuntimeError|no module spark_kms",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TABLE)
def test_driver_settings_come_from_the_application_only(
    readers: Readers, path: str, canary: Path, tmp_path: Path, name: str, way: str
) -> None:
    expected = TABLE[name][way]
    key, value = value_of(name, canary)
    before = set(tmp_path.iterdir())
    if expected not in (TAKEN, NOTHING):
        with pytest.raises(Exception, match=expected):
            ask(readers, path, way, key, value)
    elif expected == TAKEN and name in EFFECTS:
        with pytest.raises(Exception, match=EFFECTS[name]):
            ask(readers, path, way, key, value)
    else:
        ran = ask(readers, path, way, key, value)
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


def test_only_a_named_key_provider_is_called(readers: Readers, path: str) -> None:
    ship(readers.spark)
    with application_conf(readers.spark, {"spark.bloomparquet.keyProviders": f" a:b , {MODULE}:every_key,"}):
        with pytest.raises(Exception, match=f"keyProvider is '{MODULE}:fails'; {UNNAMED} .found: a:b, {MODULE}:every"):
            readers.jar(path, keyProvider=f"{MODULE}:fails")
        assert texts(readers.jar(path, keyProvider=f"{MODULE}:every_key").where("id >= 80").collect()) == []
    with pytest.raises(Exception, match="keyProvider is not of the form module:function") as raised:
        readers.jar(path, keyProvider="0123456789abcdef")
    assert "0123456789abcdef" not in str(raised.value)


def test_sql_cannot_set_the_planners_python(readers: Readers, path: str, canary: Path, tmp_path: Path) -> None:
    pythons = dict.fromkeys(("spark.pyspark.python", "spark.pyspark.driver.python"), str(canary))
    with (
        conf(readers.spark, {"spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false"}),
        conf(readers.spark, pythons),
    ):
        assert run(readers.jar(path).where("id = 6")).plan.kept == 1
    assert not (tmp_path / "was-run").exists()


ADDING = """
import sys
from pathlib import Path
from tests.support.spark import start
from pyspark_bloomparquet import configure, last_plan
from pyspark.sql import SparkSession
path, modules, home = sys.argv[1:]
spark = start(Path(home), **configure(SparkSession.builder)._options)
for module in sorted(Path(modules).iterdir()):
    spark.sql(f"ADD FILE '{module}'")
frame = spark.read.format("bloomparquet").load(path).where("id = 6")
print("FOUND", [tuple(row) for row in frame.collect()], [plan.kept for plan in last_plan(frame)])
spark.stop()
"""


def test_files_added_by_sql_are_not_imported(path: str, tmp_path: Path) -> None:
    """A planner that starts after ADD FILE imports no module from there. Runs in another process, because Spark's own
    Python workers do import them."""
    modules = tmp_path / "modules"
    modules.mkdir()
    for module in ("xxhash", "numpy", "colorsys", "json"):
        (modules / f"{module}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nraise SystemExit\n")
    root = Path(__file__).resolve().parents[2]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "python")])}
    command = [sys.executable, "-c", ADDING, path, str(modules), str(tmp_path / "home")]
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=False, timeout=300)
    assert "FOUND [(6,)] [1]" in done.stdout, done.stdout + done.stderr[-3000:]
    assert not (tmp_path / "imported").exists()


def test_attach_sets_its_python_without_sql(jar_spark: SparkSession) -> None:
    settings: Any = jar_spark.sparkContext._jsc.sc().getConf()  # type: ignore[union-attr]
    assert settings.get("spark.bloomparquet.python") == sys.executable
    assert jar_spark.conf.get("spark.bloomparquet.python", None) is None
