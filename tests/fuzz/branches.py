"""Which branches an execution reached, for libFuzzer.

atheris reports every branch when it is taken. That takes five times as long as to remember it, and few executions reach
a branch that none reached before. The others are not reported, but for one of `_SAMPLE`: it is reported as atheris does
it, so that libFuzzer also learns how often the branches of an input are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SAMPLE = 16


class Branches:
    """Takes the place of `atheris._trace_branch`, which instrumented code looks up at each branch. The first `complete`
    executions are all reported: those of the inputs of earlier runs."""

    def __init__(self, atheris: Any, complete: int) -> None:
        self._atheris = atheris
        self._report: Callable[[int], None] | None = None
        self._reached: set[int] = set()
        self._known: set[int] = set()
        self._complete = complete
        self._executions = 0

    def trace(self, function: Callable[[], object]) -> None:
        """Call `function` and report."""
        self._report = report = self._report or self._atheris._trace_branch  # `atheris.Fuzz` sets it
        self._executions += 1
        if self._executions <= self._complete or self._executions % _SAMPLE == 0:
            self._atheris._trace_branch = report
            function()
            self._atheris._trace_branch = self._reached.add
            return
        self._reached.clear()  # a mutator may use instrumented code
        function()
        if not self._reached <= self._known:
            self._known |= self._reached
            for branch in self._reached:
                report(branch)
