"""Interrupts after chosen lines of the package, as Ctrl-C makes them: KeyboardInterrupt, once."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

Line = tuple[str, int]


@contextmanager
def traced(part: str, lines: list[Line], at: int | None = None) -> Iterator[None]:
    """Append each line of files whose path contains `part` to `lines`, before it runs. Raise and catch an interrupt
    before line number `at`."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if part not in frame.f_code.co_filename:
            return None
        if event in ("line", "return"):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
            if len(lines) - 1 == at:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)


def first_and_last(lines: Sequence[Line]) -> list[int]:
    """The numbers in `lines` at which each line is run first, second, and last; without ``with``, which is also traced
    between the end of the block and the exit, where no signal is handled."""
    at: dict[Line, list[int]] = {}
    for i, line in enumerate(lines):
        if not linecache.getline(*line).lstrip().startswith("with "):
            at.setdefault(line, []).append(i)
    return sorted({i for each in at.values() for i in (*each[:2], each[-1])})
