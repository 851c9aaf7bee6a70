"""The lists of mutants and of explained survivors fit the sources as they are."""

from __future__ import annotations

import pytest

from tests.mutants.java_mutants import MUTANTS, JavaMutant
from tests.mutants.python_mutants import ROOT, lines_of
from tests.mutants.survivors import EXPLAINED, Explained
from tests.mutants.targets import TARGETS


@pytest.mark.parametrize("path", TARGETS)
def test_files_and_their_tests_exist(path: str) -> None:
    assert (ROOT / path).is_file()
    for test in TARGETS[path]:
        assert (ROOT / test).is_file()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.name}: {mutant.old}"[:60])
def test_a_java_mutant_changes_one_place(mutant: JavaMutant) -> None:
    assert (ROOT / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    file, _, name = mutant.tests.partition("::")
    assert f"def {name}" in (ROOT / file).read_text()


@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda explained: explained.why[:60])
def test_an_explained_survivor_is_in_its_file(explained: Explained) -> None:
    assert explained.path in TARGETS
    assert explained.why
    text = lines_of((ROOT / explained.path).read_text())
    for change in explained.changes:
        assert f"def {change.function.rpartition('.')[2]}(" in text
        assert f"\n{change.old}\n" in text
        assert change.old != change.new
