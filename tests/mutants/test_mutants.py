"""The lists of mutants and of survivors fit the sources as they are."""

from __future__ import annotations

import pytest

from tests.mutants.java_mutants import MUTANTS, JavaMutant
from tests.mutants.python_mutants import ROOT
from tests.mutants.targets import SURVIVORS, TARGETS


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


def test_survivors_are_of_files_whose_mutants_are_run() -> None:
    assert SURVIVORS.keys() <= TARGETS.keys()
    assert all(number > 0 for number in SURVIVORS.values())
