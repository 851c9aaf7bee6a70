"""Kills processes with SIGKILL at every point at which the state of the disk differs.

A child runs a function. Each of its calls that changes a file is counted, and it ends itself before or in the midst of
the one that is named: `every_point` gives all of them, so that none is left to chance.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

_CALLS = (
    "write", "copy_file_range", "rename", "replace", "unlink", "mkdir", "rmdir", "fsync", "ftruncate", "fchmod",
    "fchown",
)  # fmt: skip
"""Functions of `os` that change files. `open` counts, too, when it creates a file."""
_IN_PARTS = {"write": 1, "copy_file_range": 2}
"""Functions that may do a part of their work, and the index of the argument that says how much."""

Point = tuple[int, bool]
"""The number of a call, from 1, and whether to end in the midst of it instead of before. After the last call, it is
one more than there are calls."""

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["bloomparquet.indexing.build", "bloomparquet.writing.retrofit.retrofit", "pyarrow.parquet", "pytest"]
)


def every_point(function: Callable[..., Any], *arguments: Any) -> Iterator[Point]:
    """All points at which a child that runs the function can be killed, counted in a child that is not killed.

    In a row of equal calls that write one file, only the ends count: between them, the file merely grows.
    """
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(function, arguments, None, send))
    child.start()
    send.close()
    calls: list[str] = receive.recv()
    child.join()
    assert child.exitcode == 0, f"the child failed: {child.exitcode}"
    for number, name in enumerate(calls, 1):
        if name in _IN_PARTS and calls[number - 2 : number + 1] == [name] * 3:
            continue
        yield number, False
        if name in _IN_PARTS:
            yield number, True
    yield len(calls) + 1, False


def killed_at(point: Point, function: Callable[..., Any], *arguments: Any) -> None:
    """Run the function in a child that is killed at `point`."""
    child = context.Process(target=_run, args=(function, arguments, point, None))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, f"the child was not killed at {point}: exit code {child.exitcode}"


def start(function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """Start a child that runs the function. Returns when the function begins."""
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_tell_and_run, args=(function, arguments, send))
    child.start()
    send.close()
    receive.recv()
    return child


def _tell_and_run(function: Callable[..., Any], arguments: tuple[Any, ...], began: Any) -> None:
    began.send(True)
    function(*arguments)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...], point: Point | None, report: Any) -> None:
    seen: list[str] = []

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def watch(name: str, original: Callable[..., Any]) -> None:
        def watched(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return original(*args, **options)
            seen.append(name)
            number, is_amidst = point or (0, False)
            if number == len(seen):
                if is_amidst:
                    _do_half(name, original, args)
                die()
            return original(*args, **options)

        setattr(os, name, watched)

    for name in (*_CALLS, "open"):
        watch(name, getattr(os, name))
    function(*arguments)
    if point == (len(seen) + 1, False):
        die()
    if report is not None:
        report.send(list(seen))


def _do_half(name: str, original: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if name == "write":
        original(args[0], memoryview(args[1])[: max(len(args[1]) // 2, 1)])
    else:
        original(*args[:2], max(args[2] // 2, 1), *args[3:])
