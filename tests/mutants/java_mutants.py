"""Mutants, written by hand, of the jar's translation of predicates. Each would skip a row group with a matching row, or
keep one that it should skip.

For each, a copy of the project gets the change, its jar is compiled, and the tests that judge it run on that jar.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutants.python_mutants import ROOT, copy_project

_PLANNER = "jvm-shim/src/main/java/io/bloomparquet/spark/planner/"
_ANY = "tests/jar/test_any_predicate.py"
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
    JavaMutant("PlannerPredicate", 'join("or", List.of(predicate.children()), positive, !positive)',
               'join("or", List.of(predicate.children()), positive, positive)', _UNUSUAL),
    JavaMutant("PlannerPredicate", 'join("and", List.of(predicate.children()), positive, positive)',
               'join("and", List.of(predicate.children()), positive, true)', _UNUSUAL),
    JavaMutant("PlannerPredicate", 'children(or.left(), or.right()), false)',
               'children(or.left(), or.right()), true)', _ANY),
    JavaMutant("PlannerPredicate", "of(child, !positive) : null)", "of(child, positive) : null)", _UNUSUAL),
    JavaMutant("PlannerPredicate", 'return not(leaf("=", children));', 'return leaf("=", children);', _UNUSUAL),
    JavaMutant("PlannerPredicate", 'return leaf("is null", children);', "return leaf(IS_NOT_NULL, children);", _ANY),
    JavaMutant("PlannerPredicate", "if (parts.contains(null) && !mayDrop) {", "if (parts.contains(null) && mayDrop) {",
               _ANY),
    JavaMutant("PlannerPredicate", "values.add(value);", "if (i < 3) values.add(value);", _ANY),
    JavaMutant("PlannerPredicate", "part.get(word).forEach(children::add);", "children.add(part.get(word).get(0));",
               _ANY),
    # lower and upper.
    JavaMutant("PlannerPredicate", 'Map.of("LOWER", "lower", "UPPER", "upper")',
               'Map.of("LOWER", "upper", "UPPER", "lower")', _CASE),
    JavaMutant("PlannerPredicate", 'node.put("case", CASES.get(function.name()));', "", _CASE),
    JavaMutant("PlannerPredicate", "!type.equals(DataTypes.StringType) || !EQUALITIES", "!EQUALITIES", _UNUSUAL),
    # Columns whose files hold other values than Spark reads.
    JavaMutant("PlannerPredicate", "Stream.of(EXISTENCE_DEFAULT, CHAR_VARCHAR,", "Stream.of(CHAR_VARCHAR,",
               f"{_ELEMENTS}::test_a_default_is_not_null_in_older_files"),
    JavaMutant("PlannerPredicate", "Stream.of(EXISTENCE_DEFAULT, CHAR_VARCHAR,", "Stream.of(EXISTENCE_DEFAULT,",
               _UNUSUAL),
    # Elements.
    JavaMutant("PlannerPredicate", '"<", ">", "<=", ">=", ">", "<", ">=", "<=")',
               '"<", "<", "<=", "<=", ">", ">", ">=", ">=")', _CASTS),
    JavaMutant("CatalystPredicate", 'if (!isEquality || (op.equals("<=>") && values.values.contains(null))) {',
               "if (!isEquality) {", _UNUSUAL),
    JavaMutant("CatalystPredicate", 'if (!isEquality || (op.equals("<=>") && values.values.contains(null))) {',
               'if (op.equals("<=>") && values.values.contains(null)) {', _ELEMENTS),
    JavaMutant("CatalystPredicate", "literal(value.key()))", "null)", _ELEMENTS),
    JavaMutant("CatalystPredicate", " && at.defaultValueOutOfBound().isEmpty()", "", _UNUSUAL),
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


def run_java(folder: Path, mutants: Sequence[JavaMutant] = MUTANTS) -> Iterator[tuple[JavaMutant, bool]]:
    """Each mutant, and whether a test failed on it. Raises RuntimeError if a test fails on the unchanged copy."""
    copy_project(folder, {"python": "python", "tests": "tests", "jvm-shim": "jvm-shim"})
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    if _fails(folder, *dict.fromkeys(mutant.tests for mutant in mutants)):
        raise RuntimeError(f"a test fails without a mutant; run them in {folder}")
    for mutant in mutants:
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
