"""Target: mutated files, compared with pyarrow.

A mutated file is one of a few sound ones with bytes of its pages and filters changed, and with a changed footer, whose
length is right. pyarrow reads the same bytes: where it reads them, a plan must keep the row groups with matching rows,
and `read_table` give the rows, unless the file's evidence contradicts its rows. Some predicates are always the same;
the others ask for values that pyarrow reads, whatever type a mutation gave to the column.
"""

from __future__ import annotations

import atexit
import datetime as dt
import itertools
from functools import cache
from random import Random

import pyarrow as pa

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.fuzz.folder import CACHED, folder, no_wait
from tests.fuzz.metadata import file_of, footer_of
from tests.fuzz.mutate import change_some, change_thrift, join, split
from tests.fuzz.oracle import Answer, Oracle, Values
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
_VALUE_PREDICATES = 40
_COMPARISONS = (bp.Eq, bp.Eq, bp.Eq, bp.EqNullSafe, bp.NotEq, bp.Lt, bp.LtEq, bp.Gt, bp.GtEq)
_numbers = itertools.count()
_oracle = Oracle()
atexit.register(_oracle.close)


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


@cache
def _file_seeds() -> list[bytes]:
    return [
        join([bytes([number, where]), b"", footer])
        for number, (_, footer) in enumerate(_files())
        for where in range(number, len(WHERES), 4)
    ]


def _run_file(data: bytes) -> None:
    """The number of the file and of the predicate, and what chooses others; changes of bytes (place, byte); the
    footer."""
    head, changes, footer = split(data, 3)
    first, second = (head + b"\0\0")[:2]
    body = bytearray(_files()[first % len(_files())][0])
    for i in range(0, len(changes) - 2, 3):
        body[int.from_bytes(changes[i : i + 2], "big") % len(body)] = changes[i + 2]
    number = next(_numbers)
    if number % CACHED == 0:
        process_cache.clear()
    path = folder() / f"{number}.parquet"
    path.write_bytes(bytes(body) + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    try:
        with no_wait():
            _compare(str(path), second % len(WHERES), Random(head))
    finally:
        path.unlink()


def _compare(path: str, first: int, random: Random) -> None:
    """Plan with every predicate, and read with the `first` and the last."""
    values = _oracle.values(path)
    wheres = [*WHERES[first:], *WHERES[:first], *_about(values, random)] if values else WHERES[first : first + 1]
    dataset, questions = bp.Dataset.open(path), []
    for where in wheres:
        is_read = where in (wheres[0], wheres[-1])
        try:
            skipped = _plan(dataset, where)
        except bp.FormatError:  # of every predicate
            questions.append((where, [], is_read))
            break
        except bp.BloomParquetError:
            skipped = []
        questions.append((where, skipped, is_read))
    answers = _oracle.answers(questions) if values is not None else None
    if answers is None:  # pyarrow would end this process too
        return
    for (where, _, is_read), answer in zip(questions, answers, strict=True):
        assert not answer.lost, answer.lost
        if is_read:
            _read(dataset, where, answer)


def _about(values: Values, random: Random) -> list[bp.Predicate]:
    """Predicates about the values of columns. Half of them have two columns, or one twice."""
    usable = [each for each in values if each[1]]
    if not usable:
        return []
    return [_leaf(usable, random) for _ in range(_VALUE_PREDICATES // 2)] + [
        random.choice((bp.And, bp.Or))(_leaf(usable, random), _leaf(usable, random))
        for _ in range(_VALUE_PREDICATES // 2)
    ]


def _leaf(values: Values, random: Random) -> bp.Predicate:
    column, candidates = random.choice(values)
    if random.random() < 0.2:
        return bp.In(column, tuple(random.choices(candidates, k=3)))
    leaf = random.choice(_COMPARISONS)(column, random.choice(candidates))
    return bp.Not(leaf) if random.random() < 0.1 else leaf


def _read(dataset: bp.Dataset, where: bp.Predicate, expected: Answer) -> None:
    try:
        rows = bp.read_table(dataset, where)
    except bp.BloomParquetError:
        return
    except (OSError, pa.ArrowException):
        assert not expected.readable
        return
    if expected.rows is not None:
        assert _is_same(rows, expected.rows), (rows, expected.rows)


def _plan(dataset: bp.Dataset, where: bp.Predicate) -> list[tuple[int, str]]:
    """The row groups that a plan skips, and the evidence."""
    try:
        plan = plan_with(dataset, where, strict=False)
    except bp.BloomParquetError as error:
        if dataset.files[0].path not in str(error):
            raise AssertionError("the error does not name the file") from error
        raise
    assert plan.total == plan.kept + plan.skipped.total() == len(list(plan.row_groups))
    return [(group.index, str(group.reason)) for group in plan.row_groups if group.index is not None and not group.kept]


def _is_same(rows: pa.Table, expected: pa.Table) -> bool:
    if rows.num_rows != expected.num_rows:
        return False
    return all(
        # A column of floating-point numbers, which only a mutation makes, may have NaN.
        one.equals(other) or pa.types.is_floating(one.type) or (not rows.num_rows and _has_timestamps(one.type))
        for one, other in zip(map(_stored, rows.columns), map(_stored, expected.columns), strict=True)
    )


def _stored(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without an extension type: `read_table` gives JSON as text."""
    array = column.combine_chunks()
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _has_timestamps(kind: pa.DataType) -> bool:
    """`read_table` gives INT96 another unit, and a time zone. A column that a mutation made one can be read only
    without rows."""
    return "timestamp[" in str(kind)


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
    """Half of the changes begin with a sound file: pyarrow cannot read most files that were changed several times."""
    pieces = split(random.choice(_file_seeds()) if random.random() < 0.5 else data, 3)
    at = random.choice((0, 1, 2, 2, 2, 2))
    if at == 0:
        pieces[0] = random.randbytes(4)
    elif at == 1:
        pieces[1] += random.randbytes(3)
    elif random.random() < 0.4:
        pieces[2] = change_some(_change_annotation, 0)(pieces[2], random)
    else:
        pieces[2] = change_thrift(pieces[2], random)
    return join(pieces)


TARGETS = [Target("file", _file_seeds, _run_file, _change_file, seconds=4.0, max_bytes=8192)]
