"""Counts the entries of the drivers' journals: operations by kind, errors by name, wrong rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.soak.errors import UNEXPLAINED, name_of

GRACE_SECONDS = 60
"""So long after the last kill, an error may still come from it."""


@dataclass
class Journal:
    """The lines of all drivers so far."""

    paths: list[Path]
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind of operation and name of the error."""
    wrong: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    _read: dict[Path, int] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        return sum(map(len, self.seconds.values()))

    def read(self, calm_since: float | None) -> None:
        """Read the new lines. `calm_since` is the time of the last kill, once nothing is killed any more."""
        for path in self.paths:
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                self._count(json.loads(line), calm_since)

    def _count(self, line: dict[str, Any], calm_since: float | None) -> None:
        if "kind" not in line:
            return
        kind = line["kind"]
        self.seconds[kind].append(line["seconds"])
        if "wrong" in line:
            self.wrong.append(f"{line['client']}, {kind}: {line['wrong']}")
        if "error" in line:
            calm = calm_since is not None and line["at"] > calm_since + GRACE_SECONDS
            name = name_of(kind, line["error"], calm=calm)
            self.errors[kind, name] += 1
            if name == UNEXPLAINED:
                self.unexplained.append(f"{line['client']}, {kind}: {line['error'][:3000]}")

    def report(self, minutes: float) -> list[str]:
        lines = [f"{'operation':24} {'count':>7} {'a minute':>9} {'median s':>9} {'longest s':>10}"]
        for kind, seconds in sorted(self.seconds.items()):
            lines.append(
                f"{kind:24} {len(seconds):7} {len(seconds) / minutes:9.1f} {median(seconds):9.2f} {max(seconds):10.1f}"
            )
        lines.append(f"{'all':24} {self.operations:7} {self.operations / minutes:9.1f}")
        lines += [f"error: {kind}: {name}: {count}" for (kind, name), count in sorted(self.errors.items())]
        return lines
