"""The lists of mutants and of explained survivors fit the sources as they are."""

from __future__ import annotations

import re

import pytest

from tests.mutants.java_mutants import MUTANTS, JavaMutant
from tests.mutants.python_mutants import ROOT, Change
from tests.mutants.survivors import EXPLAINED
from tests.mutants.survivors.explanation import Explained
from tests.mutants.targets import TARGETS


@pytest.mark.parametrize("path", TARGETS)
def test_files_and_their_tests_exist(path: str) -> None:
    assert (ROOT / path).is_file()
    for test in TARGETS[path]:
        _assert_exists(test)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.name}: {mutant.old}"[:60])
def test_a_java_mutant_changes_one_place(mutant: JavaMutant) -> None:
    assert (ROOT / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    _assert_exists(mutant.tests)


def _assert_exists(test: str) -> None:
    """`test` is a file, or a function in it after `::`."""
    file, _, name = test.partition("::")
    assert f"def {name}" in (ROOT / file).read_text()


@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda explained: f"{explained.function}: {explained.old}"[:60])
def test_an_explained_survivor_is_in_its_file(explained: Explained) -> None:
    assert explained.path in TARGETS
    assert explained.why
    assert explained.new
    assert explained.old not in explained.new
    text = (ROOT / explained.path).read_text()
    owner, _, name = explained.function.rpartition(".")
    _, found, body = text[text.index(f"class {owner}") if owner else 0 :].partition(f"def {name}(")
    assert found
    assert any(line.count(explained.old) == 1 for line in re.split(r"\n {0,4}def ", body)[0].splitlines())


def test_only_the_explained_change_is_excused() -> None:
    one = Explained("", "f", "n + 1", ("n - 1",), "")
    assert one.explains(Change("f", "return n + 1", "return n - 1"))
    assert not one.explains(Change("g", "return n + 1", "return n - 1"))
    assert not one.explains(Change("f", "return n + 1", "return n + 2"))
    assert not one.explains(Change("f", "return n + 1 or n + 1", "return n - 1 or n - 1"))
