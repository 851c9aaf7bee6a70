"""An oracle in plain Python for the truth of a predicate, row by row, and tables of every type to ask it about.

:mod:`tests.differential.oracle` is the oracle of plans and reads of random files. The two share no code, so that an
error in one of them shows.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import strategies as st

from bloomparquet.query.predicate import (
    Always,
    And,
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Or,
    Predicate,
    StartsWith,
)

ZONE = "America/New_York"
UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1)


# ---- the oracle ----


def _number(value: Any) -> tuple[bool, Any]:
    """A sort key in Spark's order of numbers: NaN is last, all others are exact."""
    if isinstance(value, float):
        return (True, 0) if math.isnan(value) else (False, value if math.isinf(value) else Fraction(value))
    return False, Fraction(value)


def _in_doubles(literal: Any) -> tuple[bool, Any]:
    """Spark compares a DOUBLE with an integer or a DECIMAL as DOUBLE."""
    try:
        nearest = literal if isinstance(literal, float) else float(literal)
    except OverflowError:
        return _number(literal)
    return _number(nearest if math.isfinite(nearest) or isinstance(literal, float) else literal)


def _micros(moment: dt.datetime) -> int:
    return (moment - (EPOCH.replace(tzinfo=UTC) if moment.tzinfo else EPOCH)) // dt.timedelta(microseconds=1)


def _instant(literal: Any) -> int:
    literal = dt.datetime.fromisoformat(literal) if isinstance(literal, str) else literal
    return _micros(literal if literal.tzinfo else literal.replace(tzinfo=ZoneInfo(ZONE)))


@dataclass(frozen=True)
class Column:
    """A column of the tables: its type, the cells and literals to draw, and functions that give their sort keys."""

    kind: pa.DataType
    cells: list[Any]
    literals: list[Any]
    cell: Callable[[Any], Any] = _number
    literal: Callable[[Any], Any] = _number
    to_arrow: Callable[[list[Any], pa.DataType], pa.Array] = pa.array


FLOATS = [
    0.0,
    -0.0,
    0.1,
    0.5,
    -1.5,
    1e300,
    -1e300,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    2.0**53,
    2.0**53 + 2,
    2.0**53 + 4,
]
FLOAT32 = [0.0, -0.0, 0.5, struct.unpack("f", struct.pack("f", 0.1))[0], math.nan, math.inf]
NUMBERS = [
    0.5,
    -0.0,
    1.0,
    127.5,
    1e30,
    -1e30,
    math.nan,
    math.inf,
    -math.inf,
    2**53 + 1,
    2**53 + 3,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    10**400,
    -(10**400),
]
LARGEST = [Decimal("9999999999.99"), Decimal("-9999999999.99")]
CENTS = [Decimal(cents) / 100 for cents in (-300, -150, -1, 0, 1, 10, 150, 151, 300)]
TEXTS = ["", "a", "ab", "b", "é", "中", "ab\0", "Z", "\U0001f600", "\uffff"]
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date.min, dt.date.max, dt.date(1969, 12, 31)]
MOMENTS = [
    EPOCH,
    EPOCH + dt.timedelta(microseconds=1),
    EPOCH - dt.timedelta(microseconds=1),
    EPOCH + dt.timedelta(hours=5),
    dt.datetime(2024, 3, 10, 2, 30),
    dt.datetime(2024, 11, 3, 1, 30),
    dt.datetime(1, 1, 3),
    dt.datetime(9999, 12, 30),
]
IDS = [UUID(int=0), UUID(int=1), UUID(int=2**127)]


def _integers(kind: pa.DataType, low: int, high: int) -> Column:
    cells = sorted({low, low + 1, max(low, -2), 0, 1, 2, high - 1, high})
    near = [low - 1, high + 1, Decimal(high), Decimal("1.5"), Decimal("-0.5"), low + 0.5]
    return Column(kind, cells, [*cells, *near, *NUMBERS])


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=UTC)


def _from_text(kind: Any) -> Callable[[Any], Any]:
    return lambda literal: kind.fromisoformat(literal) if isinstance(literal, str) else literal


def _bytes(literal: Any) -> bytes:
    return literal.encode() if isinstance(literal, str) else literal


COLUMNS = {
    "i8": _integers(pa.int8(), -128, 127),
    "u32": _integers(pa.uint32(), 0, 2**32 - 1),
    "i64": _integers(pa.int64(), -(2**63), 2**63 - 1),
    "u64": _integers(pa.uint64(), 0, 2**64 - 1),
    "f64": Column(
        pa.float64(), FLOATS, [*FLOATS, *NUMBERS, Decimal("0.1"), Decimal("-1e-500"), 1],
        literal=_in_doubles,
    ),
    "f32": Column(pa.float32(), FLOAT32, [*FLOAT32, *FLOATS, *NUMBERS], literal=_in_doubles),
    "f16": Column(pa.float16(), [0.0, -0.0, 0.5, math.nan], [*FLOATS, *NUMBERS], literal=_in_doubles),
    "dec": Column(
        pa.decimal128(12, 2), [*CENTS, *LARGEST],
        [*CENTS, *LARGEST, Decimal("1.505"), Decimal("1e50"), Decimal("9999999999.995"), 0.1, 1, -3, *NUMBERS],
        literal=lambda v: _number(Decimal(repr(v)) if isinstance(v, float) and math.isfinite(v) else v),
    ),
    "dec9": Column(pa.decimal32(9, 2), CENTS, [*CENTS, Decimal("1.505")]),
    "dec76": Column(
        pa.decimal256(76, 10), [Decimal(10) ** 65, Decimal("0.1"), Decimal(-1)],
        [10**65, 10**65 + 1, Decimal("0.1"), 10**66, -1, -(10**66)],
    ),
    "s": Column(pa.string(), TEXTS, TEXTS, str.encode, str.encode),
    "ls": Column(pa.large_string(), TEXTS, TEXTS, str.encode, str.encode),
    "sv": Column(pa.string_view(), TEXTS, TEXTS, str.encode, str.encode),
    "dict": Column(
        pa.dictionary(pa.int32(), pa.string()), TEXTS, TEXTS, str.encode, str.encode,
        lambda cells, _: pa.array(cells, pa.string()).dictionary_encode(),
    ),
    "b": Column(pa.binary(), [b"", b"\0", b"\xff", b"ab"], [b"", b"\0", b"\xff", b"\xff\0", "ab", "é"], bytes, _bytes),
    "bv": Column(pa.binary_view(), [b"", b"\xff", b"ab"], [b"", b"\xff", "ab"], bytes, _bytes),
    "fixed": Column(pa.binary(2), [b"ab", b"\xff\0"], [b"ab", b"a", b"abc", "ab", b"\xff\0"], bytes, _bytes),
    "id": Column(
        pa.uuid(), IDS, [*IDS, str(IDS[1]), IDS[2].bytes], lambda v: v.bytes,
        lambda v: v if isinstance(v, bytes) else UUID(str(v)).bytes,
        lambda cells, kind: pa.array([c and c.bytes for c in cells], pa.binary(16)).cast(kind),
    ),
    "flag": Column(pa.bool_(), [False, True], [False, True], int, int),
    "day": Column(
        pa.date32(), DAYS, [*DAYS, "2024-01-02"], dt.date.toordinal, lambda v: _from_text(dt.date)(v).toordinal()
    ),
    "day64": Column(
        pa.date64(), DAYS, [*DAYS, "2024-01-02"], dt.date.toordinal, lambda v: _from_text(dt.date)(v).toordinal()
    ),
    "clock": Column(
        pa.time64("us"), [dt.time(), dt.time(1, microsecond=1)],
        [dt.time(), dt.time(1), dt.time(1, microsecond=1), "01:00:00.000001"], dt.time.isoformat,
        lambda v: _from_text(dt.time)(v).isoformat(),
    ),
    "ntz": Column(
        pa.timestamp("us"), MOMENTS, [*MOMENTS, str(MOMENTS[1])], _micros, lambda v: _micros(_from_text(dt.datetime)(v))
    ),
    "tz": Column(
        pa.timestamp("us", "UTC"), [_in_utc(moment) for moment in MOMENTS],
        [*MOMENTS, *map(_in_utc, MOMENTS), str(MOMENTS[3]), str(_in_utc(MOMENTS[3]))], _micros, _instant,
    ),
    "ms": Column(pa.timestamp("ms"), [v.replace(microsecond=0) for v in MOMENTS], MOMENTS, _micros, _micros),
    "sec": Column(pa.timestamp("s"), [v.replace(microsecond=0) for v in MOMENTS], MOMENTS, _micros, _micros),
}  # fmt: skip
PATHS: dict[tuple[str, ...], str] = {(name,): name for name in COLUMNS}
PATHS |= {("st", "x"): "i8", ("st", "in ner", "s"): "s", ("a.b",): "i64", ("st.x",): "i8", ("absent",): "s"}

Kleene = bool | None
_COMPARE = {Lt: operator.lt, LtEq: operator.le, Gt: operator.gt, GtEq: operator.ge, Eq: operator.eq, NotEq: operator.ne}


def _sort_keys(column: tuple[str, ...], cell: Any, literal: Any) -> tuple[Any, Any]:
    kind = COLUMNS[PATHS[column]]
    return kind.cell(cell), kind.literal(literal)


def oracle(
    node: Predicate,
    row: dict[tuple[str, ...], Any],
    keys: Callable[[tuple[str, ...], Any, Any], tuple[Any, Any]] = _sort_keys,
) -> Kleene:
    """The truth of `node` for `row`. `keys` gives the sort keys of a column's cell and of a literal."""
    match node:
        case Always(value):
            return value
        case Not(child):
            value = oracle(child, row, keys)
            return None if value is None else not value
        case And(children) | Or(children):
            results = [oracle(child, row, keys) for child in children]
            decisive = isinstance(node, Or)
            return decisive if decisive in results else None if None in results else not decisive
        case IsNull(column):
            return row[column] is None
        case IsNotNull(column):
            return row[column] is not None
        case In(column, values):
            return oracle(Or(*(Eq(column, value) for value in values)), row, keys)
        case NotIn(column, values):
            return oracle(Not(In(column, values)), row, keys)
        case EqNullSafe(column, None):
            return row[column] is None
        case EqNullSafe(column, value):
            return row[column] is not None and oracle(Eq(column, value), row, keys)
        case StartsWith(column, prefix):
            cell = row[column]
            if cell is None or prefix is None:
                return None
            return (cell if isinstance(cell, bytes) else cell.encode()).startswith(prefix.encode())
        case (
            Eq(column, value)
            | NotEq(column, value)
            | Lt(column, value)
            | LtEq(column, value)
            | Gt(column, value)
            | GtEq(column, value)
        ):
            if row[column] is None or value is None:
                return None
            return _COMPARE[type(node)](*keys(column, row[column], value))
    raise AssertionError(node)


# ---- random tables and trees ----


@st.composite
def _leaves(draw: st.DrawFn) -> Predicate:
    path = draw(st.sampled_from(list(PATHS)))
    column = COLUMNS[PATHS[path]]
    shape = draw(st.sampled_from([Eq, NotEq, EqNullSafe, Lt, LtEq, Gt, GtEq, In, NotIn, IsNull, IsNotNull, StartsWith]))
    literal = st.sampled_from([*column.literals, None])
    if shape in (In, NotIn):
        return shape(path, draw(st.lists(literal, max_size=4)))
    if shape in (IsNull, IsNotNull):
        return shape(path)
    if shape is StartsWith:
        path = draw(st.sampled_from([("s",), ("b",), ("sv",), ("dict",), ("st", "in ner", "s")]))
        return shape(path, draw(st.sampled_from([*TEXTS, None])))
    return shape(path, draw(literal))


trees = st.recursive(
    _leaves() | st.sampled_from([Always(True), Always(False), Always(None)]),
    lambda child: st.one_of(
        st.builds(Not, child),
        st.lists(child, max_size=3).map(lambda children: And(*children)),
        st.lists(child, max_size=3).map(lambda children: Or(*children)),
    ),
    max_leaves=8,
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[tuple[str, ...], Any]]]:
    size = draw(st.integers(0, 6))

    def column(name: str) -> tuple[list[Any], pa.Array]:
        kind = COLUMNS[name]
        cells = draw(st.lists(st.sampled_from([*kind.cells, None]), min_size=size, max_size=size))
        return cells, kind.to_arrow(cells, kind.kind)

    drawn = {path: column(name) for path, name in PATHS.items() if path not in (("st.x",), ("absent",))}
    hidden = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    inner = pa.StructArray.from_arrays([drawn["st", "in ner", "s"][1]], ["s"])
    outer = pa.StructArray.from_arrays([drawn["st", "x"][1], inner], ["x", "in ner"], mask=pa.array(hidden, pa.bool_()))
    table = pa.table({".".join(path): array for path, (_, array) in drawn.items() if len(path) == 1} | {"st": outer})
    rows = []
    for index in range(size):
        row = {path: cells[index] for path, (cells, _) in drawn.items()}
        if hidden[index]:
            row["st", "x"] = row["st", "in ner", "s"] = None
        rows.append(row | {("st.x",): row["st", "x"], ("absent",): None})
    return table, rows
