"""Which branches an execution reached, for libFuzzer.

atheris inserts a call at every branch, and the calls take longer than most of what is tested. Here an execution jumps
over the calls of branches that were reached before, so that it costs hardly more than without atheris. If it reaches a
new branch it is repeated with all calls, and libFuzzer keeps the input. libFuzzer also keeps inputs that take known
branches more often, or in another combination: it sees these only among the first executions and in one execution of
32, which have all calls.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import zip_longest
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_CALL = "_trace_branch"
_CALL_STACK = 3  # the function, the NULL of its call, and the number of the branch
_PERIOD = 4096
_COMPLETE = _PERIOD // 32  # executions at the end of each period, in a row: to change all functions takes milliseconds


class _Call(NamedTuple):
    """The inserted call at a branch: the branch's number, where the call begins, and a jump that takes its place."""

    branch: int
    start: int
    jump: bytes


def instrumented_functions() -> list[FunctionType]:
    return [each for each in gc.get_objects() if isinstance(each, FunctionType) and _branches(each.__code__)]


class Branches:
    """Decides which calls `functions` have. The first `complete` executions have all: the inputs of earlier runs."""

    def __init__(self, atheris: Any, functions: Iterable[FunctionType], complete: int) -> None:
        self._atheris = atheris
        self._functions = [(each, each.__code__) for each in functions]
        self._quick = [code for _, code in self._functions]
        self._is_quick = False
        self._report: Callable[[int], None] | None = None
        self._known: set[int] = set()
        self._reached: set[int] = set()
        self._complete = complete
        self._executions = 0

    def trace(self, function: Callable[[], object]) -> None:
        """Call `function` and report."""
        self._report = self._report or self._atheris._trace_branch  # `atheris.Fuzz` sets it
        self._executions += 1
        self._reached.clear()  # a mutator may use instrumented code
        if self._executions <= self._complete:
            self._execute_completely(function)
            return
        if self._executions % _PERIOD >= _PERIOD - _COMPLETE:
            self._use(quick=False, call=self._report)
            function()
            return
        self._use(quick=True, call=self._reached.add)
        function()
        if self._reached:
            self._execute_completely(function)

    def _execute_completely(self, function: Callable[[], object]) -> None:
        """Report all branches of an execution, and leave them out of later ones."""
        report = self._report
        assert report is not None
        new = self._reached
        for branch in new:  # those of a first execution that a second one need not reach
            report(branch)

        def call(branch: int) -> None:
            new.add(branch)
            report(branch)

        self._use(quick=False, call=call)
        function()
        new -= self._known
        self._known |= new
        for i, (_, code) in enumerate(self._functions):
            if not new.isdisjoint(_branches(code)):
                self._quick[i] = _without(code, self._known)
        new.clear()

    def _use(self, *, quick: bool, call: Callable[[int], None]) -> None:
        self._atheris._trace_branch = call
        if quick != self._is_quick:
            self._is_quick = quick
            for (function, code), quick_code in zip(self._functions, self._quick, strict=True):
                function.__code__ = quick_code if quick else code


@cache
def _calls(code: CodeType) -> tuple[_Call, ...]:
    return tuple(_find_calls(code)) if _CALL in code.co_names else ()


def _find_calls(code: CodeType) -> Iterator[_Call]:
    instructions = list(dis.get_instructions(code))
    for i, each in enumerate(instructions):
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval == _CALL:
            branch = next(after for after in instructions[i:] if after.opname == "LOAD_CONST")
            last = next(after for after in instructions[i:] if after.opname == "POP_TOP")
            first = i - 1
            while instructions[first].opname == "EXTENDED_ARG":
                first -= 1
            while instructions[first - 1].opname == "EXTENDED_ARG":
                first -= 1
            # Before 3.13 the NULL of a call is below the function on the stack, and so it comes first.
            if sys.version_info < (3, 13) and instructions[first - 1].opname == "PUSH_NULL":
                first -= 1
            start = instructions[first].offset
            yield _Call(branch.argval, start, bytes([dis.opmap["JUMP_FORWARD"], (last.offset - start) // 2]))


@cache
def _branches(code: CodeType) -> frozenset[int]:
    """The branches of a function and of the functions in it."""
    own = {call.branch for call in _calls(code)}
    return frozenset(own.union(*(_branches(each) for each in code.co_consts if isinstance(each, CodeType))))


def _without(code: CodeType, branches: set[int]) -> CodeType:
    """`code` that jumps over the calls of these branches."""
    raw = bytearray(code.co_code)
    for call in _calls(code):
        if call.branch in branches:
            raw[call.start : call.start + 2] = call.jump
    constants = [_without(each, branches) if isinstance(each, CodeType) else each for each in code.co_consts]
    return code.replace(co_code=bytes(raw), co_consts=tuple(constants))


def shrink_stack(patched: CodeType, original: CodeType) -> CodeType:
    """Code that atheris has `patched`, with a stack of the right size. atheris adds up all that the function pushes,
    and with such stacks Python allocates memory at many calls."""
    constants = [
        shrink_stack(new, old) if isinstance(old, CodeType) else new
        for new, old in zip_longest(patched.co_consts, original.co_consts)
    ]
    return patched.replace(co_stacksize=original.co_stacksize + _CALL_STACK, co_consts=tuple(constants))
