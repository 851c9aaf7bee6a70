"""Targets that write and read files: random tables, and mutated files compared with pyarrow.

A mutated file is one of a few sound ones with bytes of its pages and filters changed, and with a changed footer, whose
length is right. pyarrow reads the same bytes: where it reads them, `read_table` must give its rows, unless the file's
evidence contradicts its rows.
"""

from __future__ import annotations

import atexit
import datetime as dt
import itertools
import os
import shutil
import tempfile
from collections import Counter
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.planning.index import cache as cache_of_plans
from bloomparquet.planning.index.cache import process_cache
from tests.differential.cases import cases, data_sets
from tests.differential.test_core import check_cases
from tests.fuzz.metadata import file_of, footer_of
from tests.fuzz.mutate import change_bytes, change_some, change_thrift, join, split
from tests.fuzz.oracle import Oracle
from tests.fuzz.target import Target
from tests.support.core import Field, decode, encode, plan_with

_ROWS = 12
TABLE = pa.table(
    {
        "x": pa.array([7 * i % 25 for i in range(_ROWS)], pa.int64()),
        "s": [None if i % 5 == 3 else f"v{i % 7}" for i in range(_ROWS)],
        "t": pa.array([10**15 + i * 10**9 for i in range(_ROWS)], pa.timestamp("us", "UTC")),
        "i": pa.array([i - 3 for i in range(_ROWS)], pa.int32()),
        "n": pa.array([None if i % 4 == 1 else {"u": i % 3} for i in range(_ROWS)], pa.struct([("u", pa.int32())])),
    }
)
WHERES: list[bp.Predicate] = [
    bp.Eq("x", 14),
    bp.In("x", (3, 10, 1000)),
    bp.Eq("s", "v3"),
    bp.Or(bp.Lt("i", -2), bp.Gt("x", 23)),
    bp.And(bp.IsNull("s"), bp.GtEq("x", 0)),
    bp.Eq(("n", "u"), 2),
    bp.Not(bp.Eq("s", "v1")),
    bp.GtEq("t", dt.datetime(2001, 9, 9, 3, 46, 40, tzinfo=dt.timezone.utc)),
    bp.IsNotNull("n"),
    bp.Or(bp.Eq("i", 5), bp.Eq("s", "v6")),
]
CACHED = 32
"""How many files the process's cache may know: each plan of a new file looks at them all."""

_numbers = itertools.count()
_oracle = Oracle()
atexit.register(_oracle.close)


@cache
def folder() -> Path:
    """A directory for the files of this process, in memory if that is possible."""
    made = Path(tempfile.mkdtemp(prefix=f"bloomparquet-fuzz-{os.getpid()}-", dir=_parent_folder()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _parent_folder() -> Path:
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


def no_wait() -> AbstractContextManager[object]:
    """Plan without the wait for the clock after a file was written. No input changes a file, so no change is missed."""
    return patch.object(cache_of_plans, "wait_for_clock", lambda *_: None)


def remove_folder_of(process: int) -> None:
    """Remove the directory of a process that has ended. libFuzzer ends a process without a chance to clean up."""
    for left in _parent_folder().glob(f"bloomparquet-fuzz-{process}-*"):
        shutil.rmtree(left, ignore_errors=True)


@cache
def _files() -> list[tuple[bytes, bytes]]:
    """Sound files, before the footer and the footer. Our writer's has filters of every column."""
    ours = folder() / "ours.parquet"
    bp.write_table(TABLE, ours, bloom=["x", "s", "t", "i"], row_group_size=4)
    options = {"ndv": 4, "fpp": 0.01}
    plain = {"compression": "none", "use_dictionary": False, "store_schema": False}
    written = [
        ours.read_bytes(),
        file_of(TABLE, row_group_size=4, bloom_filter_options=dict.fromkeys(("x", "s", "i"), options), **plain),
        file_of(TABLE, row_group_size=3, write_statistics=False, bloom_filter_options={"x": options}, **plain),
        file_of(TABLE.select(["x", "s", "i"]), row_group_size=6, data_page_version="2.0", compression="zstd"),
    ]
    return [(data[: -8 - len(footer_of(data))], footer_of(data)) for data in written]


def _file_seeds() -> list[bytes]:
    return [
        join([bytes([number, where]), b"", footer])
        for number, (_, footer) in enumerate(_files())
        for where in range(number, len(WHERES), 4)
    ]


def _run_file(data: bytes) -> None:
    """The number of the file and of the predicate; changes of bytes (place, byte); the footer."""
    head, changes, footer = split(data, 3)
    first, second = (head + b"\0\0")[:2]
    body, where = bytearray(_files()[first % len(_files())][0]), WHERES[second % len(WHERES)]
    for i in range(0, len(changes) - 2, 3):
        body[int.from_bytes(changes[i : i + 2], "big") % len(body)] = changes[i + 2]
    number = next(_numbers)
    if number % CACHED == 0:
        process_cache.clear()
    path = folder() / f"{number}.parquet"
    path.write_bytes(bytes(body) + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    try:
        with no_wait():
            _compare(str(path), where)
    finally:
        path.unlink()


def _compare(path: str, where: bp.Predicate) -> None:
    skipped: list[tuple[int, str]] = []
    try:
        plan = plan_with(path, where, strict=False)
    except bp.BloomParquetError as error:
        if path not in str(error):
            raise AssertionError("the error does not name the file") from error
    else:
        assert plan.total == plan.kept + plan.skipped.total() == len(list(plan.row_groups))
        skipped = [
            (group.index, str(group.reason)) for group in plan.row_groups if group.index is not None and not group.kept
        ]
    answer = _oracle.ask(path, where, skipped)
    if answer is None:  # pyarrow would end this process too
        return
    assert not answer.lost, answer.lost
    try:
        rows = bp.read_table(path, where)
    except bp.BloomParquetError:
        return
    except (OSError, pa.ArrowException):
        assert answer.rows is None
        return
    if answer.rows is not None:
        assert _is_same(rows, answer.rows), (rows, answer.rows)


def _is_same(rows: pa.Table, expected: pa.Table) -> bool:
    if rows.num_rows != expected.num_rows:
        return False
    return all(
        # A column of floating-point numbers, which only a mutation makes, may have NaN.
        one.equals(other) or pa.types.is_floating(one.type)
        for one, other in zip(map(_stored, rows.columns), map(_stored, expected.columns), strict=True)
    )


def _stored(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without an extension type: `read_table` gives JSON as text."""
    array = column.combine_chunks()
    return array.storage if isinstance(array, pa.ExtensionArray) else array


@settings(database=None, deadline=None, max_examples=1, suppress_health_check=list(HealthCheck), print_blob=False)
@given(st.data())
def _check_table(draws: st.DataObject) -> None:
    data = draws.draw(data_sets(spark=False, max_files=2))
    check_cases(data, draws.draw(cases(data, spark=False)), Counter(), lambda _: None)


def _run_table(data: bytes) -> None:
    """Bytes that hypothesis makes a data set and predicates of; see :mod:`tests.differential.test_core`."""
    with no_wait():
        _check_table.hypothesis.fuzz_one_input(data)  # type: ignore[attr-defined]
    if next(_numbers) % CACHED == 0:
        process_cache.clear()


def _table_seeds() -> list[bytes]:
    return [Random(i).randbytes(6000) for i in range(8)]


_CONVERTED, _PRECISION, _SCALE, _LOGICAL = 6, 7, 8, 10  # fields of SchemaElement
_LOGICAL_TYPES = (1, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15)


def _change_annotation(footer: bytes, random: Random) -> bytes:
    """Give a column another converted or logical type: that decides how its stored values are ordered and hashed."""
    tree = decode(footer)
    element = random.choice(tree[2].value.values[1:])
    if random.random() < 0.5:
        element[_CONVERTED] = Field(5, random.randrange(22))
    if random.random() < 0.3:
        element.pop(random.choice((_CONVERTED, _LOGICAL)), None)
    if random.random() < 0.6:
        kind = random.choice(_LOGICAL_TYPES)
        unit = Field(12, {random.randrange(1, 4): Field(12, {})})
        of_kind = {
            5: {1: Field(5, random.randrange(3)), 2: Field(5, random.randrange(1, 19))},
            7: {1: Field(1, random.random() < 0.5), 2: unit},
            8: {1: Field(1, random.random() < 0.5), 2: unit},
            10: {1: Field(3, random.choice((8, 16, 32, 64))), 2: Field(1, random.random() < 0.5)},
        }
        element[_LOGICAL] = Field(12, {kind: Field(12, of_kind.get(kind, {}))})
    if random.random() < 0.3:
        element[_SCALE], element[_PRECISION] = Field(5, random.randrange(3)), Field(5, random.randrange(1, 19))
    if random.random() < 0.2:
        tree.pop(7, None)  # column_orders
    tree[2].value.values[:] = [dict(sorted(each.items())) for each in tree[2].value.values]
    return encode(tree)


def _change_file(data: bytes, random: Random) -> bytes:
    pieces = split(data, 3)
    at = random.choice((0, 1, 2, 2, 2, 2))
    if at == 0:
        pieces[0] = random.randbytes(2)
    elif at == 1:
        pieces[1] += random.randbytes(3)
    elif random.random() < 0.4:
        pieces[2] = change_some(_change_annotation, 0)(pieces[2], random)
    else:
        pieces[2] = change_thrift(pieces[2], random)
    return join(pieces)


TARGETS = [
    Target("file", _file_seeds, _run_file, _change_file, seconds=4.0, max_bytes=8192),
    Target("table", _table_seeds, _run_table, change_bytes, seconds=30.0, max_bytes=8192),
]
