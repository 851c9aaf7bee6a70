"""An interrupt after any line of a plan costs no row, now or later: what was learned is whole, or is not there."""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.index.lookup import forget_indexes
from tests.faults.injector import NUMBER, SEED
from tests.support.filters_in_memory import MIXED, Chunk, Column, encrypted, expected

MEDIUM = 256  # blocks: too many for the first read
Line = tuple[str, int]


@contextmanager
def traced(part: str, lines: list[Line], at: int | None = None) -> Iterator[None]:
    """Append each line of files whose path contains `part` to `lines`, before it runs. Raise and catch an interrupt
    before line number `at`, once, as Ctrl-C makes it."""

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


def folded() -> Column:
    """A column whose filters are read whole, and copied, one after the other."""
    return Column([[Chunk(MEDIUM, slice(200 * i, 200 * i + 200), has_length=False)] for i in range(4)])


def fill(column: Column) -> None:
    """Ask the filters by all ways in turn, so that each has what the former ones have learned."""
    n = len(column.chunks)
    for chunks in ([*range(0, n, 2)], [*range(n)]):
        for first, last in ((5_000, 5_001), (5_000, 5_400)):
            column.ask(chunks, [first] * len(chunks), [last] * len(chunks))


@pytest.mark.parametrize(
    "make", [folded, lambda: Column(MIXED), lambda: Column(encrypted({1, 2}))], ids=["folded", "mixed", "encrypted"]
)
def test_filters_prove_nothing_false_after_an_interrupt(make: Callable[[], Column]) -> None:
    fill(make())  # what runs once in a process has run
    gc.collect()  # no finalizer of earlier tests runs while lines are counted
    lines, column = list[Line](), make()
    with traced("bloomparquet/planning/", lines):
        fill(column)
    every = first_and_last(lines)
    for at in every if NUMBER else Random(SEED).sample(every, 30):
        column, ran = make(), list[Line]()
        with traced("bloomparquet/planning/", ran, at):
            fill(column)
        assert ran[-1] == lines[at]
        for again in range(2):
            for i, chunk in enumerate(column.chunks):
                value = chunk.values.stop - 1 - again
                held = value < 0 or column.ask([i], [value], [value + 1]) == [True]
                assert held, f"a lost value after {lines[at]}"
            fill(column)
        answers = [expected(chunk, 5_000, 5_001) for chunk in column.chunks]
        assert column.ask_all(5_000) == answers, f"another answer after {lines[at]}"


def parquet(path: Path) -> None:
    for i in range(3):
        table = pa.table({"x": range(i, 6_000, 3)})
        bp.write_table(table, path / f"{i}.parquet", bloom={"x": bp.Bloom(ndv=6_000)}, row_group_size=1_000)


def with_index(path: Path) -> None:
    parquet(path)
    bp.build_index(path)


def orc(path: Path) -> None:
    for i in range(3):
        table = pa.table({"x": range(i, 6_000, 3)})
        pa.orc.write_table(
            table, str(path / f"{i}.orc"), bloom_filter_columns=[0], row_index_stride=1_000, stripe_size=1,
            compression="uncompressed", batch_size=500,
        )  # fmt: skip


@pytest.mark.parametrize("make", [parquet, with_index, orc], ids=lambda make: make.__name__)
def test_plans_are_right_after_an_interrupt(make: Callable[[Path], None], tmp_path: Path) -> None:
    def run(values: range) -> list[tuple[int, int]]:
        return [
            (bp.plan(tmp_path, f"x = {value}").kept, bp.plan(tmp_path, f"x > 4500 AND x = {value}").kept)
            for value in values
        ]

    def forget() -> None:
        process_cache.clear()
        forget_indexes()

    make(tmp_path)
    forget()
    right = run(range(4_700, 4_704))
    forget()
    lines: list[Line] = []
    with traced("python/bloomparquet/", lines):
        run(range(4_700, 4_702))
    random = Random(SEED)
    for at in random.sample(first_and_last(lines), NUMBER // 10 or 10):
        forget()
        with traced("python/bloomparquet/", [], at):
            run(range(4_700, 4_702))
        assert run(range(4_700, 4_704)) == right, f"seed {SEED}: another answer after {lines[at]}"
