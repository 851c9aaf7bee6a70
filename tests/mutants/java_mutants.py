"""Mutants, written by hand, of the jar's translation of predicates. Each would skip a row group with a matching row, or
keep one that it should skip.

For each, a copy of the project gets the change, its jar is compiled, and the tests that judge it run on that jar.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutants.python_mutants import ROOT, copy_project

_PLANNER = "jvm-shim/src/main/java/io/bloomparquet/spark/planner/"
_CASE = "tests/jar/test_index.py::test_filters_of_changed_case_are_used"
_CASTS = "tests/jar/test_casts.py"
_UNUSUAL = "tests/jar/test_unusual_predicates.py"
_ELEMENTS = "tests/jar/test_elements.py"
_TIMEOUT = 900  # seconds


class JavaMutant(NamedTuple):
    """One mutant: in the class `name`, `old` becomes `new`. `old` is in the file once. `tests` judge the mutant."""

    name: str
    old: str
    new: str
    tests: str

    @property
    def path(self) -> str:
        return f"{_PLANNER}{self.name}.java"


MUTANTS = [
    # A part of OR that cannot be translated, and a part of AND under NOT.
    JavaMutant("PlannerPredicate", 'boolean mayDrop = word.equals("and") == positive;',
               'boolean mayDrop = word.equals("and");', _UNUSUAL),
    JavaMutant("PlannerPredicate", 'boolean mayDrop = word.equals("and") == positive;',
               "boolean mayDrop = true;", _UNUSUAL),
    JavaMutant("PlannerPredicate", "child.weakened(!positive)", "child.weakened(positive)", _UNUSUAL),
    JavaMutant("PlannerPredicate", "same.parts.stream() : Stream.of(each)",
               "same.parts.stream().limit(1) : Stream.of(each)", _UNUSUAL),
    JavaMutant("PredicateTranslator", "PlannerPredicate child = of(not.child(), true);",
               "PlannerPredicate child = of(not.child(), false);", _UNUSUAL),
    JavaMutant("PredicateTranslator", "leaf.column().part() == null", "true", _UNUSUAL),
    JavaMutant("PredicateTranslator", "leaf.column().variant() == null", "true", _UNUSUAL),
    JavaMutant("PredicateTranslator", "!expression.exists(Cast.class::isInstance)", "true", _UNUSUAL),
    JavaMutant("ConditionTranslator", 'nullTest("is null", path(test.child()))',
               "nullTest(Leaf.IS_NOT_NULL, path(test.child()))", _UNUSUAL),
    JavaMutant("ConditionTranslator", "values.values.stream().map(each", "values.values.stream().limit(3).map(each",
               _UNUSUAL),
    # lower and upper.
    JavaMutant("ConditionTranslator", 'expression instanceof Lower ? "lower" : "upper"',
               'expression instanceof Lower ? "upper" : "lower"', _CASE),
    JavaMutant("PlannerPredicate", 'leaf.put("case", function);', "", _CASE),
    JavaMutant("ConditionTranslator", "access.function == null || isEquality ?", "true ?", _UNUSUAL),
    # Columns whose files hold other values than Spark reads.
    JavaMutant("ReaderColumns", "Stream.of(EXISTENCE_DEFAULT, CHAR_VARCHAR,", "Stream.of(CHAR_VARCHAR,",
               f"{_ELEMENTS}::test_a_default_is_not_null_in_older_files"),
    JavaMutant("ReaderColumns", "Stream.of(EXISTENCE_DEFAULT, CHAR_VARCHAR,", "Stream.of(EXISTENCE_DEFAULT,",
               _UNUSUAL),
    # Elements.
    JavaMutant("ConditionTranslator", '"<", ">", "<=", ">=", ">", "<", ">=", "<=")',
               '"<", "<", "<=", "<=", ">", ">", ">=", ">=")', _CASTS),
    JavaMutant("ConditionTranslator", 'if (!isEquality || (op.equals("<=>") && values.values.contains(null))) {',
               "if (!isEquality) {", _UNUSUAL),
    JavaMutant("ConditionTranslator", 'if (!isEquality || (op.equals("<=>") && values.values.contains(null))) {',
               'if (op.equals("<=>") && values.values.contains(null)) {', _ELEMENTS),
    JavaMutant("ConditionTranslator", "literal(value.key()))", "null)", _ELEMENTS),
    JavaMutant("ConditionTranslator", " && at.defaultValueOutOfBound().isEmpty()", "", _UNUSUAL),
    # Casts.
    JavaMutant("CastComparison", 'if (op.equals("<=>") && values.contains(null)) {', "if (false) {", _UNUSUAL),
    JavaMutant("CastComparison", "private static final int ULPS = 4;", "private static final int ULPS = 0;", _CASTS),
    JavaMutant("CastComparison", "before.scale() <= decimal.scale()", "before.scale() >= decimal.scale()", _CASTS),
    JavaMutant("CastComparison", " && cast.evalMode() != EvalMode.LEGACY()", "", _CASTS),
    JavaMutant("CastComparison", 'isUpper ? bound("<=", last) : bound(">=", first)',
               'isUpper ? bound("<=", first) : bound(">=", last)', _CASTS),
    JavaMutant("CastComparison", "} else if (isDate || text.toString().length() > 18) {",
               "} else if (text.toString().length() > 18) {", _CASTS),
    JavaMutant("CastComparison", "isFloat ? Math.ulp((float) number) : Math.ulp(number)", "Math.ulp(number)", _CASTS),
]  # fmt: skip


def run_java(folder: Path) -> Iterator[tuple[JavaMutant, bool]]:
    """Each mutant, and whether a test failed on it. Raises RuntimeError if a test fails on the unchanged copy."""
    copy_project(folder, {"python": "python", "tests": "tests", "jvm-shim": "jvm-shim"})
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    if _fails(folder, *dict.fromkeys(mutant.tests for mutant in MUTANTS)):
        raise RuntimeError(f"a test fails without a mutant; run them in {folder}")
    for mutant in MUTANTS:
        file = folder / mutant.path
        text = file.read_text()
        file.write_text(text.replace(mutant.old, mutant.new))
        yield mutant, _fails(folder, mutant.tests)
        file.write_text(text)


def _fails(folder: Path, *tests: str) -> bool:
    """Compile the jar and run `tests`. RuntimeError if they cannot run."""
    try:
        for command in (["jvm-shim/build.py"], ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]):
            ended = _run(folder, *command)
            if ended.returncode and (ended.returncode != 1 or "pytest" not in command):
                raise RuntimeError(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode == 1


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    options = {"cwd": folder, "env": environment, "timeout": _TIMEOUT, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *command], check=False, **options)  # type: ignore[call-overload,no-any-return]
