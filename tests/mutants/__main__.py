"""``python -m tests.mutants``: run the mutants, and list those that survive without an explanation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.mutants.python_mutants import ROOT, Change, Outcome, run
from tests.mutants.survivors import EXPLAINED
from tests.mutants.targets import TARGETS

_AIM = 0.95  # of the mutants of a file, apart from the explained ones


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help="files or parts of their paths; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where the copies are")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    table = Table("file", "mutants", "killed", "explained", "left")
    failed = False
    for path, tests in TARGETS.items():
        if arguments.files and not any(part in path for part in arguments.files):
            continue
        outcome = run(path, tests, arguments.folder / path.replace("/", "."), arguments.processes)
        left = [each for each in outcome.survivors if each not in _explained(path)]
        failed |= _fails(outcome, left)
        total = outcome.killed + outcome.not_run + len(outcome.survivors)
        figures = (total, outcome.killed, len(outcome.survivors) - len(left), len(left) + outcome.not_run)
        table.add_row(path, *map(str, figures))
        console.print(path, *figures)
        for change in left:
            console.print(f"  {change.function}\n    - {change.old}\n    + {change.new}", markup=False)
    console.print(table)
    return int(failed)


def _explained(path: str) -> set[Change]:
    return {change for each in EXPLAINED.get(path, ()) for change in each.changes}


def _fails(outcome: Outcome, left: list[Change]) -> bool:
    return outcome.killed < _AIM * (outcome.killed + len(left) + outcome.not_run)


if __name__ == "__main__":
    sys.exit(main())
