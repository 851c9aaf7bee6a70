"""Mutants of Python files, made and run by mutmut on a copy of the project.

mutmut compiles all mutants of a file into one module and forks a process for each, in which pyarrow and the tests are
already imported. So a mutant costs the time of its tests, not of a Python start. Of the tests that a file names, it
runs those that reach the mutated function, and stops at the first failure.

mutmut leaves out decorated functions, such as properties, and code outside functions.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_SURVIVED = (0, 5, 33)  # exit codes of mutmut: the tests passed, none was collected, none reaches the function
_NOT_RUN = (None, 2)  # not yet, or interrupted


class Change(NamedTuple):
    """The change of one mutant. `old` and `new` are the changed lines without their indentation."""

    function: str
    old: str
    new: str


class Outcome(NamedTuple):
    killed: int
    survivors: list[Change]
    not_run: int


def run(path: str, tests: Sequence[str], folder: Path, processes: int, names: Sequence[str]) -> Outcome:
    """Run the mutants of the file `path` in a copy under `folder`.

    A second run in the same folder goes on: mutants that were killed count as killed while their function is the same,
    and survivors run again. `names`: patterns of mutmut's names, such as ``*7`` for a tenth of the mutants; all by
    default.
    """
    _copy(path, tests, folder)
    _forget_survivors(folder, path)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for variable, name in (("PARQUET_TESTING_DIR", "parquet-testing"), ("ORC_EXAMPLES_DIR", "orc-examples")):
        environment.setdefault(variable, str(ROOT.parent / "shared" / "data" / name))
    mutmut = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(processes), *names]
    with (folder / "log.txt").open("w") as log:
        subprocess.run(mutmut, cwd=folder, env=environment, stdout=log, stderr=log, check=True)
    return read_outcome(folder, path)


def _copy(path: str, tests: Sequence[str], folder: Path) -> None:
    """Copy the project as mutmut expects it: the packages in src/."""
    copy_project(folder, {"python": "src", "tests": "tests"})
    mutated = folder / _in_copy(path)
    mutated.write_text(_without_raise(mutated.read_text()))
    settings = {
        "source_paths": ["src"],
        "only_mutate": [_in_copy(path)],
        "pytest_add_cli_args_test_selection": list(tests),
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "tests.mutants.quick"],
        "timeout_constant": 4.0,
        "timeout_multiplier": 4.0,
        "use_git_change_detection": False,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]))


def _forget_survivors(folder: Path, path: str) -> None:
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)  # the tests may be new
    file = _results(folder, path)
    if file.exists():
        results = json.loads(file.read_text())
        codes = results["exit_code_by_key"]
        codes.update((name, None) for name, code in codes.items() if code in _SURVIVED)
        file.write_text(json.dumps(results))


def _results(folder: Path, path: str) -> Path:
    return folder / "mutants" / f"{_in_copy(path)}.meta"


def copy_project(folder: Path, folders: Mapping[str, str]) -> None:
    """Copy the `folders` of the project to `folder`, under the names that they are mapped to."""
    for name, copy in folders.items():
        shutil.rmtree(folder / copy, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / copy, ignore=shutil.ignore_patterns("__pycache__", "jars"))


def _in_copy(path: str) -> str:
    return path.replace("python/", "src/", 1)


def _without_raise(text: str) -> str:
    """Mark `raise` statements for mutmut to leave alone: what an error says decides about no row group."""
    lines = text.splitlines(keepends=True)
    spans = {(node.lineno, node.end_lineno) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Raise)}
    for first, last in sorted(spans, reverse=True):
        indent = re.match(r" *", lines[first - 1])[0]
        lines.insert(last, f"{indent}# pragma: no mutate end\n")
        lines.insert(first - 1, f"{indent}# pragma: no mutate start\n")
    return "".join(lines)


def read_outcome(folder: Path, path: str) -> Outcome:
    codes = json.loads(_results(folder, path).read_text())["exit_code_by_key"]
    changes = dict(_changes((folder / "mutants" / _in_copy(path)).read_text()))
    survivors = [changes[name.rpartition(".")[2]] for name, code in codes.items() if code in _SURVIVED]
    not_run = sum(code in _NOT_RUN for code in codes.values())
    return Outcome(len(codes) - len(survivors) - not_run, survivors, not_run)


def _changes(text: str) -> Iterator[tuple[str, Change]]:
    """The change of each mutant, by its name, in mutmut's module of all mutants."""
    lines = text.splitlines()
    functions = {
        node.name: [line.strip() for line in lines[node.lineno : node.end_lineno]]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }
    for name, body in functions.items():
        function = name.rpartition("__mutmut_")[0]
        if name.endswith("_orig"):
            continue
        old, new = [], []
        for line in difflib.ndiff(functions[f"{function}__mutmut_orig"], body):
            if line.startswith("- "):
                old.append(line[2:])
            elif line.startswith("+ "):
                new.append(line[2:])
        yield name, Change(re.sub("^x_?", "", function).replace("ǁ", ".").strip("."), "\n".join(old), "\n".join(new))
