"""Kills and stops processes of a run at random, by a seed."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from dataclasses import dataclass, field

from tests.soak.processes import EXECUTOR, PLANNER, PYTHON_WORKER, WORKER, running

_ACTIONS = (
    ("kill executor", EXECUTOR, signal.SIGKILL, 3),
    ("kill worker", WORKER, signal.SIGKILL, 1),
    ("kill planner", PLANNER, signal.SIGKILL, 3),
    ("stop planner", PLANNER, signal.SIGSTOP, 2),
    ("kill Python worker", PYTHON_WORKER, signal.SIGKILL, 1),
)


@dataclass
class Killer:
    mark: str
    random: random.Random
    done: Counter[str] = field(default_factory=Counter)

    def strike(self) -> str | None:
        """Kill or stop one process. Returns what it did; None if there was no process of the chosen role."""
        ((name, role, how, _),) = self.random.choices(_ACTIONS, [weight for *_, weight in _ACTIONS])
        targets = [process for process in running(self.mark) if process.role == role]
        if not targets:
            return None
        try:
            os.kill(self.random.choice(targets).pid, how)
        except ProcessLookupError:
            return None
        self.done[name] += 1
        return name
