"""A fuzz target: inputs to begin with, and code that every input must pass. Finds are judged and minimised here.

An input is found bad if the code of the target raises, takes too long, or takes too much memory. A target catches the
errors that are promised for bad input itself.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutate import change_bytes

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).with_name("corpus")
_OWN_CODE = (str(ROOT / "python"), str(ROOT / "tests"))
_HARNESS = str(Path(__file__))
_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Its peak memory is that of the process, too. To add up the other numbers of all threads takes 100 microseconds."""
_MOST_MEMORY = 256 * 1024 * 1024
_MEMORY_PER_BYTE = 4096  # the limits of the product's parsers allow about a thousand


@dataclass(frozen=True)
class Target:
    """`run` raises for a bad input. `mutate` changes an input without destroying its structure. `seconds` is the limit
    of one input, in seconds of the processor. `max_bytes` is the size of new inputs: stored ones may be larger."""

    name: str
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes], None]
    mutate: Callable[[bytes, Random], bytes] = change_bytes
    seconds: float = 2.0
    max_bytes: int = 4096

    def stored(self) -> dict[str, bytes]:
        """The inputs that are kept in the repository, by file name."""
        return {path.name: path.read_bytes() for path in sorted((CORPUS / self.name).glob("*"))}


@dataclass(frozen=True)
class Find:
    """A fault that an input shows. Inputs with the same `signature` show the same fault."""

    signature: str
    report: str


class InputTimeoutError(BaseException):
    """An input took too long."""


def _stop(*_: Any) -> None:
    raise InputTimeoutError("the input took too much time of the processor")


@cache
def _handle_signals() -> None:
    """Once for each process: to ask for the handler takes longer than the rest of the harness."""
    signal.signal(signal.SIGVTALRM, _stop)


def _run(target: Target, data: bytes) -> None:
    """Raise InputTimeoutError if that takes too many seconds of the processor, at the end of it if not sooner."""
    _handle_signals()
    signal.setitimer(signal.ITIMER_VIRTUAL, target.seconds)
    try:
        target.run(data)
    finally:
        left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if not left:  # a handler may have swallowed the exception
        _stop()


def examine(target: Target, data: bytes) -> Find | None:
    """Run one input."""
    memory = _peak_memory()
    try:
        _run(target, data)
    except (Exception, InputTimeoutError) as error:  # noqa: BLE001 - each of them is a find
        return _find_of(error)
    grown = _peak_memory() - memory
    if grown > _MOST_MEMORY + _MEMORY_PER_BYTE * len(data):
        return Find("memory", f"{grown:,} more bytes of memory for an input of {len(data):,} bytes")
    return None


def minimise(target: Target, data: bytes, signature: str, seconds: float = 20.0) -> bytes:
    """A shorter input with the same signature: remove ever smaller parts as long as that is possible."""
    deadline = time.monotonic() + seconds
    size = len(data)
    while size and time.monotonic() < deadline:
        at, removed = 0, False
        while at < len(data) and time.monotonic() < deadline:
            shorter = data[:at] + data[at + size :]
            find = examine(target, shorter)
            if find is not None and find.signature == signature:
                data, removed = shorter, True
            else:
                at += size
        if not removed:
            size = size // 2 if size > 1 else 0
        size = min(size, len(data))
    return data


def limit_memory(extra: int) -> None:
    """Let this process have `extra` more bytes of address space. An allocation beyond raises MemoryError. On Linux."""
    if not sys.platform.startswith("linux"):
        return
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _peak_memory() -> int:
    peak = resource.getrusage(_THREAD).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _find_of(error: BaseException) -> Find:
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename.startswith(_OWN_CODE) and each.filename != _HARNESS]
    # Where a recursion or a loop is interrupted is chance: the outermost function names it.
    where = own[min(3, len(own) - 1)] if isinstance(error, (RecursionError, InputTimeoutError)) and own else None
    where = where or (own or frames)[-1]
    signature = f"{type(error).__name__}-{Path(where.filename).stem}-{where.name}"
    if not isinstance(error, (RecursionError, InputTimeoutError)):
        signature += f"-{where.lineno}"
    return Find(signature.replace("<", "").replace(">", ""), "".join(traceback.format_exception(error)))
