"""``python -m tests.mutants``: run the mutants, and list those that survive. Fails if they are more than are known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.mutants.java_mutants import run_java
from tests.mutants.python_mutants import ROOT, Outcome, run
from tests.mutants.targets import CORE, SURVIVORS, TARGETS

_CONSOLE = Console(soft_wrap=True, highlight=False, markup=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help="parts of the paths of files, or `java`; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where the copies are")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--names", nargs="*", default=[], help="patterns of mutmut's names: '*7' is a tenth of them")
    arguments = parser.parse_args()
    table = Table("file", "mutants", "killed", "left", "known", "not run")
    folder: Path = arguments.folder
    missed = False
    for path, tests in TARGETS.items():
        if not arguments.files or any(part in path for part in arguments.files):
            outcome = run(path, tests, folder / path.replace("/", "."), arguments.processes, arguments.names)
            missed |= _report(path, outcome, table)
    if not arguments.files or "java" in arguments.files:
        missed |= _report_java(folder / "java", table)
    _CONSOLE.print(table)
    return int(missed)


def _report(path: str, outcome: Outcome, table: Table) -> bool:
    """Add the figures of a file, and list the survivors. Whether they are more than are known."""
    left, known = len(outcome.survivors), SURVIVORS.get(path, 0)
    figures = (outcome.killed + outcome.not_run + left, outcome.killed, left, known, outcome.not_run)
    table.add_row(path.removeprefix(CORE), *map(str, figures))
    _CONSOLE.print(path, *figures)
    for change in outcome.survivors:
        old, new = (text.replace("\n", "\n      ") for text in (change.old, change.new))
        _CONSOLE.print(f"  {change.function}\n    - {old}\n    + {new}")
    return left > known


def _report_java(folder: Path, table: Table) -> bool:
    killed = left = 0
    for mutant, is_killed in run_java(folder):
        killed, left = killed + is_killed, left + (not is_killed)
        _CONSOLE.print(f"{'killed' if is_killed else 'left'}: {mutant.name}: {mutant.old} -> {mutant.new}")
    table.add_row("the jar", *map(str, (killed + left, killed, left, 0, 0)))
    return left > 0


if __name__ == "__main__":
    sys.exit(main())
