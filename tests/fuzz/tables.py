"""Target: random tables that are written, planned with tens of predicates, and read.

An input is the kinds of the columns and the writer's options; the values of the rows; the predicates. A value and a
literal are a number in a pool, so that what :mod:`tests.differential.oracle` says of a pair is computed once.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.planning.index.cache import process_cache
from bloomparquet.query.predicate import Column
from tests.differential import literals, writers
from tests.differential.cases import ROW_ID, Data, File, fits, narrowed
from tests.differential.kinds import KINDS, ORC_NAMES, Kind
from tests.differential.oracle import truth
from tests.fuzz.folder import CACHED, folder, no_wait
from tests.fuzz.mutate import change_bytes, join, split
from tests.fuzz.target import TALLY, Target

_COLUMNS: list[Column] = [("a",), ("e.f",), ("s", "x")]
_POOLS = 16
_POOL_SIZE = 24
_NULL = 255
_MOST_ROWS = 24
_MOST_PREDICATES = 64
_MOST_LEAVES = 4
_READ_EVERY = 16
_HEAD = 8
_STEP = 4  # bytes of a predicate
_ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
_OPERATORS = (
    bp.Eq, bp.Eq, bp.Eq, bp.Eq, bp.In, bp.In, bp.EqNullSafe, bp.NotEq, bp.Lt, bp.LtEq, bp.Gt, bp.GtEq, bp.NotIn,
    bp.IsNull, bp.IsNotNull, bp.StartsWith,
)  # fmt: skip
_FALSE, _UNKNOWN, _TRUE = 0, 1, 2  # in this order AND is the minimum and OR the maximum
_TRUTHS = {False: _FALSE, None: _UNKNOWN, True: _TRUE}

_numbers = itertools.count()


@dataclass(frozen=True)
class Format:
    """A file format: the kinds of columns that it has, and what writes its files."""

    kinds: list[Kind]
    write: Callable[[Data, Path], list[Path]]

    def narrower(self, kind: Kind) -> Kind:
        """A kind that some files may have in place of `kind`, which may be the only one."""
        names = [name for name in kind.narrower if KINDS[name] in self.kinds]
        return KINDS[names[-1]] if names else kind


PARQUET = Format(list(KINDS.values()), writers.write)
ORC = Format([KINDS[name] for name in ORC_NAMES], writers.write_orc)


@dataclass(frozen=True, eq=False)
class Pool:
    """Values of a kind, and the literals that they are compared with."""

    kind: Kind
    values: list[Any]
    literals: list[Any]

    def positions(self, narrow: Kind, chosen: bytes) -> list[int]:
        """The position in the pool of each chosen value that `narrow` holds; of NULL, the position after the last."""
        usable = [i for i, value in enumerate(self.values) if narrow is self.kind or fits(narrow, value)]
        null = len(self.values)
        return [null if each == _NULL or not usable else usable[each % len(usable)] for each in chosen]


@cache
def _pool(kind: Kind, number: int) -> Pool:
    values = list(itertools.islice(_examples(kind), number * _POOL_SIZE, (number + 1) * _POOL_SIZE))
    forms: list[Any] = [None, *literals.foreign(kind)]
    for value in values:
        for near in (value, *kind.near(value)):
            literal = literals.as_literal(kind, near)
            if literal is not None:
                forms += [literal, *literals.other_forms(kind, literal)]
    return Pool(kind, values, forms)


@cache
def _examples(kind: Kind) -> list[Any]:
    """Values for all pools of a kind, always the same."""
    drawn: list[Any] = []

    @settings(
        derandomize=True, database=None, deadline=None, max_examples=2 * _POOLS, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(kind.values, min_size=_POOL_SIZE, max_size=_POOL_SIZE))
    def draw(values: list[Any]) -> None:
        drawn.extend(values)

    draw()
    Random(1).shuffle(drawn)
    return list(itertools.islice(itertools.cycle(drawn), _POOLS * _POOL_SIZE))


@lru_cache(maxsize=200_000)
def _truths(pool: Pool, operator: type[bp.Predicate], chosen: int, zone: str) -> np.ndarray:
    """Whether the leaf predicate holds, for each value of the pool and for NULL."""
    column = ("v",)
    leaf = _leaf(pool, operator, chosen, column)
    rows = [*pool.values, None]
    return np.array([_TRUTHS[truth(leaf, {column: value}, {column: pool.kind}, zone)] for value in rows], np.int8)


def _leaf(pool: Pool, operator: type[bp.Predicate], chosen: int, column: Column) -> bp.Predicate:
    """The leaf predicate over `column` whose literals are those at `chosen`."""
    forms = pool.literals
    literal = forms[chosen % len(forms)]
    if operator in (bp.IsNull, bp.IsNotNull):
        return operator(column)  # type: ignore[call-arg]
    if operator in (bp.In, bp.NotIn):
        others = (forms[chosen // 3 % len(forms)], forms[chosen * 7 % len(forms)])
        return operator(column, (literal, *others[: chosen % 3]))  # type: ignore[call-arg, arg-type]
    if operator is bp.StartsWith:
        if pool.kind.family not in ("string", "binary"):
            return bp.Eq(column, literal)
        return bp.StartsWith(column, None if literal is None else literal[: chosen % 4])
    return operator(column, literal)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Table:
    """A data set of one or two files, and by column the position of each row's value in the pool. The second file may
    have narrower kinds."""

    data: Data
    pools: dict[Column, Pool]
    positions: dict[Column, np.ndarray]

    @classmethod
    def parse(cls, file_format: Format, head: bytes, values: bytes) -> Table:
        """`head`: three kinds, the number of columns, the number of the pools, the share of rows in the first file, the
        size of row groups, the writer's options. `values`: a byte for each value, column by column."""
        *chosen, columns, number, share, size, bits = head[:_HEAD].ljust(_HEAD, b"\0")
        kinds = [file_format.kinds[each % len(file_format.kinds)] for each in chosen[: 1 + columns % len(chosen)]]
        if any(kind.int96 for kind in kinds):  # a switch of the whole file
            kinds = [KINDS["int96 UTC"] if kind.family in ("timestamp", "ntz") else kind for kind in kinds]
        pools = {column: _pool(kind, number % _POOLS) for column, kind in zip(_COLUMNS, kinds)}
        rows = min(len(values) // len(pools), _MOST_ROWS)
        first = rows if share & 1 else rows * (share >> 1) // 128
        positions = {column: np.zeros(0, np.int64) for column in pools}
        files = []
        for start, end in [(0, first), (first, rows)][: 1 if first == rows else 2]:
            in_file: dict[Column, Kind] = {}
            stored: dict[Column, list[Any]] = {}
            for i, (column, pool) in enumerate(pools.items()):
                in_file[column] = file_format.narrower(pool.kind) if start else pool.kind
                at = pool.positions(in_file[column], values[i * rows + start : i * rows + end])
                stored[column] = [narrowed(in_file[column], pool.kind, (*pool.values, None)[each]) for each in at]
                positions[column] = np.append(positions[column], np.array(at, np.int64))
            files.append(_file(in_file, stored, end - start, size, bits))
        every = {column: pool.kind for column, pool in pools.items()}
        return cls(Data(every, tuple(files), timezone=_ZONES[(bits >> 6) % len(_ZONES)]), pools, positions)

    def predicates(self, steps: bytes) -> list[tuple[bp.Predicate, np.ndarray]]:
        """Predicates, and whether each holds, by row. A step is a leaf predicate, which may be joined with the last
        predicate."""
        columns, zone = list(self.pools), self.data.timezone
        found: list[tuple[bp.Predicate, np.ndarray]] = []
        leaves = 0
        for at in range(0, min(len(steps), _STEP * _MOST_PREDICATES) - _STEP + 1, _STEP):
            how, which, chosen = steps[at], steps[at + 1], int.from_bytes(steps[at + 2 : at + 4], "big")
            operator, column = _OPERATORS[how & 15], columns[which % len(columns)]
            pool = self.pools[column]
            predicate = _leaf(pool, operator, chosen, column)
            holds = _truths(pool, operator, chosen, zone)[self.positions[column]]
            if how & 64:
                predicate, holds = bp.Not(predicate), _TRUE - holds
            if how & 16 and 0 < leaves < _MOST_LEAVES:
                last, held = found[-1]
                predicate = (bp.And if how & 32 else bp.Or)(last, predicate)
                holds = (np.minimum if how & 32 else np.maximum)(held, holds)
                leaves += 1
            else:
                leaves = 1
            if how & 128 and leaves > 1:
                predicate, holds = bp.Not(predicate), _TRUE - holds
            found.append((predicate, holds))
        return found


def _file(kinds: dict[Column, Kind], values: dict[Column, list[Any]], rows: int, size: int, bits: int) -> File:
    return File(
        kinds, values, rows, group_size=1 + size % 8, required=bool(bits & 1), statistics=not bits & 2,
        dictionary=bool(bits & 4), store_schema=not bits & 8, decimal_as_integer=bool(bits & 16),
        page_version="2.0" if bits & 32 else "1.0", fpp=0.5 if size & 64 else 0.01,
    )  # fmt: skip


def _run(file_format: Format, data: bytes) -> None:
    head, values, steps = split(data, 3)
    table = Table.parse(file_format, head, values)
    number = next(_numbers)
    if number % CACHED == 0:
        process_cache.clear()
    root = folder() / f"table-{number}"
    try:
        with no_wait():
            _check(table, [str(path) for path in file_format.write(table.data, root)], steps)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _check(table: Table, paths: list[str], steps: bytes) -> None:
    """A row group with a matching row is kept, and a read returns the matching rows."""
    data = table.data
    groups: dict[tuple[str, int], slice] = {}
    for number, file in enumerate(data.files):
        first = data.first_rid(number)
        for index, start in enumerate(range(0, file.rows, file.group_size)):
            groups[paths[number], index] = slice(first + start, first + min(start + file.group_size, file.rows))
    dataset = bp.Dataset.open(paths)
    for number, (predicate, holds) in enumerate(table.predicates(steps)):
        matches = holds == _TRUE
        TALLY.predicates += 1
        plan = bp.plan(dataset, predicate, timezone=data.timezone)
        for group in plan.row_groups:
            if not group.kept:
                assert group.index is not None
                # A file without rows may have a row group.
                rows = matches[groups.get((group.path, group.index), slice(0))]
                assert not rows.any(), (
                    f"{group} was skipped for {predicate}, and rows {np.flatnonzero(rows)} of it match"
                )
        if number % _READ_EVERY == 0:
            read = bp.read_table(dataset, predicate, columns=[ROW_ID], merge_schema=True, timezone=data.timezone)
            assert read.column(ROW_ID).to_pylist() == np.flatnonzero(matches).tolist(), predicate


def _seeds(file_format: Format) -> list[bytes]:
    seeds = []
    for i in range(len(file_format.kinds)):
        random = Random(i)
        head = bytes([i, *random.randbytes(_HEAD - 1)])
        values = random.randbytes(random.choice((0, 3, 24, 72)))
        seeds.append(join([head, values, random.randbytes(_STEP * 16)]))
    return seeds


def _change(data: bytes, random: Random) -> bytes:
    """Another part of the input, at random: the head, the values, or all predicates."""
    pieces = split(data, 3)
    at = random.choice((0, 1, 2, 2))
    if at == 2 or random.random() < 0.3:
        size = (_HEAD, 3 * random.randrange(_MOST_ROWS + 1), _STEP * 32)[at]
        pieces[at] = random.randbytes(size)
    else:
        pieces[at] = change_bytes(pieces[at], random)
    return join(pieces)


def _target(name: str, file_format: Format) -> Target:
    return Target(name, partial(_seeds, file_format), partial(_run, file_format), _change, seconds=30.0, max_bytes=512)


TARGETS = [_target("table", PARQUET), _target("orc_table", ORC)]
