"""Imports point one way, and the core needs no Spark."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bloomparquet

ROOT = Path(bloomparquet.__file__).parent
LEAVES = {
    "errors": set[str](),
    "literals": {"errors"},
    "sbbf": {"errors"},
    "hashing": {"errors"},
    "predicate": {"errors", "literals"},
}


def _imported(file: Path) -> set[str]:
    """The modules of this package that a file imports, at its top or within functions, without the package's name."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = (
                [node.module or ""]
                if node.module != "bloomparquet"
                else [f"bloomparquet.{alias.name}" for alias in node.names]
            )
        found |= {
            name for name in names if name.split(".")[0] in ("bloomparquet", "pyspark_bloomparquet", "pyspark", "py4j")
        }
    return {name.removeprefix("bloomparquet.") for name in found}


FILES = {str(file.relative_to(ROOT).with_suffix("")).replace("/", "."): file for file in ROOT.rglob("*.py")}


def test_the_core_imports_without_spark_and_without_orc() -> None:
    code = (
        "import sys\n"
        "for name in ('pyspark', 'py4j'): sys.modules[name] = None\n"
        "import bloomparquet, bloomparquet.cli.main, bloomparquet.cli.render, bloomparquet.reading.scan\n"
        "assert not [name for name in sys.modules if name.startswith('pyspark_bloomparquet')]\n"
        "assert not [name for name in sys.modules if name.startswith('bloomparquet.orc')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_the_core_imports_the_face_or_spark(name: str) -> None:
    assert not {
        found for found in _imported(FILES[name]) if found.split(".")[0] in ("pyspark", "py4j", "pyspark_bloomparquet")
    }


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_at_the_bottom_imports_only_what_is_below_it(name: str) -> None:
    assert _imported(FILES[name]) <= LEAVES[name]


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("format.")])
def test_bytes_know_nothing_of_values_and_predicates(name: str) -> None:
    assert {found.split(".")[0] for found in _imported(FILES[name])} <= {"errors", "names", "keys", "storage", "format"}


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("orc.")])
def test_orc_knows_nothing_of_predicates_and_plans(name: str) -> None:
    below = {"errors", "names", "literals", "storage", "orc", "encoding", "format"}
    assert {found.split(".")[0] for found in _imported(FILES[name])} <= below


def test_storage_knows_nothing_of_parquet() -> None:
    assert _imported(FILES["storage"]) <= {"errors", "keys"}


def test_encoding_knows_nothing_of_pruning_and_of_storage() -> None:
    assert {found.split(".")[0] for found in _imported(FILES["encoding"])} <= {
        "errors",
        "literals",
        "hashing",
        "format",
    }


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("pruning.")])
def test_pruning_knows_nothing_of_reading_rows(name: str) -> None:
    assert not {found.split(".")[0] for found in _imported(FILES[name])} & {"scan", "cli", "report", "inspection"}


def test_every_public_name_is_there_and_documented() -> None:
    for name in bloomparquet.__all__:
        assert getattr(bloomparquet, name).__doc__, name
