"""The jar's packages import downwards only, and few classes know what differs between versions of Spark."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "jvm-shim" / "src" / "main" / "java"
ROOT = "io.bloomparquet.spark"
MAY_USE = {
    "": {"plain", "write", "load", "planner", "files", "support"},
    "plain": {"tables", "write", "partitions", "planner", "files", "support"},
    "tables": {"planner", "files", "support"},
    "write": {"filters", "files", "support"},
    "load": {"write", "planner", "files", "support"},
    "partitions": {"planner", "files", "support"},
    "planner": {"files", "support"},
    "filters": {"support"},
    "files": {"support"},
    "support": set[str](),
}
FILES = sorted(SOURCES.rglob("*.java"))
# What a Spark 4 or a Scala 2.13 lacks or has with other arguments, or Spark 3.5 and Scala 2.12 do.
OF_SOME_VERSIONS = {
    "sql.classic", "injectHintResolutionRule",
    "ListingPartition", "filePartitionIterator", "FilePartition$.MODULE$.maxSplitBytes", "makeCopy",
    "EmptyRelation", "EmptyRelationExec",
    "getBroadcastBuildSide", "DynamicPruningSubquery.class",
    "VariantType", "VariantGet", "supportsBinaryEquality",
    "SerializableConfiguration.class", "jdk.javaapi",
}  # fmt: skip
PORTED = {"SparkVersions", "VariantField", "Scala"}


def package(file: Path) -> str:
    declared = re.search(r"^package ([\w.]+);$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert declared, file
    assert declared[1] == ".".join(file.parent.relative_to(SOURCES).parts), file
    return declared[1].removeprefix(ROOT).removeprefix(".")


def test_the_table_has_no_circle() -> None:
    TopologicalSorter(MAY_USE).prepare()


def test_every_package_says_what_it_owns() -> None:
    assert {package(file) for file in FILES} == set(MAY_USE)
    assert {package(file) for file in FILES if file.name == "package-info.java"} == set(MAY_USE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_class_uses_only_packages_below_its_own(file: Path) -> None:
    own = package(file)
    # Also fully qualified names in the code, which need no import.
    used = re.findall(rf"{re.escape(ROOT)}((?:\.[a-z]\w*)*)\.[A-Z]", file.read_text(encoding="utf-8"))
    assert {name.removeprefix(".") for name in used} - {own} <= MAY_USE[own]


def test_what_differs_between_versions_of_spark_is_in_three_classes() -> None:
    users = {
        name: {file.stem for file in FILES if re.search(rf"\b{re.escape(name)}\b", file.read_text(encoding="utf-8"))}
        for name in OF_SOME_VERSIONS
    }
    assert {name: stems - PORTED for name, stems in users.items() if not stems & PORTED or stems - PORTED} == {}
